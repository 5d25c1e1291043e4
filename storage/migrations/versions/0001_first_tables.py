"""The first tables: clusters, incidents and their evidence, diagnoses, messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.types import JsonColumn, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "cluster",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cluster"),
        sa.UniqueConstraint("name", name="uq_cluster_name"),
        sa.UniqueConstraint("token_hash", name="uq_cluster_token_hash"),
    )
    op.create_table(
        "incident",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("scheduler", sa.String(40), nullable=False),
        sa.Column("job_id", sa.String(200), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("node_facts", JsonColumn, nullable=False),
        sa.Column("controller_facts", JsonColumn, nullable=False),
        sa.Column("expected_reporters", sa.Integer(), nullable=True),
        sa.Column("fingerprint", sa.String(200), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("diagnosed_revision", sa.Integer(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=True),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("keep_until", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_incident_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_incident"),
        sa.UniqueConstraint(
            "cluster_id", "scheduler", "job_id", "attempt", name="uq_incident_cluster_id_scheduler_job_id_attempt"
        ),
    )
    op.create_index("ix_incident_due_at", "incident", ["due_at"])
    op.create_index("ix_incident_fingerprint", "incident", ["fingerprint"])
    op.create_table(
        "diagnosis",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("cause", sa.String(100), nullable=False),
        sa.Column("fingerprint", sa.String(200), nullable=False),
        sa.Column("document", JsonColumn, nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_diagnosis_incident_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_diagnosis"),
        sa.UniqueConstraint("incident_id", "version", name="uq_diagnosis_incident_id_version"),
    )
    op.create_table(
        "logfile",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("blob", sa.String(100), nullable=False),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_logfile_incident_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_logfile"),
        sa.UniqueConstraint("incident_id", "name", name="uq_logfile_incident_id_name"),
    )
    op.create_table(
        "message",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(100), nullable=False),
        sa.Column("ts", sa.String(40), nullable=False),
        sa.Column("posted_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_message_incident_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_message"),
        sa.UniqueConstraint("key", name="uq_message_key"),
    )
    op.create_index("ix_message_incident_id", "message", ["incident_id"])
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(100), nullable=False),
        sa.Column("content", JsonColumn, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("sent_revision", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=False),
        sa.Column("attempted_at", UtcDateTime(), nullable=True),
        sa.Column("attempted_revision", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(100), nullable=True),
        sa.Column("remedy", sa.String(), nullable=True),
        sa.Column("queued_at", UtcDateTime(), nullable=False),
        sa.Column("sent_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_outbox_incident_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("key", name="uq_outbox_key"),
    )
    op.create_index("ix_outbox_incident_id", "outbox", ["incident_id"])
    op.create_index("ix_outbox_state_due_at", "outbox", ["state", "due_at"])
    op.create_table(
        "report",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=False),
        sa.Column("reporter", sa.String(255), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("opened_at", UtcDateTime(), nullable=False),
        sa.Column("completed_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_report_incident_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_report"),
        sa.UniqueConstraint("incident_id", "reporter", "role", name="uq_report_incident_id_reporter_role"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("report")
    op.drop_table("outbox")
    op.drop_table("message")
    op.drop_table("logfile")
    op.drop_table("diagnosis")
    op.drop_table("incident")
    op.drop_table("cluster")
