"""The store of circuit breakers: its port, for both databases and in memory. Suite:
`tests/conformance/test_store_breakers.py`."""

from typing import Protocol

from warrener_store.breakers.gate import BreakerRow
from warrener_store.databases.session import SqlSession
from warrener_store.mapping import RowMapper

BREAKERS = RowMapper(BreakerRow)
WORDS = {"breaker": ", ".join(BREAKERS.columns)}
"""The meanings of words in braces of statements."""


class BreakerStore(Protocol):
    """Circuit breakers by name."""

    async def breakers(self) -> list[BreakerRow]:
        """Every breaker that has ever been open, by name."""
        ...

    async def put_breaker(self, row: BreakerRow) -> bool:
        """Store its first version, or the one after the stored version; False if another writer was first."""
        ...


class SqlBreakers(SqlSession, BreakerStore):
    """Circuit breakers in both databases."""

    async def breakers(self) -> list[BreakerRow]:
        return [BREAKERS.from_row(values, self.codec) for values in await self._query("breakers")]

    async def put_breaker(self, row: BreakerRow) -> bool:
        return bool(await self._change("put_breaker", *BREAKERS.to_row(row, self.codec)))


class MemoryBreakers(BreakerStore):
    """Circuit breakers in a dictionary."""

    def __init__(self) -> None:
        self._breakers: dict[str, BreakerRow] = {}

    async def breakers(self) -> list[BreakerRow]:
        return [row for _, row in sorted(self._breakers.items())]

    async def put_breaker(self, row: BreakerRow) -> bool:
        held = self._breakers.get(row.name)
        if row.version != (1 if held is None else held.version + 1):
            return False
        self._breakers[row.name] = row
        return True
