"""Ended jobs are rolled up into buckets of every length, once each, and in bounded rows."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from tests.store_rows import NOON, after

from warrener_contracts.identity import schedule_source
from warrener_contracts.state_machine import JobState
from warrener_store.statistics import rows
from warrener_store.statistics.histogram import (
    MAX_CLASS,
    class_of,
    decode_histogram,
    encode_histogram,
    percentile,
    upper_bound,
)
from warrener_store.statistics.rollup import Increments, KnownNames, add_to_stored, roll_up

NOW = after(60)


def ended_job(**fields: object) -> rows.EndedJob:
    """A job that succeeded at noon, after two seconds in its queue and one of work."""
    plain = rows.EndedJob(
        job_id=uuid4(),
        job_type="flights.load",
        state=JobState.SUCCEEDED,
        source="test",
        agent_id="a1",
        failures=0,
        losses=0,
        dispatched_at=after(-3),
        started_at=after(-1),
        ran_until=after(0),
        finished_at=after(0),
    )
    return replace(plain, **fields)  # type: ignore[arg-type]  # a test names fields of its own


def dead_job(fingerprint: str = "f1", **fields: object) -> rows.EndedJob:
    return ended_job(
        state=JobState.DEAD,
        failures=3,
        fingerprint=fingerprint,
        error_type="KeyError",
        message="'origin'",
        **fields,
    )


def rolled_up(*jobs: rows.EndedJob, now: datetime = NOW, names: KnownNames | None = None) -> Increments:
    """The rollup of jobs; agent b2 runs a version, the others an unknown one."""
    versions = {"b2": "1.4.2"}
    return roll_up(jobs, lambda agent_id, _: versions.get(agent_id or "", ""), names or KnownNames(), now)


def bucket(found: Increments, kind: rows.SeriesKind, name: str = "") -> rows.SeriesBucket:
    place = rows.BucketSpan.MINUTE, kind, name
    [one] = [each for key, each in found.buckets.items() if key[:3] == place]
    return one


def test_a_job_counts_in_all_its_series_and_spans() -> None:
    found = rolled_up(ended_job(source=schedule_source("hourly")))
    places = {key[:3] for key in found.buckets}
    series = {
        (rows.SeriesKind.ALL, ""),
        (rows.SeriesKind.JOB_TYPE, "flights.load"),
        (rows.SeriesKind.SCHEDULE, "hourly"),
    }
    assert places == {(span, *one) for span in rows.BucketSpan for one in series}
    assert all(one.succeeded == one.jobs == 1 for one in found.buckets.values())


def test_a_bucket_holds_states_durations_and_queue_times() -> None:
    slow = ended_job(started_at=after(-9), dispatched_at=after(-9))
    one = bucket(rolled_up(ended_job(), slow, dead_job()), rows.SeriesKind.JOB_TYPE, "flights.load")
    assert (one.succeeded, one.dead, one.failed, one.jobs, one.failed_attempts) == (2, 1, 1, 3, 3)
    assert (one.duration_sum, one.duration_max) == (10.0, 9.0)
    assert (one.queue_time_sum, one.queue_time_max) == (2.0, 2.0)
    assert one.durations == {class_of(1): 1, class_of(9): 1}


def test_a_job_that_never_ran_has_no_duration_and_clocks_that_disagree_give_no_negative_one() -> None:
    waited = ended_job(state=JobState.CANCELLED, started_at=None, dispatched_at=None)
    one = bucket(rolled_up(waited), rows.SeriesKind.ALL)
    assert (one.cancelled, one.durations, one.queue_times) == (1, {}, {})
    one = bucket(rolled_up(ended_job(dispatched_at=after(5), started_at=after(1))), rows.SeriesKind.ALL)
    assert (one.duration_sum, one.queue_time_sum) == (0.0, 0.0)


def test_versions_have_buckets_of_their_own_and_old_jobs_none_that_would_be_deleted_at_once() -> None:
    found = rolled_up(ended_job(), ended_job(agent_id="b2"))
    versions = {key.code_version for key in found.buckets if key.kind is rows.SeriesKind.ALL}
    assert versions == {"", "1.4.2"}
    old = rolled_up(ended_job(), now=NOON + timedelta(days=10))
    assert {key.span for key in old.buckets} == {rows.BucketSpan.HOUR, rows.BucketSpan.DAY}


def test_causes_of_death_are_counted_by_job_type() -> None:
    found = rolled_up(dead_job(), dead_job(), dead_job("f2"), ended_job())
    minutes = {
        key.fingerprint: one for key, one in found.causes.items() if key.span is rows.BucketSpan.MINUTE
    }
    assert {name: one.jobs for name, one in minutes.items()} == {"f1": 2, "f2": 1}
    assert (minutes["f1"].error_type, minutes["f1"].message) == ("KeyError", "'origin'")


def test_increments_are_added_to_what_is_stored() -> None:
    first, second = rolled_up(ended_job(), dead_job()), rolled_up(ended_job(), dead_job())
    buckets, causes = add_to_stored(second, first.buckets.values(), first.causes.values())
    assert {one.key for one in buckets} == first.buckets.keys()
    assert all((one.succeeded, one.dead) == (2, 2) for one in buckets)
    assert all(sum(one.durations.values()) == 2 for one in buckets)
    assert [cause.jobs for cause in causes] == [2] * len(rows.BucketSpan)


def test_causes_beyond_the_limit_count_together() -> None:
    found = rolled_up(*(dead_job(f"f{n}") for n in range(rows.MAX_CAUSES + 5)))
    _, causes = add_to_stored(found, (), ())
    minutes = [cause for cause in causes if cause.span is rows.BucketSpan.MINUTE]
    assert len(minutes) == rows.MAX_CAUSES + 1
    assert sum(cause.jobs for cause in minutes) == rows.MAX_CAUSES + 5
    _, more = add_to_stored(rolled_up(dead_job("late")), (), causes)
    [late] = [cause for cause in more if cause.span is rows.BucketSpan.MINUTE]
    assert (late.fingerprint, late.jobs) == ("", 6)


def test_job_types_beyond_the_limit_count_together() -> None:
    names = KnownNames((rows.SeriesKind.JOB_TYPE, f"type.{n}") for n in range(rows.MAX_NAMES - 1))
    found = rolled_up(*(ended_job(job_type=name) for name in ("new", "beyond", "new")), names=names)
    assert bucket(found, rows.SeriesKind.JOB_TYPE, "new").jobs == 2
    assert bucket(found, rows.SeriesKind.JOB_TYPE, rows.OTHER).jobs == 1
    assert bucket(found, rows.SeriesKind.ALL).jobs == 3


def test_buckets_begin_at_whole_spans() -> None:
    moment = datetime.fromisoformat("2026-11-20T12:34:56.789+00:00")
    assert [span.floor(moment).strftime("%d %H:%M:%S") for span in rows.BucketSpan] == [
        "20 12:34:00",
        "20 12:30:00",
        "20 12:00:00",
        "20 00:00:00",
    ]


def test_a_histogram_holds_its_durations_is_near_the_truth_and_comes_back_as_it_went() -> None:
    histogram = Counter(class_of(seconds) for seconds in range(1, 101))
    for share in (0.5, 0.95):
        assert percentile(histogram, share) == pytest.approx(100 * share, rel=0.25)
    assert percentile({}, 0.5) is None
    assert class_of(10.0**9) == MAX_CLASS
    for seconds in (0.0, 0.001, 0.04, 1.0, 17.3, 3600.0, 86_400.0):
        number = class_of(seconds)
        assert seconds <= upper_bound(number) * 1.000001
        assert number == 0 or seconds > upper_bound(number - 1)
    assert decode_histogram(encode_histogram({20: 3, 1: 1})) == {1: 1, 20: 3}
    assert encode_histogram({}) == ""
