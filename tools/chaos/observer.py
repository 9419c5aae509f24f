"""Follows a run in the database of the store: a trigger notes each ending, and the harness reads them."""

import asyncio
from time import time
from uuid import UUID

import asyncpg
from tools.chaos.clients import session
from tools.chaos.effects import stamp
from tools.chaos.history import Request, Schedule
from tools.chaos.system import System
from tools.chaos.workload import SCHEDULES

_TERMINAL = "('succeeded', 'dead', 'cancelled', 'expired')"
_INSTALL = f"""
CREATE TABLE chaos_effects (
    job_id uuid NOT NULL, attempt int NOT NULL, run text NOT NULL, note text NOT NULL DEFAULT '');
CREATE TABLE chaos_endings (
    job_id uuid NOT NULL, old text, new text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX chaos_endings_at ON chaos_endings (at);
CREATE FUNCTION chaos_note_ending() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_endings VALUES (
        NEW.job_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state);
    RETURN NULL; END $$;
CREATE TRIGGER chaos_inserted AFTER INSERT ON warrener_jobs FOR EACH ROW
    WHEN (NEW.state IN {_TERMINAL}) EXECUTE FUNCTION chaos_note_ending();
CREATE TRIGGER chaos_updated AFTER UPDATE ON warrener_jobs FOR EACH ROW
    WHEN ((OLD.state IS DISTINCT FROM NEW.state
           AND (OLD.state IN {_TERMINAL} OR NEW.state IN {_TERMINAL}))
        OR (OLD.state IN {_TERMINAL} AND OLD.result IS DISTINCT FROM NEW.result))
    EXECUTE FUNCTION chaos_note_ending();
"""
_POLL = 0.5  # seconds
_LATE = 5.0  # seconds by which a commit may be later than the stamps of its rows
_TICK_MARGIN = 20.0  # seconds before the end of the schedules whose ticks may be undecided


class Observer:
    """Knows which confirmed jobs are not over yet, within a second or so."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._journal = system.journal
        self._since = time() - 60
        self.offset = time() - stamp()
        """The time of day less the raw monotonic clock."""
        self.requests: list[Request] = []
        self.open: dict[str, Request] = {}
        self._early: set[str] = set()
        self.ended = 0
        self.schedules: list[Schedule] = []

    async def install(self) -> None:
        """Make the harness's own tables and triggers in the database of the store."""
        async with session(self._system.store_url) as connection:
            await connection.execute(_INSTALL)

    def confirmed(self, request: Request) -> None:
        """A request was confirmed."""
        self._journal.write(request)
        self.requests.append(request)
        if request.job in self._early:
            self._early.discard(request.job)
        else:
            self.open[request.job] = request

    def plain_open(self, before: float) -> int:
        """How many plain jobs that were requested before are not over."""
        return sum(1 for request in self.open.values() if request.plain and request.at < before)

    async def watch(self) -> None:
        """Follow the endings; until cancelled."""
        looked = stamp()
        while True:
            try:
                async with session(self._system.store_url) as connection:
                    while True:
                        await asyncio.sleep(_POLL)
                        await self._follow(connection)
                        if stamp() - looked > 2 * _LATE:
                            await self._reconcile(connection)
                            looked = stamp()
            except Exception as error:  # noqa: BLE001 - the database is what faults are about
                self._system.note("observer", f"{type(error).__name__}: {error}")
            await asyncio.sleep(_POLL)

    async def _follow(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        rows = await connection.fetch(
            "SELECT job_id, extract(epoch FROM at)::float8 AS at FROM chaos_endings "
            "WHERE at > to_timestamp($1)",
            self._since - _LATE,
            timeout=10,
        )
        for row in rows:
            self._end(str(row["job_id"]))
            self._since = max(self._since, row["at"])

    async def _reconcile(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Find the ends that `_follow` has missed because their transactions were slow to commit."""
        old = [UUID(job) for job, request in self.open.items() if request.at < stamp() - _LATE]
        rows = await connection.fetch(
            f"SELECT job_id FROM warrener_jobs WHERE job_id = ANY($1::uuid[]) AND state IN {_TERMINAL}",
            old,
            timeout=20,
        )
        for row in rows:
            self._end(str(row["job_id"]))

    def _end(self, job: str) -> None:
        if self.open.pop(job, None) is not None:
            self.ended += 1
        elif len(self._early) < 100_000:
            self._early.add(job)

    async def open_in_store(self) -> list[str]:
        """Jobs that are not over by the store's rows, and confirmed requests that it has no row of."""
        async with session(self._system.store_url) as connection:
            rows = await connection.fetch(
                f"SELECT job_id FROM warrener_jobs WHERE state NOT IN {_TERMINAL}", timeout=30
            )
            known = await connection.fetch(
                "SELECT job_id FROM warrener_jobs WHERE job_id = ANY($1::uuid[])",
                [UUID(job) for job in self.open],
                timeout=30,
            )
        missing = self.open.keys() - {str(row["job_id"]) for row in known}
        return [*(str(row["job_id"]) for row in rows), *missing]

    async def note_schedules(self) -> None:
        """Fix the span in which ticks must be accounted for; call it before the schedules are removed."""
        until = time() - _TICK_MARGIN
        async with session(self._system.store_url) as connection:
            for name, (every, _) in SCHEDULES.items():
                first = await connection.fetchval(
                    "SELECT extract(epoch FROM min(nominal_at))::float8 FROM warrener_ticks "
                    "WHERE schedule = $1",
                    name,
                )
                if first is not None and first < until:
                    last = first + int((until - first) / every) * every
                    schedule = Schedule(name, every, first - self.offset, last - self.offset)
                    self._journal.write(schedule)
                    self.schedules.append(schedule)
