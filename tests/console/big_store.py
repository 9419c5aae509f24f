"""A store with a long past: finished jobs of six days, with failures, deaths, schedules and their ticks.

The rows go in by SQL, as fast as the database takes them. They hold what the services would have written, so
that pages meet real texts: errors with stacks, retries, redriven and dropped dead letters.
"""

import asyncio
import json
import random
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import asyncpg
from tests.store_access import opened_store
from tests.store_rows import job_type_row

from warrener_calendar.zones import database_version
from warrener_contracts.events import SchedulePutData
from warrener_contracts.policy import JobPolicy
from warrener_contracts.schedule_rules import CronRule, IntervalRule, Rule
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import JobTypeRow
from warrener_store.databases.address import SqliteAddress, parse_address
from warrener_store.schedules.rows import ScheduleRow
from warrener_store.statistics.rollup import KnownNames, add_to_stored, roll_up
from warrener_store.statistics.rows import Deploy, EndedJob, RollupPosition

PAST = timedelta(days=6)  # less than finished jobs are retained for
SCHEDULES = 200
TICKS = 500  # of each schedule
_ROWS_AT_ONCE = 50_000
_JOBS_IN_STATISTICS = 50_000
_POLICY = '{"max_attempts":3}'

Row = tuple[Any, ...]


class PastType(NamedTuple):
    """A job type: how often it runs, how long, how it fails."""

    name: str
    queue: str
    weight: int
    seconds: float  # median duration
    failing: float  # share of attempts that fail
    error: str
    message: str


TYPES = tuple(
    PastType(*each)
    for each in (
        ("flights.load", "imports", 24, 4.2, 0.02, "CsvError", "line 17 of {n}.csv: expected 19 fields"),
        ("flights.enrich", "imports", 18, 0.9, 0.01, "KeyError", "'carrier'"),
        ("mail.send", "mail", 30, 0.3, 0.015, "SMTPServerDisconnected", "Connection unexpectedly closed"),
        ("mail.digest", "mail", 6, 1.4, 0.005, "TemplateError", "'user' is undefined"),
        ("invoice.render", "documents", 9, 2.6, 0.03, "FontNotFound", "no font 'Inter' on this host"),
        ("invoice.book", "ledger", 5, 0.5, 0.004, "LedgerLocked", "period {n} is closed"),
        ("bank.pay", "ledger", 4, 1.1, 0.06, "bank.Timeout", "no answer within 10 s"),
        ("search.reindex", "search", 3, 38.0, 0.05, "OutOfMemory", "killed at 512 MiB"),
        ("thumbnails.make", "media", 12, 0.7, 0.02, "UnidentifiedImageError", "cannot identify image"),
        ("reports.nightly", "reports", 1, 95.0, 0.08, "QueryCanceled", "canceled by statement timeout"),
    )
)
_STACK = (
    'Traceback (most recent call last):\n  File "handlers.py", line 41, in handle\n    return work(job)\n'
    '  File "handlers.py", line 87, in work\n    raise {error}({message!r})\n{error}: {message}\n'
)

_JOB_COLUMNS = (
    *("job_id", "job_type", "queue", "arguments", "guarantee", "policy", "source", "requested_at"),
    *("accepted_at", "request_hash", "version", "state", "attempt", "failures", "losses", "agent_id"),
    *("watchers", "dispatched_at", "started_at", "finished_at", "result", "error", "updated_at"),
    *("run_started_at", "run_finished_at"),
)
_ATTEMPT_COLUMNS = (
    *("job_id", "attempt", "outcome", "agent_id", "dispatched_at", "started_at", "finished_at", "error"),
    "verdict",
)
_DEAD_COLUMNS = ("job_id", "job_type", "attempts", "reason", "error", "died_at", "fingerprint", "state")
_TICK_COLUMNS = ("schedule", "nominal_at", "status", "due_at", "decided_at", "reason", "job_id", "fired_at")
_COUNT_COLUMNS = ("job_type", "queue", "state", "slot", "jobs")


def past_job_id(number: int) -> UUID:
    """The id of the job with this number, the first accepted first."""
    return uuid5(NAMESPACE_URL, f"past job {number}")


def schedule_name(number: int) -> str:
    """The name of the schedule with this number."""
    return f"{TYPES[number % len(TYPES)].name.replace('.', '-')}-{number:03}"


