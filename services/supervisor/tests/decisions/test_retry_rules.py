"""Rules of a policy that choose the next attempt: another queue, a longer timeout, another agent."""

from datetime import timedelta
from typing import Any

from services.supervisor.tests.stage import (
    AT,
    JOB,
    NOW,
    STARTED,
    attempt_of,
    failed,
    judged,
    lost,
    make,
    released,
    snoozed,
    stopped,
)

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy, RetryRule
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import BreakerRow, OpenBreakers
from warrener_store.jobs.rows import JobRow, evolve
from warrener_store.jobs.rules import chosen_by_rule
from warrener_store.jobs.views import FailedAttempt
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.retry_rules import agents_to_avoid, history_of

MEMORY = ErrorInfo(kind=ErrorKind.CRASH, type="OutOfMemory", message="it used 600 MiB")
OTHER = ErrorInfo(kind=ErrorKind.ERROR, type="app.Full", message="", base_classes=("OSError",))
HIGH_MEMORY = RetryRule(errors=["memory"], after=2, queue="high-memory")
LONGER = RetryRule(errors=["timeout"], timeout_factor=2, max_timeout="3m")


def earlier(
    attempt: int, error: ErrorInfo = MEMORY, agent: str = "agent-1", verdict: str = ""
) -> FailedAttempt:
    return FailedAttempt(
        JOB, attempt, agent, STARTED, NOW, error.kind.value, error.type, verdict, error.base_classes
    )


def running(attempt: int, *rules: RetryRule, **changes: Any) -> JobRow:
    policy = JobPolicy(timeout=timedelta(minutes=1), max_attempts=20, max_crashes=20, retry_rules=rules)
    return make(JobState.RUNNING, attempt=attempt, failures=attempt - 1, policy=policy, **changes)


def judged_after(row: JobRow, event: Any, *before: FailedAttempt, **more: Any) -> JobTransition:
    return judged(row, event, AT._replace(failed={JOB: before}, **more))


def test_after_two_memory_deaths_the_next_attempt_goes_to_the_queue_that_a_rule_names() -> None:
    first = judged_after(running(1, HIGH_MEMORY), failed(1, MEMORY))
    assert (first.row.queue, chosen_by_rule(attempt_of(first).verdict)) == ("default", "")

    second = judged_after(running(2, HIGH_MEMORY), failed(2, MEMORY), earlier(1))
    assert second.row.queue == "high-memory"
    why = "attempt 3 goes from queue default to high-memory: 2 failures (memory)"
    assert second.row.due_at is not None
    assert attempt_of(second).verdict == f"retry at {second.row.due_at.isoformat()}: by a rule, {why}"

    third = judged_after(
        running(3, HIGH_MEMORY, queue="high-memory"), failed(3, OTHER), earlier(1), earlier(2)
    )
    assert third.row.queue == "high-memory", "it stays there"
    assert chosen_by_rule(attempt_of(third).verdict) == ""


def test_a_timeout_grows_with_each_timeout_up_to_its_limit_and_never_shrinks() -> None:
    def timeout_after(row: JobRow, *before: FailedAttempt) -> JobRow:
        overran = evolve(row, started_at=NOW - row.timeout - timedelta(minutes=1))
        return judged_after(overran, stopped(row.attempt), *before).row

    overran = earlier(1, ErrorInfo(kind=ErrorKind.TIMEOUT, type="timeout", message=""))
    second = timeout_after(running(1, LONGER))
    assert second.timeout == second.dispatched_data().timeout == timedelta(minutes=2)
    assert second.policy.timeout == timedelta(minutes=1), "what was declared stays"
    third = timeout_after(running(2, LONGER, timeout_seconds=120.0), overran)
    assert third.timeout == timedelta(minutes=3)
    fourth = timeout_after(running(3, LONGER, timeout_seconds=600.0), overran)
    assert fourth.timeout == timedelta(minutes=10)


