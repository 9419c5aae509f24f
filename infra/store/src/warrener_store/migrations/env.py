"""The script that Alembic runs; `migrator` passes the connection, inside a transaction."""

from alembic import context

from warrener_store.migrations import VERSION_TABLE
from warrener_store.migrations.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # SQLite can do it too: all steps are taken, or none
)
with context.begin_transaction():
    context.run_migrations()