async def fill(url: str, jobs: int, *, until: datetime | None = None, seed: int = 14) -> None:
    """Add `jobs` jobs that ended within the six days before `until` (default: now), and all around them.

    The tables must be those of this version, and empty.
    """
    until = until or datetime.now(UTC)
    past = _Past(jobs, until, random.Random(seed))
    async with opened_store(url) as store:
        await store.put_job_types([_job_type(one, until) for one in TYPES])
        await store.put_schedules([_schedule(number, until) for number in range(SCHEDULES)])
    if isinstance(address := parse_address(url), SqliteAddress):
        await asyncio.to_thread(_fill_sqlite, str(address.path), past)
    else:
        await _fill_postgres(url, past)
    # Statistics, as the supervisor would have made them.
    last = past.ended[-1]
    end: dict[str, Any] = {"finished_at": last.finished_at, "job_id": last.job_id, "complete_until": until}
    buckets, causes = add_to_stored(roll_up(past.ended, _version_of, KnownNames(), until), (), ())
    async with opened_store(url) as store:
        position = RollupPosition(revision=1, **end)
        assert await store.statistics.add_statistics(position, buckets, causes)
        await store.statistics.put_deploys(_deploys(until))


def _deploys(until: datetime) -> list[Deploy]:
    """A deploy at the begin of every second day, when `_version_of` changes."""
    today = until.replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=ago) for ago in range(6)]
    return [
        Deploy(job_type=one.name, first_seen_at=day, code_version=_version_of(None, day), last_seen_at=until)
        for one in TYPES
        for day in days
        if day.timetuple().tm_yday % 2 == 0
    ]


def _version_of(agent_id: str | None, moment: datetime) -> str:
    del agent_id
    return f"1.{moment.timetuple().tm_yday // 2}"


