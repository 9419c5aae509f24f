"""Point 1 of supervision, on real processes and a real broker: what a policy or a handler says about another
attempt is what happens."""

import json
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.acceptance.store_queries import find_job, job_history
from tests.acceptance.warren import Warren

from warrener_client import Backoff, JobCancelled, JobDied, PolicyOverrides, SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome

MODULE = "tests.acceptance.retry_handlers"


def runs(warren: Warren, job_id: UUID) -> list[datetime]:
    """When the handler has run for this job."""
    notes = Path(warren.folder, "runs", str(job_id))
    return [datetime.fromisoformat(json.loads(line)["at"]) for line in notes.read_text().splitlines()]


def gaps(warren: Warren, job_id: UUID) -> list[float]:
    """The seconds from run to run."""
    return [(later - earlier).total_seconds() for earlier, later in pairwise(runs(warren, job_id))]


CURVES: list[tuple[str, Backoff, list[int]]] = [
    ("fixed", Backoff.fixed(1, jitter=0), [1, 1, 1]),
    ("linear", Backoff.linear(1, step=1, limit=2, jitter=0), [1, 2, 2]),
    ("exponential", Backoff.exponential(1, factor=3, limit=4, jitter=0), [1, 3, 4]),
    ("listed", Backoff.listed(2, 1, jitter=0), [2, 1, 1]),
    ("spread", Backoff.fixed(2, jitter=0.5), [1, 1, 1]),  # each between 1 s and 3 s
]


def test_1_policies_of_requests_replace_those_of_their_type_and_wait_by_their_curve(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        requested = {
            name: client.request("shaky", {"failures": 3}, policy=PolicyOverrides(backoff=backoff))
            for name, backoff, _ in CURVES
        }
        for name, _, least in CURVES:
            with subtests.test(name):
                assert requested[name].result(timeout=60) == 3
                waited = gaps(warren, requested[name].job_id)
                assert all(gap >= at_least - 0.3 for gap, at_least in zip(waited, least, strict=True)), waited
        once = client.request("shaky", policy={"max_attempts": 1})
        with pytest.raises(JobDied):
            once.result(timeout=60)
        assert len(runs(warren, once.job_id)) == 1
        old = client.request("shaky", policy={"max_age": "1m", "backoff": {"delays": ["1h"]}})
        with pytest.raises(JobDied):
            old.result(timeout=60)
        _, attempts, _ = job_history(warren, old.job_id)
        assert "past its greatest age" in attempts[-1].verdict


def test_1_errors_are_tried_again_or_not_by_class_and_by_name(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    warren.start_all(MODULE)
    cases: list[tuple[str, dict[str, Any] | None, int, str]] = [
        ("shaky", None, 5, "its 5 attempts are used up"),
        ("broken", None, 1, "no_retry_on names tests.acceptance.retry_handlers.Broken"),
        ("key", None, 1, "retry_on does not name KeyError"),
        ("shaky", {"no_retry_on": ["*.Shaky"]}, 1, "no_retry_on names tests.acceptance.retry_handlers.Shaky"),
        ("broken", {"no_retry_on": [], "max_attempts": 2}, 2, "its 2 attempts are used up"),
        ("key", {"retry_on": ["Lookup*"], "max_attempts": 2}, 2, "its 2 attempts are used up"),
    ]
    with SyncClient(warren.broker_url) as client:
        requested = [
            client.request("named", {"error": error}, policy=policy) for error, policy, _, _ in cases
        ]
        for job, (error, policy, times, why) in zip(requested, cases, strict=True):
            with subtests.test(error, policy=policy), pytest.raises(JobDied):
                job.result(timeout=60)
            row, attempts, _ = job_history(warren, job.job_id)
            assert (row.state, len(runs(warren, job.job_id))) == (JobState.DEAD, times)
            assert attempts[-1].verdict == f"dead: {why}"


def test_1_a_handler_snoozes_cancels_and_fails_its_own_job(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        snoozes = client.request("signals", {"how": "snooze"}, policy={"max_attempts": 1})
        cancels = client.request("signals", {"how": "cancel"})
        fails = client.request("signals", {"how": "fail"})
        never = client.request("never")

        assert snoozes.result(timeout=60) == 2
        row, attempts, _ = job_history(warren, snoozes.job_id)
        assert (row.attempt, row.failures) == (3, 0), "not charged, and the fence has moved"
        ends = [one.outcome for one in attempts]
        assert ends == [AttemptOutcome.SNOOZED, AttemptOutcome.SNOOZED, AttemptOutcome.SUCCEEDED]
        assert attempts[0].verdict.endswith(": the file is not there yet")
        assert min(gaps(warren, snoozes.job_id)) >= 0.9

        with pytest.raises(JobCancelled):
            cancels.result(timeout=60)
        row, _ = find_job(warren, cancels.job_id)
        assert (row.state, row.attempt) == (JobState.CANCELLED, 1)
        assert row.cancel_reason == "by its handler: the order was taken back"

        with pytest.raises(JobDied, match="the account is closed"):
            fails.result(timeout=60)
        assert len(runs(warren, fails.job_id)) == 1

        with pytest.raises(JobDied, match="it has snoozed 2 times"):
            never.result(timeout=60)
        row, attempts, parked = job_history(warren, never.job_id)
        assert (row.attempt, row.failures) == (4, 2), "two for nothing, then charged until it was dead"
        assert min(gaps(warren, never.job_id)) >= 0.9, "a snooze of no time does not spin"
    assert not parked


def test_1_a_handlers_requested_delay_counts_before_the_curve(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("later", {"delay": "3s"}, policy={"backoff": {"delays": ["1h"]}})
        assert job.result(timeout=60) == 1
    (gap,) = gaps(warren, job.job_id)
    assert timedelta(seconds=2.9).total_seconds() <= gap < 60
