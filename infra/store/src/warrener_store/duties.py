"""Duties that one process at a time carries out, such as pruning: the port, for both databases and in memory.
Suite: `tests/conformance/test_store_duties.py`."""

from datetime import datetime
from typing import Protocol

from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape, unescape


class Duties(Protocol):
    """Claims of duties. A holder that dies loses its claim by time."""

    async def claim_duty(self, duty: str, holder: str, now: datetime, until: datetime) -> bool:
        """True if `holder` alone carries out `duty` until then: no other claim is in force at `now`."""
        ...

    async def duties(self, now: datetime) -> dict[str, str]:
        """The holders of the duties whose claims are in force at `now`, by duty."""
        ...


class SqlDuties(SqlSession, Duties):
    """Claims in both databases."""

    async def claim_duty(self, duty: str, holder: str, now: datetime, until: datetime) -> bool:
        moments = self.codec.encode_moment(now), self.codec.encode_moment(until)
        return bool(await self._change("claim_duty", escape(duty), escape(holder), *moments))

    async def duties(self, now: datetime) -> dict[str, str]:
        found = await self._query("duties", self.codec.encode_moment(now))
        return {unescape(duty): unescape(holder) for duty, holder in found}


class MemoryDuties(Duties):
    """Claims in a dictionary."""

    def __init__(self) -> None:
        self._duties: dict[str, tuple[str, datetime]] = {}

    async def claim_duty(self, duty: str, holder: str, now: datetime, until: datetime) -> bool:
        held = self._duties.get(duty)
        if held is not None and held[0] != holder and held[1] > now:
            return False
        self._duties[duty] = (holder, until)
        return True

    async def duties(self, now: datetime) -> dict[str, str]:
        return {duty: holder for duty, (holder, until) in sorted(self._duties.items()) if until > now}
