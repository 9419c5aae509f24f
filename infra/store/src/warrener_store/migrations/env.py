"""Alembic runs this; `warrener_store.migrator` hands in the connection, inside a transaction of its own."""

from alembic import context

from warrener_store.schema import VERSION_TABLE
from warrener_store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # SQLite can do it too: all steps are taken, or none
)
with context.begin_transaction():
    context.run_migrations()
