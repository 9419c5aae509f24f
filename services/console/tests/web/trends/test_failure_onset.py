"""The moment when a job type began to fail is found where it is, and nowhere else."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from warrener.web.trends.failure_onset import (
    FirstDeath,
    ScheduleChange,
    explain_onset,
    find_onset,
    format_share,
)
from warrener_store.statistics.rows import BucketSpan, CauseBucket, Deploy, SeriesBucket, SeriesKind
from warrener_store.testing import NOON

BEGIN = BucketSpan.MINUTE.floor(NOON)
MINUTE = timedelta(minutes=1)


def series(*stretches: tuple[int, int, int]) -> list[SeriesBucket]:
    """Stretches of (minutes, succeeded, dead) a minute."""
    numbers = [(succeeded, dead) for minutes, succeeded, dead in stretches for _ in range(minutes)]
    return [
        SeriesBucket(
            span=BucketSpan.MINUTE,
            kind=SeriesKind.JOB_TYPE,
            name="flights.load",
            starts_at=BEGIN + MINUTE * at,
            succeeded=succeeded,
            dead=dead,
        )
        for at, (succeeded, dead) in enumerate(numbers)
    ]


def cause(at: int, fingerprint: str = "f1", jobs: int = 5) -> CauseBucket:
    return CauseBucket(
        span=BucketSpan.MINUTE,
        job_type="flights.load",
        starts_at=BEGIN + MINUTE * at,
        fingerprint=fingerprint,
        jobs=jobs,
        error_type="KeyError" if fingerprint == "f1" else "TimeoutError",
        message="'origin'",
    )


def deploy(at: float, version: str, schema_hash: str = "a") -> Deploy:
    return Deploy(
        job_type="flights.load",
        first_seen_at=BEGIN + MINUTE * at,
        code_version=version,
        last_seen_at=BEGIN + MINUTE * 300,
        schema_hash=schema_hash,
    )


def test_the_first_bad_minute_is_found() -> None:
    found = find_onset(series((100, 20, 0), (40, 14, 6)))
    assert found is not None
    split, recovered_at = found
    assert (split.at, recovered_at) == (BEGIN + 100 * MINUTE, None)
    assert (split.before_rate, split.after_rate) == (0.0, 0.3)


def test_a_series_that_always_fails_a_little_has_no_moment() -> None:
    chance = Random(5)
    points = [
        replace(point, dead=sum(chance.random() < 0.05 for _ in range(20)), succeeded=20)
        for point in series((180, 20, 0))
    ]
    assert find_onset(points) is None


@pytest.mark.parametrize("points", [[], series((60, 0, 0)), series((60, 0, 3)), series((60, 20, 0))])
def test_a_series_without_a_change_has_no_moment(points: list[SeriesBucket]) -> None:
    assert find_onset(points) is None


def test_one_failure_is_no_moment() -> None:
    assert find_onset(series((50, 20, 0), (1, 19, 1), (9, 20, 0))) is None


def test_minutes_without_jobs_do_not_count() -> None:
    found = find_onset(series((30, 10, 0), (60, 0, 0), (30, 5, 5)))
    assert found is not None
    assert BEGIN + 30 * MINUTE <= found[0].at <= BEGIN + 90 * MINUTE


def test_a_trouble_that_is_over_has_an_end() -> None:
    found = find_onset(series((60, 20, 0), (30, 10, 10), (60, 20, 0)))
    assert found is not None
    split, recovered_at = found
    assert (split.at, recovered_at) == (BEGIN + 60 * MINUTE, BEGIN + 90 * MINUTE)
    assert (split.after_rate, split.after_failed) == (0.5, 300)


def test_the_first_death_of_a_cause_counts_though_few_follow_at_once() -> None:
    found = explain_onset(
        "flights.load",
        series((100, 20, 0), (1, 19, 1), (3, 20, 0), (36, 14, 6)),
        deploys=[],
        causes=[cause(100, jobs=1), cause(104, jobs=216)],
        first_deaths=[FirstDeath(fingerprint="f1", at=BEGIN + 100 * MINUTE + timedelta(seconds=20))],
    )
    assert found is not None
    assert found.cause is not None
    assert (found.began_at, found.cause.is_new) == (BEGIN + 100 * MINUTE + timedelta(seconds=20), True)


def test_a_cause_that_was_known_long_before_is_not_new() -> None:
    found = explain_onset(
        "flights.load",
        series((20, 20, 0), (1, 19, 1), (79, 20, 0), (40, 14, 6)),
        deploys=[],
        causes=[cause(20, jobs=1), cause(100, jobs=240)],
    )
    assert found is not None
    assert found.cause is not None
    assert (found.began_at, found.cause.is_new) == (BEGIN + 100 * MINUTE, False)


def test_the_sentence_names_what_changed() -> None:
    found = explain_onset(
        "flights.load",
        series((100, 998, 2), (40, 690, 310)),
        deploys=[deploy(-500, "1.4.1"), deploy(88, "1.4.2", "b"), deploy(130, "1.4.3")],
        causes=[cause(20, "f2"), cause(100, jobs=300), cause(110, "f2", jobs=10)],
        first_deaths=[FirstDeath(fingerprint="f1", at=BEGIN + 100 * MINUTE + timedelta(seconds=20))],
        schedule_changes=[
            ScheduleChange(schedule="hourly", at=BEGIN + 90 * MINUTE),
            ScheduleChange(schedule="old", at=BEGIN - 2000 * MINUTE),
        ],
    )
    assert found is not None
    assert found.began_at == BEGIN + 100 * MINUTE + timedelta(seconds=20), "the first death is exact"
    assert found.sentence == (
        "flights.load began to fail 12 min after version 1.4.2 (1.4.1 before); fails 31 % of its jobs, "
        "before 0.2 %; error KeyError, new since then; the schema of its arguments changed with the version; "
        "schedule hourly changed 10 min before"
    )


def test_a_deploy_long_before_or_after_is_not_named() -> None:
    points, causes = series((100, 20, 0), (40, 10, 10)), [cause(100)]
    for deploys in ([deploy(-400, "1.4.2")], [deploy(120, "1.4.2")], []):
        found = explain_onset("flights.load", points, deploys=deploys, causes=causes)
        assert found is not None
        assert found.deploy is None
        assert "without a deploy before" in found.sentence


def test_a_cause_that_was_there_before_is_not_new() -> None:
    points = series((100, 20, 0), (40, 10, 10))
    for causes, deaths in (
        ([cause(10), cause(100)], []),
        ([cause(100)], [FirstDeath(fingerprint="f1", at=BEGIN - 900 * MINUTE)]),
    ):
        found = explain_onset("flights.load", points, deploys=[], causes=causes, first_deaths=deaths)
        assert found is not None
        assert found.cause is not None
        assert not found.cause.is_new
        assert found.began_at == BEGIN + 100 * MINUTE


def test_expired_jobs_have_no_cause() -> None:
    points = [replace(point, dead=0, expired=point.dead) for point in series((60, 20, 0), (30, 10, 10))]
    found = explain_onset("flights.load", points, deploys=[], causes=[])
    assert found is not None
    assert found.cause is None


def test_shares_are_as_exact_as_they_matter() -> None:
    assert [format_share(share) for share in (0.0, 0.002, 0.094, 0.31, 1.0)] == [
        "0 %",
        "0.2 %",
        "9.4 %",
        "31 %",
        "100 %",
    ]
