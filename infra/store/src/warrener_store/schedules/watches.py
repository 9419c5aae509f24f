"""What the owners of schedules expect of them, for the supervisor to watch: a port of its own, kept by the
same stores; its suite is `tests/conformance/test_schedule_watches.py`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from warrener_contracts.state_machine import JobState
from warrener_store.schedules.rows import ScheduleRow

MAX_RUNS_EXAMINED = 1000
"""So many ticks of a schedule are looked at for the end of their jobs, the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRow:
    """What is expected of one schedule, and when it last came true. One of the two is expected at least."""

    name: str
    pause_after: int | None = None  # so many jobs that fail in a row
    success_within: timedelta | None = None
    since: datetime  # nothing before counts: it was put then, or resumed
    look_at: datetime
    success_tick: datetime | None = None  # the newest tick whose job is known to have succeeded
    succeeded_at: datetime | None = None  # when it did


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A tick that has asked for a job, and how far that has come; without a state there is no such job."""

    nominal_at: datetime
    decided_at: datetime
    fired_at: datetime | None
    state: JobState | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WatchedSchedule:
    """A schedule to look at, and what has become of its ticks since the success that is known of, that one
    included; the newest first, MAX_RUNS_EXAMINED at most."""

    row: WatchRow
    paused: bool
    runs: tuple[RunRow, ...] = ()


class Watches(Protocol):
    """Where expectations are kept. Errors are those of the state store. A removed schedule has none."""

    async def put_watches(self, rows: Sequence[WatchRow], over: Collection[str]) -> None:
        """Insert these, or replace what is expected, not how far it has come; remove what is `over`."""
        ...

    async def restart_watches(self, names: Collection[str], since: datetime) -> None:
        """Nothing before `since` counts any more; what is not known is passed over."""
        ...

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        """Those with `look_at <= now`, the longest due first, claimed by moving it to `until`. No two callers
        get the same."""
        ...

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        """Keep `success_tick` and `succeeded_at` of these; a newer tick than theirs stays."""
        ...

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        """Schedules whose next tick, or next look, was due at `before`, and that are to be looked at by
        `until`; the longest due look first."""
        ...

    async def last_success(self, schedule: str) -> datetime | None:
        """The newest of the last MAX_RUNS_EXAMINED nominal times whose job has succeeded."""
        ...
