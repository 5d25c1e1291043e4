"""Run by Alembic on the connection that `storage.database` hands over."""

from __future__ import annotations

from alembic import context

from storage.tables import Table

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Table.metadata,
    render_as_batch=True,  # SQLite alters a table by building it anew
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
