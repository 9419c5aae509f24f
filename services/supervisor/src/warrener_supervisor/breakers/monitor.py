"""Count attempts, open and close breakers, and wake the jobs that they have held back.

Each supervisor counts in memory: each one sees a fair sample of all attempts, and a restart loses one
window. The state of a breaker is in the store, where one supervisor at a time changes it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from warrener_contracts import topology
from warrener_contracts.circuit_breaker import (
    DEFAULT_BREAKER_POLICY,
    BreakerPolicy,
    BreakerState,
    breakers_for,
    describe_unknown_breaker,
    job_types_of_breakers,
    paused_queue,
    queue_breaker,
)
from warrener_contracts.events import BreakerChanged, BreakerChangedData, BreakerSetRequested
from warrener_contracts.messages import Message, build_message
from warrener_contracts.policy import JobPolicy
from warrener_runtime.logs import get_logger
from warrener_store.agents.rows import JobTypeRow
from warrener_store.breakers.gate import RECHECK_INTERVAL, BreakerRow, OpenBreakers
from warrener_supervisor.breakers import state_machine
from warrener_supervisor.breakers.state_machine import AttemptCounts, Window, breakers_counting, count_attempt
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.effects import SupervisorPorts

_log = get_logger("breakers")

_REMIND = timedelta(seconds=5)  # interval of announcements for agents that came later
_MISSED = timedelta(minutes=1)  # an agent believes an open breaker for half of it
# a job that a claim or a lost wake-up postponed is looked at sooner than that
_BEYOND_DELAY_GRACE = timedelta(minutes=1)
_BATCH_SIZE = 1000
_MAX_ATTEMPTS_TO_CHANGE = 10  # others change it meanwhile


class BreakerMonitor:
    """All breakers, as this supervisor knows them."""

    def __init__(self, ports: SupervisorPorts) -> None:
        self._ports = ports
        self._bus, self._store, self._clock, _ = ports
        self._rows: dict[str, BreakerRow] = {}
        self._windows: dict[str, Window] = {}
        self._fresh: dict[str, tuple[AttemptCounts, BreakerPolicy]] = {}
        self._reminded_at: datetime | None = None
        self.holding = OpenBreakers()

    def record(self, batch: JobBatch) -> None:
        """Count the ends of a job's attempts, once they are saved."""
        policy = batch.row.policy
        if not policy.depends_on and policy.breaker is None:
            return
        for _, decision in batch.decisions:
            if isinstance(decision, JobTransition) and (counted := count_attempt(decision.attempt)):
                self._count_one(batch.row.job_type, policy, counted)

    def record_success(self, job_type: str, policy: JobPolicy) -> None:
        """Count an attempt that succeeded."""
        if policy.depends_on or policy.breaker is not None:
            self._count_one(job_type, policy, AttemptCounts(successes=1))

    def _count_one(self, job_type: str, policy: JobPolicy, counted: AttemptCounts) -> None:
        for name, chosen in breakers_counting(job_type, policy):
            sofar = self._fresh[name][0] if name in self._fresh else AttemptCounts()
            self._fresh[name] = (sofar + counted, chosen)

    async def evaluate(self) -> None:
        """Open or close the breakers for which the counted attempts are reason enough."""
        fresh, self._fresh = self._fresh, {}
        for name, (counted, policy) in fresh.items():
            now, held = self._clock.now(), self._rows.get(name)
            if held is not None and held.state is not BreakerState.CLOSED:
                turned = state_machine.on_probe_result(held, counted, now)
            else:
                window = self._windows.setdefault(name, Window())
                window.add(counted, policy, now)
                why = window.trip_reason(policy, now)
                turned = state_machine.open_breaker(held, name, policy, why, now) if why else None
            if turned is not None:
                await self._put(turned)

    async def run_once(self) -> None:
        """Read the state of all breakers, and do what is due: probes, announcements, waking."""
        self._remember(await self._store.breakers())
        if not self._rows:
            return
        await self.evaluate()
        now = self._clock.now()
        for row in [*self._rows.values()]:
            turned = state_machine.on_open_duration_over(row, now)
            if turned is not None:
                await self._put(turned)
        await self._wake(now)
        await self._remind(now)

    async def _wake(self, now: datetime) -> None:
        probing = [
            row
            for row in self._rows.values()
            if row.state is BreakerState.HALF_OPEN and (row.until is None or row.until <= now)
        ]
        # Jobs that these held back may still be postponed.
        lately = now - RECHECK_INTERVAL - _BEYOND_DELAY_GRACE
        closed = [
            row for row in self._rows.values() if row.state is BreakerState.CLOSED and row.since > lately
        ]
        if not probing and not closed:
            return
        types = await self._store.job_types()
        paused, beyond = self.holding.paused_queues, now + _BEYOND_DELAY_GRACE
        for row in probing:
            behind, limit = _job_types_behind(row, types), row.policy.half_open_calls
            if await self._store.release_held_jobs(behind, now, beyond, limit, paused=paused):
                await self._put(state_machine.on_probes_admitted(row, now), announce=False)
        free = {
            name
            for row in closed
            for name in (types if paused_queue(row.name) else _job_types_behind(row, types))
            if self.holding.find_blocking(name, types[name].policy, None) is None
        }
        left = bool(free)
        while left:
            found = await self._store.release_held_jobs(free, now, beyond, _BATCH_SIZE, paused=paused)
            left = found == _BATCH_SIZE

    async def _remind(self, now: datetime) -> None:
        # Later or unreached agents could run jobs that are held, or give back jobs that are free.
        to_announce = [
            row for row in self._rows.values() if row.state is BreakerState.OPEN or now - row.since < _MISSED
        ]
        if not to_announce or (self._reminded_at is not None and now - self._reminded_at < _REMIND):
            return
        self._reminded_at = now
        await self._bus.publish([agents_message(row, now) for row in to_announce])

    async def apply_command(self, event: BreakerSetRequested) -> str | None:
        """Open or close a breaker on command; a repeat changes nothing. Return why none has this name."""
        data, types = event.data, await self._store.job_types()
        known = job_types_of_breakers({name: row.policy.depends_on for name, row in types.items()})
        if paused_queue(data.name) is not None:
            known = {queue_breaker(queue): list[str]() for queue in await self._read_queues(types)}
        chosen = (types[name].policy.breaker for name in known.get(data.name, ()))
        policy = next((policy for policy in chosen if policy is not None), DEFAULT_BREAKER_POLICY)
        for _ in range(_MAX_ATTEMPTS_TO_CHANGE):
            self._remember(await self._store.breakers())
            if data.name not in known and data.name not in self._rows:
                return describe_unknown_breaker(data.name, known)
            turned = state_machine.set_manually(self._rows.get(data.name), data, policy, self._clock.now())
            if turned is None or await self._put(turned):
                break
        return None

    async def _read_queues(self, types: Mapping[str, JobTypeRow]) -> set[str]:
        """The queues of job types and agents, and those with jobs: some wait for their first agent."""
        queues = {row.queue for row in types.values()} | {row.queue for row in await self._store.count_jobs()}
        return queues | {queue for row in await self._store.agents() for queue in row.queues}

    async def _put(self, row: BreakerRow, *, announce: bool = True) -> bool:
        """Save a change; False if another supervisor has changed the breaker meanwhile."""
        if announce:  # a changed breaker lists the job types that depend on it now
            row = replace(row, job_types=_job_types_behind(row, await self._store.job_types()))
        if not await self._store.put_breaker(row):
            self._remember(await self._store.breakers())
            return False
        self._remember([*(each for each in self._rows.values() if each.name != row.name), row])
        if announce:
            self._windows.pop(row.name, None)
            log = _log.info if row.state is BreakerState.CLOSED else _log.warning
            log(
                "A circuit breaker changed.",
                action=f"breakers.{row.state.value}",
                breaker=row.name,
                reason=row.reason,
                until=row.until.isoformat() if row.until else None,
                job_types=list(row.job_types),
            )
            await self._ports.publish([build_message(_event(row, row.since)), agents_message(row, row.since)])
        return True

    def _remember(self, rows: list[BreakerRow]) -> None:
        self._rows = {row.name: row for row in rows}
        self.holding = OpenBreakers(rows)


def _job_types_behind(row: BreakerRow, types: Mapping[str, JobTypeRow]) -> tuple[str, ...]:
    """Return the job types whose jobs pass the breaker; of a queue, those that go there by themselves."""
    return tuple(
        name
        for name, each in sorted(types.items())
        if row.name in (queue_breaker(each.queue), *breakers_for(name, each.policy.depends_on))
    )


def agents_message(row: BreakerRow, now: datetime) -> Message:
    """Render the state for every agent. Not persistent: an agent that misses it receives the next one."""
    return build_message(_event(row, now))._replace(
        exchange=topology.CONTROL, routing_key="all", persistent=False, mandatory=False
    )


def _event(row: BreakerRow, now: datetime) -> BreakerChanged:
    data = BreakerChangedData(
        name=row.name,
        state=row.state,
        since=row.since,
        until=row.until,
        reason=row.reason,
        job_types=row.job_types,
    )
    return supervisor_event(BreakerChanged, f"{row.name}:{row.version}", row.name, now, data)