def test_a_number_in_a_row_begins_again_with_a_failure_of_another_kind() -> None:
    in_a_row = RetryRule(errors=["memory"], after=2, in_a_row=True, queue="high-memory")
    between = earlier(1), earlier(2, OTHER)
    assert judged_after(running(3, in_a_row), failed(3, MEMORY), *between).row.queue == "default"
    assert judged_after(running(3, HIGH_MEMORY), failed(3, MEMORY), *between).row.queue == "high-memory"
    last = judged_after(running(3, HIGH_MEMORY), failed(3, OTHER), earlier(1), earlier(2))
    assert last.row.queue == "default", "only a failure that counts changes anything"


def test_all_rules_that_apply_count_the_later_queue_last() -> None:
    bases = RetryRule(errors=["OSError"], queue="large"), RetryRule(errors=["app.*"], queue="larger")
    decision = judged_after(running(1, *bases), failed(1, OTHER))
    assert decision.row.queue == "larger"
    assert [
        part.partition(" goes ")[2] for part in chosen_by_rule(attempt_of(decision).verdict).split("; ")
    ] == [
        "from queue default to large: 1 failure (OSError)",
        "from queue default to larger: 1 failure (app.*)",
    ]


def test_what_is_no_failure_changes_nothing() -> None:
    rule = RetryRule(errors=["*"], queue="elsewhere")
    for event in (released(2), snoozed(2)):
        assert judged_after(running(2, rule), event, earlier(1)).row.queue == "default"


def test_a_lost_attempt_is_not_given_to_the_agent_that_lost_it() -> None:
    rule = RetryRule(errors=["lost"], another_agent=True)
    decision = judged_after(running(1, rule), lost(1))
    assert chosen_by_rule(attempt_of(decision).verdict) == "attempt 2 avoids agent-1: 1 failure (lost)"
    gone = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="")
    of_agents = earlier(1, gone), earlier(2, gone, "agent-2"), earlier(4, gone)
    assert agents_to_avoid(decision.row, of_agents[:1]) == ("agent-1",)
    assert agents_to_avoid(decision.row, of_agents) == ("agent-1", "agent-2")
    assert agents_to_avoid(decision.row, [*of_agents, earlier(5, OTHER)]) == (), (
        "it has failed otherwise since"
    )


def test_a_breaker_that_holds_the_retry_back_does_not_keep_it_from_its_queue() -> None:
    rule = RetryRule(errors=["OSError"], queue="elsewhere")
    breaker = BreakerRow(
        name="job:flights.load", state=BreakerState.OPEN, since=NOW, reason="", policy=BreakerPolicy()
    )
    decision = judged_after(running(1, rule), failed(1, OTHER), holding=OpenBreakers([breaker]))
    assert decision.row.queue == "elsewhere"
    verdict = attempt_of(decision).verdict
    assert verdict.startswith("not charged, held back")
    assert chosen_by_rule(verdict).startswith("attempt 2 goes from queue default to elsewhere")


def test_the_history_of_an_attempt_knows_where_the_earlier_ones_ran() -> None:
    row = running(4, HIGH_MEMORY, queue="larger", losses=1)
    moved = "retry at 2026-01-01T12:00:01+00:00: by a rule, attempt {} goes from queue {} to {}: 2 failures"
    history = history_of(
        row,
        [
            earlier(1),
            earlier(2, verdict=moved.format(3, "default", "high-memory")),
            earlier(3, OTHER, "agent-2", verdict=moved.format(4, "high-memory", "larger")),
        ],
    )
    assert [(one.attempt, one.queue, one.agent_id) for one in history.attempts] == [
        (1, "default", "agent-1"),
        (2, "default", "agent-1"),
        (3, "high-memory", "agent-2"),
    ]
    assert [(one.cause, one.error, one.seconds) for one in history.attempts[1:]] == [
        ("crash", "OutOfMemory", 30.0),
        ("error", "app.Full", 30.0),
    ]
    assert (history.failures, history.losses) == (3, 1)
    assert (history.count("memory"), history.count("crash", "app.*"), history.count("lost")) == (2, 3, 0)
