"""Job types: announcements store them and declare their queues; a cache has them ready to check requests."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import jsonschema_rs

from warrener_contracts.events import AgentAnnounced, JsonObject, Reason
from warrener_contracts.topology import Topology, dispatch_queue
from warrener_runtime.bus.port import Bus, BusUnreachable
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.declaring import declare_pieces
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions.admission import CachedJobType
from warrener_scheduler.dispatch import BreakerCache
from warrener_scheduler.messages import requeue_command
from warrener_scheduler.ports import SchedulerPorts, UnknownQueues
from warrener_scheduler.schedules.writer import CodeSchedules
from warrener_store.agents.rows import JobTypeRow, declared_queues
from warrener_store.incidents.rows import JOB_TYPE_CONFLICT, RaisedIncident
from warrener_store.parked.rows import ParkedAt, ParkedFilter
from warrener_store.store import StateStore

_log = get_logger("job_types")

REFRESH_INTERVAL = 1.0  # seconds between two reads
_MAX_AGE = 1.5 * REFRESH_INTERVAL  # a request beside an announcement may be judged by either job type
_REFRESH_WINDOW = 600.0  # seconds; job types that no request has named since are read on demand
_HEARTBEAT = 60.0  # seconds within which the store surely knows the queues of an agent that has started
_MIN_PAUSE = 0.05  # seconds between two reads of all queues
_LISTED_QUEUES = 20
_MAX_CONFLICTS = 20  # incidents about declarations of one batch
_MAX_LOOKS = 5  # at queues on the broker, for each such read
_PAGE = 200  # jobs, or messages of one command
_BEYOND_DELAY_GRACE = timedelta(seconds=15)
"""A job that is looked at within this time needs no waking, and may be on its way."""


class Announcement(NamedTuple):
    """An announcement, and the broker's user that sent it; None if its agent does not say."""

    event: AgentAnnounced
    user_id: str | None = None


class KnownQueues:
    """The queues that a request may name: those that agents announce or serve, and those that a setting
    allows. Each other name would leave a durable queue behind. Any agent may write any queue into its
    heartbeat, so one that is known by heartbeats alone must have a consumer."""

    def __init__(self, store: StateStore, clock: Clock, bus: Bus, allowed: Sequence[str]) -> None:
        """`allowed`: patterns of names, with `*`."""
        self._store, self._clock, self._bus, self._allowed = store, clock, bus, allowed
        self._known: set[str] = set()
        self._announced: dict[str, float] = {}  # here, perhaps not in the store before the next heartbeat
        self._read_at, self._read_took = -_MIN_PAUSE, 0.0

    def add(self, names: AbstractSet[str]) -> None:
        """Add queues that an agent has just announced."""
        self._announced |= dict.fromkeys(names, self._clock.monotonic())

    async def find_unknown(self, names: AbstractSet[str | None]) -> UnknownQueues:
        """Return those of `names` that no request may name, each with the reason.

        The store is read for a name that is not known, a twentieth of the time at most, however many names
        are hostile.
        """
        if not (missing := self._missing(names)):
            return {}
        now = self._clock.monotonic()
        if now - self._read_at >= max(_MIN_PAUSE, 20 * self._read_took):
            served = set[str]().union(*(agent.queues for agent in await self._store.agents()))
            self._known = declared_queues(await self._store.job_types())
            self._announced = {
                name: now if name in served else at
                for name, at in self._announced.items()
                if name in served or now - at < _HEARTBEAT
            }
            for name in [name for name in self._missing(names) if name in served][:_MAX_LOOKS]:
                if await self._has_consumer(name):
                    self._announced[name] = now
            missing = self._missing(names)
            self._read_at = self._clock.monotonic()
            self._read_took = self._read_at - now
        return {name: self._describe(name) for name in missing}

    async def _has_consumer(self, name: str) -> bool:
        try:
            return (await self._bus.backlog(dispatch_queue(name).name)).consumers > 0
        except BusUnreachable:  # or this user may not look
            return False

    def _missing(self, names: AbstractSet[str | None]) -> list[str]:
        return [
            name
            for name in names
            if name is not None
            and name not in self._known
            and name not in self._announced
            and not any(fnmatchcase(name, pattern) for pattern in self._allowed)
        ]

    def _describe(self, name: str) -> str:
        known = sorted({*self._known, *self._announced, *self._allowed})
        more = f" and {len(known) - _LISTED_QUEUES} more" if len(known) > _LISTED_QUEUES else ""
        return (
            f"queue: expected one that an agent has announced, got {name!r}: name none or one of "
            f"{', '.join(known[:_LISTED_QUEUES])}{more}; or start an agent that serves it, or allow it by "
            "WARRENER_SCHEDULER_QUEUES"
        )


