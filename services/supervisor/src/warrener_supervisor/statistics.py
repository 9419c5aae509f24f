"""Maintain statistics and deploys, by one supervisor at a time, beside the way of jobs.

Jobs that are over are read in the order of their ends, by an index, and added to buckets; position and
buckets change in one transaction. A job's end is the time of its supervisor just before the save, so jobs
become visible out of order: only those that ended SETTLED_AFTER ago are read. Each wait of a save is limited
(for a connection, for locks, for a statement), and a save that is repeated takes a new time.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.errors import StoreUnavailable
from warrener_store.statistics import rows
from warrener_store.statistics.rollup import Increments, KnownNames, add_to_stored, roll_up
from warrener_store.store import Store
from warrener_supervisor.decisions.deploys import VersionHistory, observe_deploys

_log = get_logger("statistics")

INTERVAL = timedelta(seconds=5)
SETTLED_AFTER = timedelta(seconds=60)
"""Age from which an ended job is counted. Pages add the newer ones by `recent_ends`."""
STEP_LIMIT = 1000
"""Jobs in one step, which is one transaction."""
MAX_STEPS = 50
"""Steps in a row, while old jobs are counted."""
_TIME_LIMIT = 1.0  # seconds of steps in a row: the way of jobs comes first
_OBSERVE_EVERY = timedelta(seconds=10)
_DROPS_PER_RETENTION = 24
"""Old buckets are dropped a few times in their retention: each drop reads an index of all of their length."""
_MIN_DROP_INTERVAL = timedelta(hours=1)
_AGENT_SILENCE = timedelta(seconds=60)
_DEPLOY_RETENTION = timedelta(days=90)
_MAX_CACHED = 20_000
_CLAIM = timedelta(seconds=40)
_DUTY = "statistics"
_INSTANT = timedelta(microseconds=1)


class StatisticsKeeper:
    """Counts ended jobs and notices deploys while it holds the claim."""

    def __init__(self, store: Store, clock: Clock, *, holder: str) -> None:
        self._store, self._statistics, self._clock = store, store.statistics, clock
        self._holder = holder
        self._claimed_until: datetime | None = None
        self._forget()

    def _forget(self) -> None:
        """Forget what another supervisor may have changed."""
        self._names: KnownNames | None = None
        self._position: rows.RollupPosition | None = None
        self._buckets: dict[rows.SeriesKey, rows.SeriesBucket | None] = {}
        self._causes: dict[rows.CauseKey, rows.CauseBucket | None] = {}
        self._history = VersionHistory()
        self._deploys: dict[tuple[str, datetime], rows.Deploy] | None = None
        self._observed_at = datetime.min.replace(tzinfo=self._clock.now().tzinfo)
        self._dropped_at: dict[rows.BucketSpan | None, datetime] = {}

    async def run_once(self) -> None:
        """Observe the agents and count the jobs that have ended. A step that fails changes nothing."""
        now = self._clock.now()
        try:
            if not await self._claim(now):
                self._forget()
                return
            if now >= self._observed_at + _OBSERVE_EVERY:
                await self._observe(now)
                self._observed_at = now
            await self._count(now)
            await self._drop(now)
        except Exception:
            self._forget()
            raise

    async def release(self) -> None:
        """Let another supervisor go on at once."""
        if self._claimed_until is None:
            return
        now = self._clock.now()
        with suppress(StoreUnavailable):
            await self._store.claim_duty(_DUTY, self._holder, now, now)

    async def _claim(self, now: datetime) -> bool:
        if self._claimed_until is None or now > self._claimed_until - _CLAIM / 2:
            is_held = await self._store.claim_duty(_DUTY, self._holder, now, now + _CLAIM)
            self._claimed_until = now + _CLAIM if is_held else None
        return self._claimed_until is not None

    async def _observe(self, now: datetime) -> None:
        agents = await self._store.agents(now - _AGENT_SILENCE)
        await self._read_versions(agent.agent_id for agent in agents)
        await self._statistics.put_agent_versions(self._history.observe(agents, now))
        types = {name for agent in agents if agent.code_version for name in agent.job_types or ()}
        if types:
            if self._deploys is None:
                found = await self._statistics.deploys(now - _DEPLOY_RETENTION, limit=_MAX_CACHED)
                self._deploys = {(one.job_type, one.first_seen_at): one for one in found}
            declared = await self._store.job_types(types)
            schemas = {name: row.arguments_schema for name, row in declared.items()}
            deploys = observe_deploys(agents, self._deploys.values(), schemas, now)
            await self._statistics.put_deploys(deploys)
            self._deploys |= {(one.job_type, one.first_seen_at): one for one in deploys}

    async def _read_versions(self, agent_ids: Iterable[str]) -> None:
        """Read the versions of agents that are not in the history yet."""
        if len(self._history) > _MAX_CACHED:
            self._history = VersionHistory()
        missing = {agent_id for agent_id in agent_ids if not self._history.is_known(agent_id)}
        if missing:
            self._history.add(missing, await self._statistics.agent_versions(missing))

    async def _count(self, now: datetime) -> None:
        until, began = now - SETTLED_AFTER, self._clock.monotonic()
        for _ in range(MAX_STEPS):
            is_behind = await self._step(now, until)
            if not is_behind or self._clock.monotonic() - began > _TIME_LIMIT:
                return

    async def _step(self, now: datetime, until: datetime) -> bool:
        """Count one batch; True if there are more."""
        position = self._position or await self._statistics.rollup_position()
        jobs = await self._statistics.ended_jobs(position, until, STEP_LIMIT)
        if not jobs:
            self._position = position
            return False
        is_behind = len(jobs) == STEP_LIMIT
        await self._read_versions(job.agent_id for job in jobs if job.agent_id is not None)
        if self._names is None:
            self._names = KnownNames(await self._statistics.series_names())
        increments = roll_up(jobs, self._history.version_of, self._names, now)
        buckets, causes = add_to_stored(increments, *await self._stored(increments))
        last = jobs[-1]
        after = rows.RollupPosition(
            revision=position.revision + 1,
            finished_at=last.finished_at,
            job_id=last.job_id,
            # Others that ended at the same moment may follow in the next step.
            complete_until=max(position.complete_until, last.finished_at - _INSTANT) if is_behind else until,
        )
        if not await self._statistics.add_statistics(after, buckets, causes):
            _log.info("Another supervisor counted these jobs first.", action="statistics.overtaken")
            self._forget()
            return False
        self._position = after
        self._buckets |= {bucket.key: bucket for bucket in buckets}
        self._causes |= {cause.key: cause for cause in causes}
        return is_behind

    async def _stored(self, increments: Increments) -> tuple[list[rows.SeriesBucket], list[rows.CauseBucket]]:
        """Return the stored buckets to which these are added; those of the steps before are in memory."""
        if len(self._buckets) + len(self._causes) > _MAX_CACHED:
            self._buckets, self._causes = {}, {}
        await self._read_buckets({key for key in increments.buckets if key not in self._buckets})
        await self._read_causes(increments.causes.keys())
        stored = [bucket for key in increments.buckets if (bucket := self._buckets[key]) is not None]
        places = {key[:3] for key in increments.causes}
        return stored, [one for key, one in self._causes.items() if one is not None and key[:3] in places]

    async def _read_buckets(self, missing: Collection[rows.SeriesKey]) -> None:
        self._buckets |= dict.fromkeys(missing)
        groups: dict[tuple[rows.BucketSpan, rows.SeriesKind], list[rows.SeriesKey]] = {}
        for key in missing:
            groups.setdefault((key.span, key.kind), []).append(key)
        for (span, kind), keys in groups.items():
            which = rows.SeriesQuery(
                span=span,
                kind=kind,
                names={key.name for key in keys},
                since=min(key.starts_at for key in keys),
                until=max(key.starts_at for key in keys) + span.length,
            )
            for bucket in await self._statistics.series(which):
                if self._buckets.get(bucket.key) is None:
                    self._buckets[bucket.key] = bucket

    async def _read_causes(self, wanted: Collection[rows.CauseKey]) -> None:
        """Read all causes of the buckets in question: their number is limited."""
        known = {key[:3] for key in self._causes}
        groups: dict[rows.BucketSpan, list[rows.CauseKey]] = {}
        for key in wanted:
            if key[:3] not in known:
                groups.setdefault(key.span, []).append(key)
        for span, keys in groups.items():
            found = await self._statistics.causes(
                span,
                {key.job_type for key in keys},
                min(key.starts_at for key in keys),
                max(key.starts_at for key in keys) + span.length,
            )
            for cause in found:
                self._causes.setdefault(cause.key, cause)

    async def _drop(self, now: datetime) -> None:
        for span, retention in rows.RETENTION.items():
            if self._is_drop_due(span, retention, now):
                await self._statistics.drop_statistics(span, now - retention)
                self._dropped_at[span] = now
        if self._is_drop_due(None, _DEPLOY_RETENTION, now):
            await self._statistics.drop_deploys(now - _DEPLOY_RETENTION)
            self._dropped_at[None] = now

    def _is_drop_due(self, span: rows.BucketSpan | None, retention: timedelta, now: datetime) -> bool:
        """True if buckets of this length, or deploys (None), are to be dropped."""
        dropped_at = self._dropped_at.get(span)
        interval = max(retention / _DROPS_PER_RETENTION, _MIN_DROP_INTERVAL)
        return dropped_at is None or now >= dropped_at + interval