class _Past:
    """The rows of all tables, in batches. A job's rows of other tables follow in the same batch."""

    def __init__(self, jobs: int, until: datetime, chance: random.Random) -> None:
        self._jobs, self._until, self._chance = jobs, until, chance
        self._counts: dict[tuple[str, str, str], int] = {}
        self.ended: list[EndedJob] = []
        """Those in the statistics: every k-th, since each costs more than its row."""

    def batches(self) -> Iterator[Mapping[str, tuple[Sequence[str], list[Row]]]]:
        for first in range(0, self._jobs, _ROWS_AT_ONCE):
            jobs: list[Row] = []
            attempts: list[Row] = []
            dead: list[Row] = []
            for number in range(first, min(self._jobs, first + _ROWS_AT_ONCE)):
                self._add_job(number, jobs, attempts, dead)
            yield {
                "warrener_jobs": (_JOB_COLUMNS, jobs),
                "warrener_attempts": (_ATTEMPT_COLUMNS, attempts),
                "warrener_dead_letters": (_DEAD_COLUMNS, dead),
            }
        yield {"warrener_ticks": (_TICK_COLUMNS, list(self._ticks()))}
        yield {
            "warrener_job_counts": (_COUNT_COLUMNS, [(*key, 0, jobs) for key, jobs in self._counts.items()])
        }

    def _add_job(self, number: int, jobs: list[Row], attempts: list[Row], dead: list[Row]) -> None:
        chance = self._chance
        one = chance.choices(TYPES, _WEIGHTS)[0]
        job_id = past_job_id(number)
        accepted = self._accepted(number)
        at = accepted + timedelta(seconds=chance.random() * 0.4)
        agent = f"agent-{one.queue}-{number % 3 + 1}"
        failures, error = 0, None
        while failures < 3 and chance.random() < one.failing * (12 if failures else 1):
            failures += 1
            error = _error_text(one, number)
            started = at + timedelta(milliseconds=40)
            finished = started + timedelta(seconds=one.seconds * chance.random())
            verdict = "dead: attempts used up" if failures == 3 else "retry after 2 s"
            attempts.append((job_id, failures, "failed", agent, at, started, finished, error, verdict))
            at = finished + timedelta(seconds=2)
        cancelled = failures == 0 and chance.random() < 0.003
        state = "dead" if failures == 3 else "cancelled" if cancelled else "succeeded"
        ran_at = at + timedelta(milliseconds=20)
        over = ran_at + timedelta(seconds=one.seconds * chance.lognormvariate(0, 0.5))
        succeeded = state == "succeeded"
        arguments = json.dumps({"path": f"2013-{number % 12 + 1:02}.csv", "n": number})
        jobs.append(
            (
                job_id,
                one.name,
                one.queue,
                arguments,
                "idempotent",
                _POLICY,
                "airport",
                accepted,
                *(accepted, "0" * 32, 2 + 2 * failures, state, min(failures + 1, 3), failures),
                0,
                agent,
                "[]",
                at,
                ran_at if succeeded else None,
                over,
                '{"rows":31}' if succeeded else None,
                *(None if succeeded else error, over, *((ran_at, over) if succeeded else (None, None))),
            )
        )
        if state == "dead":
            is_old = self._until - over > timedelta(days=3)
            resolution = "dropped" if is_old and number % 3 else "open"
            reason = "attempts used up"
            dead.append((job_id, one.name, 3, reason, error, over, _fingerprint(one), resolution))
        if number % max(1, self._jobs // _JOBS_IN_STATISTICS) == 0 or number == self._jobs - 1:
            death: dict[str, Any] = {}
            if state == "dead":
                death = {"fingerprint": _fingerprint(one), "error_type": one.error, "message": one.message}
            self.ended.append(
                EndedJob(
                    job_id=job_id,
                    job_type=one.name,
                    state=JobState(state),
                    source="airport",
                    agent_id=agent,
                    failures=failures,
                    losses=0,
                    dispatched_at=at,
                    started_at=ran_at,
                    ran_until=over,
                    finished_at=over,
                    **death,
                )
            )
        key = (one.name, one.queue, state)
        self._counts[key] = self._counts.get(key, 0) + 1

    def _accepted(self, number: int) -> datetime:
        return self._until - PAST * ((self._jobs - number) / self._jobs) - timedelta(minutes=5)

    def _ticks(self) -> Iterator[Row]:
        step = max(1, self._jobs // TICKS)
        for schedule in range(SCHEDULES):
            for tick in range(min(TICKS, self._jobs)):
                number = min(self._jobs - 1, tick * step + schedule % step)
                at = self._accepted(number).replace(microsecond=schedule)
                yield (schedule_name(schedule), at, "fired", at, at, "", past_job_id(number), at)


_WEIGHTS = [one.weight for one in TYPES]


def _fingerprint(one: PastType) -> str:
    return f"{uuid5(NAMESPACE_URL, one.error).hex[:16]}"


def _error_text(one: PastType, number: int) -> str:
    message = one.message.format(n=number % 50)
    stack = _STACK.format(error=one.error, message=message)
    error = {"kind": "error", "type": one.error, "message": message, "retryable": True, "stack": stack}
    return json.dumps(error)


def _job_type(one: PastType, now: datetime) -> JobTypeRow:
    properties = {"path": {"type": "string"}, "n": {"type": "integer"}}
    return job_type_row(
        one.name,
        queue=one.queue,
        arguments_schema={"type": "object", "properties": properties},
        policy=JobPolicy(max_attempts=3),
        description=f"What {one.name} does is said here.",
        announced_by=f"agent-{one.queue}-1",
        announced_at=now - PAST,
    )


def _schedule(number: int, now: datetime) -> ScheduleRow:
    """Hourly, daily and often; next ticks lie a day ahead, so that no scheduler adds jobs of theirs.

    A scheduler keeps them so: it computes next ticks again only for another version of the zones.
    """
    rules: Sequence[Rule] = (
        CronRule(expression=f"{number % 60} * * * *"),
        CronRule(expression=f"{number % 60} {number % 24} * * *"),
        IntervalRule(every=timedelta(minutes=5 + number % 50)),
    )
    rule, job_type = rules[number % 3], TYPES[number % len(TYPES)].name
    definition = SchedulePutData(
        name=schedule_name(number), rule=rule, job_type=job_type, arguments={"n": number}
    )
    ahead, is_paused = now + timedelta(days=1, minutes=number), number % 17 == 5
    return ScheduleRow(
        definition=definition,
        put_at=now - PAST,
        zone_version=database_version(),
        paused=is_paused,
        next_at=ahead,
        wake_at=ahead,
        pause_reason="the source is being moved" if is_paused else "",
    )


def _fill_sqlite(path: str, past: _Past) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -400000")
        for batch in past.batches():
            for table, (columns, rows) in batch.items():
                marks = ", ".join("?" * len(columns))
                text = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
                connection.executemany(text, (tuple(map(_sqlite_value, row)) for row in rows))
            connection.commit()
        connection.execute("ANALYZE")
    connection.close()


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%f}Z"
    return value


async def _fill_postgres(url: str, past: _Past) -> None:
    connection = await asyncpg.connect(url)
    try:
        for batch in past.batches():
            for table, (columns, rows) in batch.items():
                await connection.copy_records_to_table(table, records=rows, columns=list(columns))
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
