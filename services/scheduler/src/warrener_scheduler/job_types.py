"""Job types: announcements store them and declare their queues; a cache has them ready to check requests."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import lru_cache

import jsonschema_rs

from warrener_contracts.events import AgentAnnounced, JsonObject, Reason
from warrener_contracts.topology import Topology, dispatch_queue
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.declaring import declare_pieces
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions.admission import CachedJobType
from warrener_scheduler.dispatch import BreakerCache
from warrener_scheduler.messages import requeue_command
from warrener_scheduler.ports import SchedulerPorts
from warrener_scheduler.schedules.writer import CodeSchedules
from warrener_store.agents.rows import JobTypeRow
from warrener_store.parked.rows import ParkedAt, ParkedFilter
from warrener_store.store import StateStore

_log = get_logger("job_types")

REFRESH_INTERVAL = 1.0  # seconds between two reads
_MAX_AGE = 1.5 * REFRESH_INTERVAL  # a request beside an announcement may be judged by either job type
_REFRESH_WINDOW = 600.0  # seconds; job types that no request has named since are read on demand
_PAGE = 200  # jobs, or messages of one command
_BEYOND_DELAY_GRACE = timedelta(seconds=15)
"""A job that is looked at within this time needs no waking, and may be on its way."""


class AnnouncementHandler:
    """Handles announcements of agents; a repeat changes nothing."""

    def __init__(self, ports: SchedulerPorts, code_schedules: CodeSchedules, breakers: BreakerCache) -> None:
        self._ports = ports
        self._bus, self._store, self._clock, _, _ = ports
        self._code_schedules, self._breakers = code_schedules, breakers

    async def carry_out(self, events: Sequence[AgentAnnounced]) -> None:
        """Store the job types, declare the queues and adopt the schedules of these announcements; then let
        jobs and requests go on that have waited for an agent that knows their type."""
        if not events:
            return
        now = self._clock.now()
        rows = [row for event in events for row in job_type_rows(event, now)]
        await self._store.put_job_types(rows)
        served = {queue for event in events for queue in event.data.queues} | {row.queue for row in rows}
        queues = sorted(served)
        refused = await declare_pieces(self._bus, Topology((), tuple(map(dispatch_queue, queues))))
        _log.info("Dispatch queues were declared.", action="job_types.queues_declared", queues=queues)
        if refused:  # nothing else waits for them: the supervisor raises an incident about each
            _log.error(
                "Dispatch queues cannot be declared.", action="job_types.queues_refused", refused=refused
            )
        for event in events:
            await self._code_schedules.adopt(event)
        await self._wake_jobs(
            {row.name for row in rows if not self._breakers.is_open(row.name, row.policy, None)}
        )
        await self._requeue_requests({row.name for row in rows})
        _log.info(
            "Agents announced what they can run.",
            action="job_types.stored",
            agents=[event.data.agent_id for event in events],
            job_types=sorted({row.name for row in rows}),
        )

    async def _wake_jobs(self, names: AbstractSet[str]) -> None:
        """Make jobs due now that agents have given back. Those behind a breaker are woken by it."""
        now, left = self._clock.now(), bool(names)
        while left:
            beyond = now + _BEYOND_DELAY_GRACE
            paused = self._breakers.paused_queues
            left = await self._store.release_held_jobs(names, now, beyond, _PAGE, paused=paused) == _PAGE

    async def _requeue_requests(self, names: AbstractSet[str]) -> None:
        """Have the parked requests of these types handled again, page by page.

        The types are in the store already. A request that is parked later finds them there
        (`warrener_supervisor.dead_letters`), so that none is left between the two.
        """
        which = ParkedFilter(reason=Reason.UNKNOWN_JOB_TYPE.value, routing_keys=names, oldest_first=True)
        after: ParkedAt | None = None
        while names and (page := await self._store.parked_summaries(which, _PAGE, after)):
            after = ParkedAt(page[-1].parked_at, page[-1].parked_id)
            command = requeue_command([message.parked_id for message in page], self._clock.now())
            await self._ports.publish([command])
            _log.info(
                "Parked requests of job types that were unknown are requeued.",
                action="job_types.requeued",
                messages=len(page),
            )


def job_type_rows(event: AgentAnnounced, now: datetime) -> list[JobTypeRow]:
    """Return the rows of one announcement. Its time orders it among others, but none is from the future."""
    announced_at = min(event.time or now, now)
    return [
        JobTypeRow(
            name=declared.name,
            queue=declared.queue,
            arguments_schema=declared.arguments_schema,
            result_schema=declared.result_schema,
            guarantee=declared.guarantee,
            policy=declared.policy,
            description=declared.description,
            announced_by=event.data.agent_id,
            announced_at=announced_at,
        )
        for declared in event.data.job_types
    ]


class JobTypeCache:
    """Job types by name, hardly older than a second. Unknown ones are looked up each time."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, CachedJobType] = {}
        self._last_used_at: dict[str, float] = {}
        self._generation = 0  # grows with each announcement
        self._unusable: set[tuple[str, str]] = set()

    async def get_many(self, names: AbstractSet[str]) -> Mapping[str, CachedJobType]:
        """Return those of `names` that an agent has announced."""
        now = self._clock.monotonic()
        fresh = {name: known for name, known in self._known.items() if now - known.read_at < _MAX_AGE}
        if missing := names - fresh.keys():
            fresh |= await self._read(missing, now)
        self._known = fresh
        self._last_used_at |= dict.fromkeys(names & fresh.keys(), now)
        return fresh

    async def refresh(self) -> None:
        """Read the recently used job types, so that the first request after a pause waits for none."""
        now = self._clock.monotonic()
        self._last_used_at = {
            name: at for name, at in self._last_used_at.items() if now - at < _REFRESH_WINDOW
        }
        if not self._last_used_at:
            return
        generation = self._generation
        known = await self._read(self._last_used_at.keys(), now)
        if self._generation == generation:  # otherwise the rows may be older than the announcement
            self._known = self._known | known

    def invalidate(self) -> None:
        """Forget all job types, because an agent has announced some."""
        self._known = {}
        self._generation += 1

    async def _read(self, names: AbstractSet[str], now: float) -> dict[str, CachedJobType]:
        rows = await self._store.job_types(names)
        return {name: CachedJobType(row, self._validator(row), now) for name, row in rows.items()}

    def _validator(self, row: JobTypeRow) -> jsonschema_rs.Validator | None:
        """Return the validator of a job type's schema, which is read as a whole: not per request."""
        try:
            return _compile(json.dumps(row.arguments_schema, sort_keys=True))
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            why = str(error).partition("\n")[0]
            if (row.name, why) not in self._unusable:  # jobs go on, because the agent checks arguments too
                self._unusable.add((row.name, why))
                _log.warning(
                    "A job type's schema cannot be used: its arguments are not checked here.",
                    action="accept.unusable_schema",
                    job_type=row.name,
                    reason=why,
                )
            return None


@lru_cache(maxsize=1000)
def _compile(schema: str) -> jsonschema_rs.Validator:
    """Compile the validator of a schema, written as JSON. Raises ValueError or ReferencingError."""
    return jsonschema_rs.validator_for(json.loads(schema), retriever=_refuse_reference)


def _refuse_reference(uri: str) -> JsonObject:
    """Refuse references: fetching them would let any agent that announces one make us call anywhere."""
    raise ValueError(f"expected a schema without outside references, got {uri}")