class JobTypeUsers:
    """The users of the broker to whom a setting gives job types, by patterns of their names."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def find(self, job_type: str) -> str | None:
        """Return the one user that may announce this job type; None: the first that does."""
        return next((user for one, user in self._users.items() if fnmatchcase(job_type, one)), None)


class AnnouncementHandler:
    """Handles announcements of agents; a repeat changes nothing."""

    def __init__(
        self,
        ports: SchedulerPorts,
        code_schedules: CodeSchedules,
        breakers: BreakerCache,
        known_queues: KnownQueues,
        job_type_users: JobTypeUsers,
    ) -> None:
        self._ports, self._known_queues, self._users = ports, known_queues, job_type_users
        self._bus, self._store, self._clock, _, _ = ports
        self._code_schedules, self._breakers = code_schedules, breakers

    async def carry_out(self, announcements: Sequence[Announcement]) -> None:
        """Store the job types, declare the queues and adopt the schedules of these announcements; then let
        jobs and requests go on that have waited for an agent that knows their type."""
        if not announcements:
            return
        now, events = self._clock.now(), [one.event for one in announcements]
        rows: list[JobTypeRow] = []
        for event, user_id in announcements:
            declared = job_type_rows(event, now, user_id)
            await self._put(declared)
            rows += declared
        await self._report_conflicts(rows, now)
        served = {queue for event in events for queue in event.data.queues} | {row.queue for row in rows}
        queues = sorted(served)
        refused = await declare_pieces(self._bus, Topology((), tuple(map(dispatch_queue, queues))))
        self._known_queues.add(
            {name for name in queues if f"queue {dispatch_queue(name).name}" not in refused}
        )
        _log.info("Dispatch queues were declared.", action="job_types.queues_declared", queues=queues)
        if refused:  # nothing else waits for them: the supervisor raises an incident about each
            _log.error(
                "Dispatch queues cannot be declared.", action="job_types.queues_refused", refused=refused
            )
        for event, user_id in announcements:
            await self._code_schedules.adopt(event, user_id)
        await self._wake_jobs(
            {
                one.name
                for event in events
                for one in event.data.job_types
                if not self._breakers.is_open(one.name, one.policy, None)
            }
        )
        await self._requeue_requests(
            {row.name for row in rows if self._users.find(row.name) in {None, row.broker_user}}
        )
        _log.info(
            "Agents announced what they can run.",
            action="job_types.stored",
            agents=[event.data.agent_id for event in events],
            job_types=sorted({row.name for row in rows}),
        )

    async def _put(self, rows: Sequence[JobTypeRow]) -> None:
        """Store job types of nobody else: who has announced one keeps it while it is stored, and one that the
        setting gives to a user is that user's alone."""
        given = [row for row in rows if row.broker_user and self._users.find(row.name) == row.broker_user]
        await self._store.put_job_types([row for row in rows if self._users.find(row.name) is None])
        if given:
            await self._store.put_job_types(given, takes_over=True)

    async def _report_conflicts(self, rows: Sequence[JobTypeRow], now: datetime) -> None:
        """Raise an incident for each of the first job types of which a declaration of these does not count.
        An agent may declare thousands."""
        stored = await self._store.job_types({row.name for row in rows})
        owned = {
            row.name: replace(stored.get(row.name, row), broker_user=user)
            for row in rows
            if (user := self._users.find(row.name)) is not None
        }
        found = [
            (row, counts)
            for row in rows
            if (counts := owned.get(row.name) or stored.get(row.name)) and _is_conflict(row, counts)
        ]
        if not found:
            return
        row, counts = found[0]
        _log.warning(
            "Declarations of job types do not count: those of other agents do.",
            action="job_types.conflict",
            declarations=len(found),
            job_type=row.name,
            agent_id=row.announced_by,
            broker_user=row.broker_user,
            counts=counts.announced_by,
            counts_of=counts.broker_user,
        )
        raised = [_conflict(*each, now) for each in found[:_MAX_CONFLICTS]]
        await self._store.escalations.raise_incidents(raised)

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


def _is_conflict(row: JobTypeRow, counts: JobTypeRow) -> bool:
    """True if a declaration is another user's than the one that counts, or differs from that and is not just
    an earlier one of its user. Agents of earlier versions name no user."""
    if row.broker_user and counts.broker_user not in {None, row.broker_user}:
        return True
    is_earlier = row.broker_user == counts.broker_user and row.announced_at < counts.announced_at
    return not is_earlier and not row.declares(counts)


def _conflict(row: JobTypeRow, counts: JobTypeRow, now: datetime) -> RaisedIncident:
    ours, theirs = (
        f"agent {one.announced_by} (user {one.broker_user or 'unknown'})" for one in (row, counts)
    )
    text = (
        f"expected {ours} to declare {row.name} as {theirs} does, which counts, got another declaration; "
        "run the same code, or end the agents of one"
    )
    if counts.broker_user not in {None, row.broker_user}:
        text = (
            f"expected an agent of user {counts.broker_user}, to whom {row.name} belongs, to declare it, got "
            f"{ours}; run it as that user, or give the job type to another by "
            "WARRENER_SCHEDULER_JOB_TYPE_USERS"
        )
    return RaisedIncident(
        kind=JOB_TYPE_CONFLICT,
        fingerprint=f"{JOB_TYPE_CONFLICT}:{row.name}"[:200],
        occurrence=f"{row.announced_by} {now.isoformat(timespec='minutes')}",
        subject=row.name,
        job_type=row.name,
        sample={"text": text},
        raised_at=now,
    )


def job_type_rows(event: AgentAnnounced, now: datetime, user_id: str | None = None) -> list[JobTypeRow]:
    """Return the rows of one announcement. Its times order it among others, but none is from the future.

    An announcement about one queue declares the job types of that queue: its sender may not announce others,
    to which it may be led by a retry rule of theirs.
    """
    announced_at, started_at = min(event.time or now, now), event.data.started_at
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
            broker_user=user_id,
            started_at=started_at and min(started_at, now),
        )
        for declared in event.data.job_types
        if event.data.queue in {None, declared.queue}
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
