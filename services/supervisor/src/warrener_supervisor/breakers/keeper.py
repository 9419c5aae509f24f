"""The verb that keeps the breakers: counts attempts, turns breakers, wakes what they have held back.

Attempts are counted in memory, by each supervisor for itself: every one sees a fair sample of all, and what
is lost with one is a window that begins anew. How a breaker stands is in the store, where one supervisor at a
time turns it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from warrener_contracts.circuit_breaker import DEFAULT_BREAKER_POLICY, BreakerPolicy, BreakerState, breakers_for
from warrener_contracts.events import BreakerSetRequested
from warrener_contracts.policy import JobPolicy
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.breaker_gate import RECHECK_INTERVAL, OpenBreakers
from warrener_store.port import StateStore
from warrener_store.rows import BreakerRow, JobTypeRow
from warrener_supervisor import act
from warrener_supervisor.breakers import turns
from warrener_supervisor.breakers.announcing import changed, to_agents
from warrener_supervisor.breakers.blame import Ended, counted_by, ended
from warrener_supervisor.breakers.window import Window
from warrener_supervisor.fold import Folded
from warrener_supervisor.verdicts import Judgement

_log = get_logger("breakers")

_REMIND = timedelta(seconds=5)  # agents that have come since hear of open breakers so soon
_MISSED = timedelta(minutes=1)  # an agent believes an open breaker for half of it
_NOT_THE_LADDER = timedelta(minutes=1)  # what the ladder or a claim has put off is looked at sooner than that
_AT_ONCE = 1000
_TURNS_AT_MOST = 10  # others turn it meanwhile


class Breakers:
    """All breakers, as this supervisor knows them."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._rows: dict[str, BreakerRow] = {}
        self._windows: dict[str, Window] = {}
        self._fresh: dict[str, tuple[Ended, BreakerPolicy]] = {}
        self._reminded_at: datetime | None = None
        self.holding = OpenBreakers()

    # -- counting -----------------------------------------------------------------------------------------

    def note(self, folded: Folded) -> None:
        """Count what has become of the attempts of a job, once it is saved."""
        policy = folded.row.policy
        if not policy.depends_on and policy.breaker is None:
            return
        for _, ruling in folded.rulings:
            if isinstance(ruling, Judgement) and (counted := ended(ruling.attempt)):
                self._count_one(folded.row.job_type, policy, counted)

    def note_success(self, job_type: str, policy: JobPolicy) -> None:
        """Count an attempt that has ended well, and its job with it."""
        if policy.depends_on or policy.breaker is not None:
            self._count_one(job_type, policy, Ended(well=1))

    def _count_one(self, job_type: str, policy: JobPolicy, counted: Ended) -> None:
        for name, chosen in counted_by(job_type, policy):
            sofar = self._fresh[name][0] if name in self._fresh else Ended()
            self._fresh[name] = (sofar + counted, chosen)

    async def turn(self) -> None:
        """Turn the breakers for which what was noted is reason enough."""
        fresh, self._fresh = self._fresh, {}
        for name, (counted, policy) in fresh.items():
            await self._count(name, counted, policy)

    async def _count(self, name: str, counted: Ended, policy: BreakerPolicy) -> None:
        now, held = self._clock.now(), self._rows.get(name)
        if held is not None and held.state is not BreakerState.CLOSED:
            turned = turns.on_probes(held, counted, now)
        else:
            window = self._windows.setdefault(name, Window())
            window.add(counted, policy, now)
            why = window.trips(policy, now)
            turned = turns.opened(held, name, policy, why, now) if why else None
        if turned is not None:
            await self._put(turned)

    # -- time ---------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Learn how all breakers stand, and do what is due: probes, reminders, waking."""
        self._know(await self._store.breakers())
        if not self._rows:
            return
        await self.turn()
        now = self._clock.now()
        for row in [*self._rows.values()]:
            turned = turns.on_time(row, now)
            if turned is not None:
                await self._put(turned)
        await self._wake(now)
        await self._remind(now)

    async def _wake(self, now: datetime) -> None:
        probing = [row for row in self._rows.values() if _wants_probes(row, now)]
        closed = [row for row in self._rows.values() if _closed_lately(row, now)]
        if not probing and not closed:
            return
        types = await self._store.job_types()
        for row in probing:
            if await self._store.release_held_jobs(
                _behind(row, types), now, now + _NOT_THE_LADDER, row.policy.probes
            ):
                await self._put(turns.probed(row, now), say=False)
        free = {
            name
            for row in closed
            for name in _behind(row, types)
            if self.holding.find_blocking(name, types[name].policy) is None
        }
        while free and await self._store.release_held_jobs(free, now, now + _NOT_THE_LADDER, _AT_ONCE) == _AT_ONCE:
            pass  # there are more

    async def _remind(self, now: datetime) -> None:
        telling = [row for row in self._rows.values() if _to_be_repeated(row, now)]
        if not telling or (self._reminded_at is not None and now - self._reminded_at < _REMIND):
            return
        self._reminded_at = now
        await self._bus.publish([to_agents(row, now) for row in telling])

    # -- by hand ------------------------------------------------------------------------------------------

    async def obey(self, event: BreakerSetRequested) -> None:
        """Open or close a breaker because somebody asks. A repeat changes nothing."""
        data = event.data
        for _ in range(_TURNS_AT_MOST):
            self._know(await self._store.breakers())
            policy = await self._policy(data.name)
            turned = turns.by_hand(self._rows.get(data.name), data, policy, self._clock.now())
            if turned is None or await self._put(turned):
                return

    async def _policy(self, name: str) -> BreakerPolicy:
        types = await self._store.job_types()
        chosen = (
            row.policy.breaker for row in types.values() if name in breakers_for(row.name, row.policy.depends_on)
        )
        return next((policy for policy in chosen if policy is not None), DEFAULT_BREAKER_POLICY)

    # -- keeping ------------------------------------------------------------------------------------------

    async def _put(self, row: BreakerRow, *, say: bool = True) -> bool:
        """Whether it is so now; False where another supervisor has turned it meanwhile."""
        if say:  # a breaker that turns names the job types behind it as they are now
            row = replace(row, job_types=_behind(row, await self._store.job_types()))
        if not await self._store.put_breaker(row):
            self._know(await self._store.breakers())
            return False
        self._know([*(each for each in self._rows.values() if each.name != row.name), row])
        if say:
            self._windows.pop(row.name, None)
            _say(row)
            await act.publish(self._bus, changed(row), self._clock)
        return True

    def _know(self, rows: list[BreakerRow]) -> None:
        self._rows = {row.name: row for row in rows}
        self.holding = OpenBreakers(rows)


def _behind(row: BreakerRow, types: Mapping[str, JobTypeRow]) -> tuple[str, ...]:
    """The job types whose jobs have to pass it."""
    return tuple(
        sorted(name for name, each in types.items() if row.name in breakers_for(name, each.policy.depends_on))
    )


def _wants_probes(row: BreakerRow, now: datetime) -> bool:
    return row.state is BreakerState.HALF_OPEN and (row.until is None or row.until <= now)


def _to_be_repeated(row: BreakerRow, now: datetime) -> bool:
    """Agents that have come since, or have missed a word, would run what is held back, or give back what is
    not."""
    return row.state is BreakerState.OPEN or now - row.since < _MISSED


def _closed_lately(row: BreakerRow, now: datetime) -> bool:
    """Some of what it held back may still have been put off."""
    return row.state is BreakerState.CLOSED and now - row.since < RECHECK_INTERVAL + _NOT_THE_LADDER


def _say(row: BreakerRow) -> None:
    say = _log.info if row.state is BreakerState.CLOSED else _log.warning
    say(
        "A circuit breaker has turned.",
        action=f"breakers.{row.state.value}",
        breaker=row.name,
        reason=row.reason,
        until=row.until.isoformat() if row.until else None,
        job_types=list(row.job_types),
    )
