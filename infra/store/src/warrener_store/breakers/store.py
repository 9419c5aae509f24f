"""Circuit breakers in both databases. Suite: `tests/conformance/test_store_announcements.py`."""

from warrener_store.breakers.gate import BreakerRow
from warrener_store.databases.session import SqlSession
from warrener_store.mapping import RowMapper

BREAKERS = RowMapper(BreakerRow)
WORDS = {"breaker": ", ".join(BREAKERS.columns)}


class BreakerStore(SqlSession):
    """Circuit breakers by name."""

    async def breakers(self) -> list[BreakerRow]:
        """Every breaker that has ever been open, by name."""
        return await self._rows(BREAKERS, "breakers")

    async def put_breaker(self, row: BreakerRow) -> bool:
        """Store its first version, or the one after the stored version; False if another writer was first."""
        return bool(await self._change("put_breaker", *BREAKERS.to_row(row, self.codec)))
