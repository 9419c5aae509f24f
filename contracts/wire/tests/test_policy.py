"""Retries wait as they should, whatever the numbers."""

import json
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warrener_contracts.durations import MAX_DURATION
from warrener_contracts.policy import Backoff, JobPolicy, PolicyOverrides

SPANS = st.timedeltas(timedelta(0), MAX_DURATION)
BACKOFFS = st.builds(Backoff, first=SPANS, factor=st.floats(1, 100), limit=SPANS, jitter=st.floats(0, 1))
CHANCE = st.floats(0, 1, exclude_max=True)


def test_the_delay_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first=timedelta(seconds=1), factor=2, limit=timedelta(seconds=10), jitter=0)
    assert [backoff.delay(n, 0.3).total_seconds() for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_it_to_both_sides() -> None:
    backoff = Backoff(first=timedelta(seconds=10), jitter=0.5)
    assert backoff.delay(1, 0.0).total_seconds() == 5
    assert backoff.delay(1, 0.5).total_seconds() == 10
    assert backoff.delay(1, 0.999999).total_seconds() == pytest.approx(15, abs=0.001)


@given(BACKOFFS, st.integers(-1, 10**9), CHANCE)
def test_it_never_overflows_is_never_negative_and_keeps_its_bounds(
    backoff: Backoff, failures: int, chance: float
) -> None:
    delay = backoff.delay(failures, chance)
    most = min(backoff.limit * (1 + backoff.jitter), MAX_DURATION)
    assert timedelta(0) <= delay <= most + timedelta(milliseconds=1)


@given(BACKOFFS, CHANCE)
def test_it_never_gets_shorter_from_one_failure_to_the_next(backoff: Backoff, chance: float) -> None:
    delays = [backoff.delay(failures, chance) for failures in range(1, 80)]
    assert all(earlier <= later for earlier, later in pairwise(delays))


def test_a_request_replaces_what_it_chooses_and_nothing_else() -> None:
    policy = JobPolicy(max_attempts=7, timeout=timedelta(seconds=5), start_timeout=timedelta(seconds=6))
    assert PolicyOverrides().apply_to(policy) == policy
    chosen = PolicyOverrides(max_attempts=1, backoff=Backoff(jitter=0)).apply_to(policy)
    assert chosen == JobPolicy(
        max_attempts=1,
        timeout=timedelta(seconds=5),
        start_timeout=timedelta(seconds=6),
        backoff=Backoff(jitter=0),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 1001},
        {"max_losses": -1},
        {"timeout": "0s"},
        {"start_timeout": 0},
        {"timeout": "-1s"},
        {"backoff": {"factor": 0.5}},
        {"backoff": {"jitter": 1.5}},
        {"backoff": {"factor": float("nan")}},
        {"backoff": {"first": float("inf")}},
        {"max_age": "0s"},
        {"max_snoozes": -1},
        {"retry_on": [""]},
        {"no_retry": ["x" * 201]},
        {"no_retry": "ValueError"},
    ],
)
def test_a_policy_that_could_not_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        JobPolicy.model_validate(wrong)


def test_a_request_may_choose_every_part_of_a_policy() -> None:
    # What its handler is written for.
    of_the_type_alone = {"depends_on", "breaker", "heartbeat_timeout", "per_message"}
    assert PolicyOverrides.model_fields.keys() == JobPolicy.model_fields.keys() - of_the_type_alone


def test_a_policy_has_the_fields_of_version_1_0_until_more_are_chosen() -> None:
    assert set(json.loads(JobPolicy().model_dump_json())) == {
        "max_attempts",
        "max_losses",
        "timeout",
        "start_timeout",
        "backoff",
    }
    chosen = PolicyOverrides(max_attempts=3).model_dump(mode="json")
    assert set(chosen) == {"max_attempts", "timeout", "start_timeout", "backoff"}, (
        "the fingerprint of a request"
    )
    assert PolicyOverrides(retry_on=(), max_losses=0).model_dump_json(exclude_none=True) == (
        '{"max_losses":0,"retry_on":[]}'
    ), "an empty list and a zero are choices"


def test_the_age_of_a_job_that_waits_begins_when_it_is_due() -> None:
    policy = JobPolicy(max_age=timedelta(hours=1))
    assert policy.with_initial_wait(timedelta(days=7)).max_age == timedelta(days=7, hours=1)
    assert policy.with_initial_wait(timedelta(0)) is policy
    assert JobPolicy().with_initial_wait(timedelta(days=7)) == JobPolicy()
    far = JobPolicy(max_age=MAX_DURATION).with_initial_wait(MAX_DURATION)
    assert JobPolicy.model_validate_json(far.model_dump_json()) == far


def test_the_policy_reads_what_it_writes() -> None:
    policy = JobPolicy(timeout=timedelta(minutes=2, milliseconds=5))
    assert JobPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert '"timeout":"PT2M0.005S"' in policy.model_dump_json()
