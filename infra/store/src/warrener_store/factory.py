"""From a url to a store. The drivers are imported when one is opened: who needs the port alone waits less."""

from warrener_store.store import Store


def open_store(url: str) -> Store:
    """The store at `sqlite:///path` or `postgresql://…`, not yet connected; `start` connects it.

    Raises StoreUrlError where the url names none.
    """
    from warrener_store.address import SqliteAddress, parse_address  # noqa: PLC0415 - see above

    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        from warrener_store.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(address)
    from warrener_store.postgres import PostgresStore  # noqa: PLC0415

    return PostgresStore(address)


async def migrate(url: str, to: str = "head") -> None:
    """Bring the tables to revision `to`, up or down ("base": none). Doing it again changes nothing."""
    from warrener_store.migrator import migrate as run_migrations  # noqa: PLC0415 - Alembic is big and seldom needed

    await run_migrations(url, to)
