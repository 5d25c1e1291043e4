"""Episodes: what people see as one failure, what they did about it, and what can be counted."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from storage.types import JsonColumn, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INDEXED = ("episode_id", "family", "cause", "owner")


def _counted() -> tuple[sa.Column[Any], ...]:
    """What an incident is counted by: new columns each time, since a column can be of one table only."""
    return (
        sa.Column("family", sa.String(300), nullable=False, server_default=""),
        sa.Column("outcome", sa.String(20), nullable=False, server_default=""),
        sa.Column("cause", sa.String(100), nullable=False, server_default=""),
        sa.Column("layer", sa.String(40), nullable=False, server_default=""),
        sa.Column("job_name", sa.String(200), nullable=False, server_default=""),
        sa.Column("owner", sa.String(100), nullable=False, server_default=""),
        sa.Column("ranks", sa.Integer(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
    )


def upgrade() -> None:
    """Apply. Each incident that was told becomes an episode of the same id, so that its messages stay its own."""
    op.create_table(
        "episode",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("fingerprint", sa.String(200), nullable=False),
        sa.Column("cause", sa.String(100), nullable=False),
        sa.Column("channels", JsonColumn, nullable=False),
        sa.Column("lead_id", sa.String(32), nullable=False),
        sa.Column("previous_id", sa.String(), nullable=True),
        sa.Column("merged_id", sa.String(), nullable=True),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("acknowledged_by", sa.String(40), nullable=True),
        sa.Column("acknowledged_at", UtcDateTime(), nullable=True),
        sa.Column("assignee", sa.String(40), nullable=True),
        sa.Column("resolved_by", sa.String(40), nullable=True),
        sa.Column("resolved_at", UtcDateTime(), nullable=True),
        sa.Column("resolution", sa.String(40), nullable=True),
        sa.Column("note", sa.String(1000), nullable=True),
        sa.Column("recovered_by", sa.String(200), nullable=True),
        sa.Column("holds", JsonColumn, nullable=False),
        sa.Column("opened_at", UtcDateTime(), nullable=False),
        sa.Column("last_at", UtcDateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("told_revision", sa.Integer(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=True),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["previous_id"], ["episode.id"], name="fk_episode_previous_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["merged_id"], ["episode.id"], name="fk_episode_merged_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_episode"),
    )
    op.create_index("ix_episode_due_at", "episode", ["due_at"])
    op.create_index("ix_episode_fingerprint_last_at", "episode", ["fingerprint", "last_at"])
    op.create_index("ix_episode_state", "episode", ["state"])
    op.create_table(
        "action",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("episode_id", sa.String(), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("user", sa.String(40), nullable=False),
        sa.Column("user_name", sa.String(100), nullable=False),
        sa.Column("detail", JsonColumn, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["episode_id"], ["episode.id"], name="fk_action_episode_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_action_incident_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_action"),
        sa.UniqueConstraint("key", name="uq_action_key"),
    )
    op.create_index("ix_action_episode_id", "action", ["episode_id"])
    op.create_table(
        "mute",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(200), nullable=False),
        sa.Column("channel", sa.String(100), nullable=False),
        sa.Column("user", sa.String(40), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_mute"),
    )
    op.create_index("ix_mute_fingerprint_channel", "mute", ["fingerprint", "channel"])
    op.create_table(
        "incidentnode",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("part", sa.String(20), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name="fk_incidentnode_incident_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_incidentnode"),
        sa.UniqueConstraint("incident_id", "host", "part", name="uq_incidentnode_incident_id_host_part"),
    )
    op.create_index("ix_incidentnode_host", "incidentnode", ["host"])
    _adopt()
    with op.batch_alter_table("incident") as incident:
        incident.add_column(sa.Column("episode_id", sa.String(), nullable=True))
        for column in _counted():
            incident.add_column(column)
        incident.create_foreign_key("fk_incident_episode_id", "episode", ["episode_id"], ["id"], ondelete="SET NULL")
    with op.batch_alter_table("incident") as incident:  # the defaults were for the rows that stood there
        for column in _counted():
            if not column.nullable:
                incident.alter_column(column.name, server_default=None)
    for name in _INDEXED:
        op.create_index(f"ix_incident_{name}", "incident", [name])
    op.execute("UPDATE incident SET episode_id = id WHERE id IN (SELECT id FROM episode)")
    op.execute("UPDATE incident SET state = 'diagnosed' WHERE state IN ('acknowledged', 'resolved')")
    for table in ("message", "outbox"):
        op.drop_index(f"ix_{table}_incident_id", table)
        with op.batch_alter_table(table) as altered:
            altered.drop_constraint(f"fk_{table}_incident_id", type_="foreignkey")
            altered.alter_column("incident_id", new_column_name="episode_id", nullable=True)
        with op.batch_alter_table(table) as altered:  # a renamed column gets its key only when it is there
            altered.create_foreign_key(f"fk_{table}_episode_id", "episode", ["episode_id"], ["id"], ondelete="CASCADE")
        op.create_index(f"ix_{table}_episode_id", table, ["episode_id"])
    op.add_column("diagnosis", sa.Column("dossier", JsonColumn, nullable=True))
    with op.batch_alter_table("outbox") as outbox:
        outbox.add_column(sa.Column("parent_key", sa.String(200), nullable=True))
        outbox.add_column(sa.Column("thread_ts", sa.String(40), nullable=True))
        outbox.add_column(sa.Column("kind", sa.String(20), nullable=False, server_default="message"))
    with op.batch_alter_table("outbox") as outbox:
        outbox.alter_column("kind", server_default=None)


def _adopt() -> None:
    told = sa.text(
        "SELECT o.channel, i.id, i.fingerprint, i.state, i.created_at, i.updated_at FROM outbox o "
        "JOIN incident i ON i.id = o.incident_id"
    ).columns(created_at=UtcDateTime(), updated_at=UtcDateTime())
    names = "id fingerprint cause channels lead_id state opened_at last_at revision told_revision".split()
    episode = sa.table(
        "episode",
        *(sa.column(name) for name in names if name not in {"channels", "opened_at", "last_at"}),
        sa.column("channels", JsonColumn),
        sa.column("holds", JsonColumn),
        sa.column("opened_at", UtcDateTime()),
        sa.column("last_at", UtcDateTime()),
    )
    states = {"acknowledged": "acknowledged", "resolved": "resolved"}
    rows = [
        {
            "id": row.id,
            "fingerprint": row.fingerprint,
            "cause": "",
            "channels": [row.channel],
            "lead_id": row.id,
            "state": states.get(row.state, "open"),
            "opened_at": row.created_at,
            "last_at": row.updated_at,
            "holds": {},
            "revision": 1,
            "told_revision": 1,
        }
        for row in op.get_bind().execute(told)
    ]
    if rows:
        op.bulk_insert(episode, rows)


def downgrade() -> None:
    """Undo. What stood in threads, and messages of no incident, are forgotten."""
    for table in ("message", "outbox"):
        op.execute(f"DELETE FROM {table} WHERE episode_id IS NULL")  # noqa: S608
        op.execute(
            f"UPDATE {table} SET episode_id = (SELECT lead_id FROM episode WHERE episode.id = {table}.episode_id)"  # noqa: S608
        )
    op.execute("DELETE FROM outbox WHERE parent_key IS NOT NULL OR thread_ts IS NOT NULL")
    op.drop_column("diagnosis", "dossier")
    with op.batch_alter_table("outbox") as outbox:
        outbox.drop_column("kind")
        outbox.drop_column("thread_ts")
        outbox.drop_column("parent_key")
    for table in ("message", "outbox"):
        op.drop_index(f"ix_{table}_episode_id", table)
        with op.batch_alter_table(table) as altered:
            altered.drop_constraint(f"fk_{table}_episode_id", type_="foreignkey")
            altered.alter_column("episode_id", new_column_name="incident_id", nullable=False)
        with op.batch_alter_table(table) as altered:
            altered.create_foreign_key(
                f"fk_{table}_incident_id", "incident", ["incident_id"], ["id"], ondelete="CASCADE"
            )
        op.create_index(f"ix_{table}_incident_id", table, ["incident_id"])
    for name in _INDEXED:
        op.drop_index(f"ix_incident_{name}", "incident")
    with op.batch_alter_table("incident") as incident:
        incident.drop_constraint("fk_incident_episode_id", type_="foreignkey")
        for column in reversed(_counted()):
            incident.drop_column(column.name)
        incident.drop_column("episode_id")
    for table in ("incidentnode", "mute", "action", "episode"):
        op.drop_table(table)
