"""The stories of statistics and deploys, alike in every store."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from tests.store_rows import NOON, after, agent_row, changed, died, queued_job, waiting_job

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.jobs.views import Success
from warrener_store.statistics import rows

BEGIN = rows.RollupPosition()
BUCKET = rows.SeriesBucket(
    span=rows.BucketSpan.HOUR,
    kind=rows.SeriesKind.JOB_TYPE,
    name="flights.load\x00",
    starts_at=rows.BucketSpan.HOUR.floor(NOON),
    code_version="1.4.2",
    succeeded=7,
    dead=1,
    cancelled=2,
    expired=3,
    failed_attempts=4,
    lost_attempts=5,
    duration_sum=1.5,
    duration_max=0.5,
    durations={3: 4, 20: 3},
    queue_time_sum=0.25,
    queue_time_max=0.125,
    queue_times={1: 7},
)
CAUSE = rows.CauseBucket(
    span=rows.BucketSpan.HOUR,
    job_type="flights.load",
    starts_at=rows.BucketSpan.HOUR.floor(NOON),
    fingerprint="f1",
    jobs=3,
    error_type="KeyError",
    message="'origin\x00'",
)
DEPLOY = rows.Deploy(
    job_type="flights.load",
    first_seen_at=NOON,
    code_version="1.4.2",
    last_seen_at=after(60),
    schema_hash="ab12",
)


async def ended(store: Store, *seconds: float) -> list[UUID]:
    """Insert jobs and end them by successes at these seconds after noon; their ids, in the order of ends."""
    ends = [(at, queued_job()) for at in seconds]
    await store.insert_jobs([row for _, row in ends])
    for at, row in ends:
        await store.succeed_jobs([Success(row.job_id, 1, "a1", None, after(at - 1), after(at))], after(at))
    return [row.job_id for _, row in sorted(ends, key=lambda end: (end[0], end[1].job_id))]


async def test_jobs_come_in_the_order_of_their_ends_and_each_once(store: Store) -> None:
    ids = await ended(store, 3, 1, 2, 2, 2, 5)
    read: list[UUID] = []
    position = BEGIN
    while found := await store.ended_jobs(position, after(4), 2):
        assert len(found) <= 2
        read += [job.job_id for job in found]
        position = replace(position, finished_at=found[-1].finished_at, job_id=found[-1].job_id)
    assert read == ids[:-1], "the last one ended later than was asked for"


async def test_an_ended_job_has_the_facts_of_its_statistics(store: Store) -> None:
    good, bad = queued_job(source="warrener/schedule/hourly"), queued_job(agent_id="a1", failures=3)
    cancelled = waiting_job()
    await store.insert_jobs([good, bad, cancelled, queued_job(), waiting_job()])
    await store.succeed_jobs([Success(good.job_id, 1, "a1", {"rows": 3}, after(2), after(5))], after(6))
    save = died(bad, ErrorInfo(type="KeyError", message="'origin'", kind=ErrorKind.ERROR))
    assert save.dead_letter is not None
    dead = replace(save, dead_letter=replace(save.dead_letter, fingerprint="f1"))
    over = changed(cancelled, state=JobState.CANCELLED, wake_at=None, finished_at=after(70))
    await store.save_jobs([dead, over])

    first, second, third = await store.ended_jobs(BEGIN, after(80), 10)  # not those that are not over
    assert (first.job_id, first.job_type, first.state) == (good.job_id, "flights.load", JobState.SUCCEEDED)
    assert (first.source, first.agent_id) == ("warrener/schedule/hourly", "a1")
    assert (first.dispatched_at, first.started_at, first.ran_until) == (NOON, after(2), after(5))
    assert (first.finished_at, first.fingerprint, first.error_type) == (after(6), "", "")
    assert (second.state, second.failures, second.fingerprint) == (JobState.DEAD, 3, "f1")
    assert (second.error_type, second.message) == ("KeyError", "'origin'")
    assert (third.job_id, third.state, third.started_at) == (cancelled.job_id, JobState.CANCELLED, None)


async def test_the_newest_ends_are_counted_by_minute(store: Store) -> None:
    await ended(store, -1, 1, 2, 61)
    found = await store.recent_ends(NOON)
    minute = rows.BucketSpan.MINUTE.floor(NOON)
    assert {(one.minute, one.jobs) for one in found} == {(minute, 2), (minute + timedelta(minutes=1), 1)}
    assert {(one.job_type, one.state) for one in found} == {("flights.load", JobState.SUCCEEDED)}


def moved(revision: int) -> rows.RollupPosition:
    return rows.RollupPosition(
        revision=revision, finished_at=after(revision), job_id=UUID(int=revision), complete_until=after(9)
    )


async def test_a_position_and_its_buckets_change_together_and_once(store: Store) -> None:
    assert await store.rollup_position() == BEGIN
    assert await store.add_statistics(moved(1), [BUCKET], [CAUSE])
    assert await store.rollup_position() == moved(1)
    more, deaths = replace(BUCKET, succeeded=9, durations={3: 6, 20: 3}), replace(CAUSE, jobs=4)
    assert await store.add_statistics(moved(2), [more], [deaths])
    for repeated_or_late in (moved(2), moved(4)):
        wrong = replace(BUCKET, succeeded=99), replace(CAUSE, fingerprint="f2")
        assert not await store.add_statistics(repeated_or_late, [wrong[0]], [wrong[1]])
    assert await store.rollup_position() == moved(2)
    assert await read_bucket(store) == [more]
    assert await store.causes(rows.BucketSpan.HOUR, ["flights.load"], after(-3600)) == [deaths]


async def read_bucket(store: Store) -> list[rows.SeriesBucket]:
    which = rows.SeriesQuery(
        span=rows.BucketSpan.HOUR, kind=rows.SeriesKind.JOB_TYPE, names=[BUCKET.name], since=after(-3600)
    )
    return await store.series(which)


async def test_of_several_supervisors_one_makes_a_step(store: Store) -> None:
    assert await store.add_statistics(moved(1), [], [])
    buckets = [replace(BUCKET, succeeded=n) for n in range(5)]
    made = await asyncio.gather(*(store.add_statistics(moved(2), [bucket], []) for bucket in buckets))
    assert sum(made) == 1
    assert await read_bucket(store) == [buckets[made.index(True)]]


async def test_a_series_is_read_by_name_and_time(store: Store) -> None:
    hour = BUCKET.starts_at
    buckets = [
        replace(BUCKET, name=name, starts_at=hour + timedelta(hours=n), code_version=version)
        for name in ("a", "b")
        for n in range(3)
        for version in ("1", "2")
    ]
    await store.add_statistics(moved(1), [*buckets, replace(BUCKET, span=rows.BucketSpan.DAY)], [])
    which = rows.SeriesQuery(
        span=rows.BucketSpan.HOUR,
        kind=rows.SeriesKind.JOB_TYPE,
        names=("a",),
        since=hour + timedelta(hours=1),
        until=hour + timedelta(hours=2),
    )
    assert await store.series(which) == buckets[2:4]
    assert await store.series(replace(which, names=("a", "b"), until=None)) == [*buckets[2:6], *buckets[8:12]]
    assert await store.series(replace(which, kind=rows.SeriesKind.SCHEDULE)) == []
    assert await store.series_names() == [(rows.SeriesKind.JOB_TYPE, BUCKET.name)]


async def test_old_buckets_are_deleted_by_their_length(store: Store) -> None:
    old = replace(BUCKET, starts_at=BUCKET.starts_at - timedelta(hours=1))
    old_cause = replace(CAUSE, starts_at=old.starts_at)
    day = replace(old, span=rows.BucketSpan.DAY)
    await store.add_statistics(moved(1), [BUCKET, old, day], [CAUSE, old_cause])
    await store.drop_statistics(rows.BucketSpan.HOUR, BUCKET.starts_at)
    long_ago = after(-10 * 86400)
    hours = rows.SeriesQuery(
        span=rows.BucketSpan.HOUR, kind=rows.SeriesKind.JOB_TYPE, names=[BUCKET.name], since=long_ago
    )
    assert await store.series(hours) == [BUCKET]
    assert await store.series(replace(hours, span=rows.BucketSpan.DAY)) == [day]
    assert await store.causes(rows.BucketSpan.HOUR, ["flights.load"], long_ago) == [CAUSE]


async def test_deploys_come_back_the_newest_first(store: Store) -> None:
    before = replace(DEPLOY, first_seen_at=after(-600), code_version="1.4.1\x00")
    mail = replace(DEPLOY, job_type="mail.send", first_seen_at=after(-60))
    await store.put_deploys([before, DEPLOY, mail])
    assert await store.deploys(after(-3600)) == [DEPLOY, mail, before]
    assert await store.deploys(after(-3600), ["flights.load"]) == [DEPLOY, before]
    assert await store.deploys(after(-100)) == [DEPLOY, mail]
    assert await store.deploys(after(-3600), limit=1) == [DEPLOY]
    await store.put_deploys([replace(DEPLOY, last_seen_at=after(600), schema_hash="other")])
    await store.put_deploys([replace(DEPLOY, last_seen_at=after(30))])
    assert await store.deploys(NOON) == [replace(DEPLOY, last_seen_at=after(600))], "seen again, it stays one"


async def test_versions_of_agents_are_remembered(store: Store) -> None:
    first = rows.AgentVersion(agent_id="a1", since=NOON, code_version="1.4.1")
    second = replace(first, since=after(60), code_version="1.4.2")
    other = replace(first, agent_id="b2")
    await store.put_agent_versions([second, first, other])
    await store.put_agent_versions([replace(first, code_version="later")])
    assert await store.agent_versions(["a1", "c3"]) == [first, second]


async def test_old_deploys_and_versions_are_deleted(store: Store) -> None:
    await store.put_agents([agent_row("live")])
    live_before = rows.AgentVersion(agent_id="live", since=NOON, code_version="1")
    live_now = replace(live_before, since=after(10))
    gone = replace(live_before, agent_id="gone")
    await store.put_agent_versions([live_before, live_now, gone])
    newer = replace(DEPLOY, code_version="2", last_seen_at=after(120))
    await store.put_deploys([DEPLOY, newer])
    await store.drop_deploys(after(100))
    assert await store.deploys(NOON) == [newer]
    assert await store.agent_versions(["live", "gone"]) == [live_now]
