"""The judge against the journey: for every state, signal and fence, and along random histories."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.supervisor.tests import stage
from tests.conformance.job_rules import broken_job_rule

from warrener_contracts import state_machine
from warrener_contracts.events import ErrorInfo, ErrorKind, Event, Reason
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import ATTEMPT_SIGNALS, Fence, JobState, Signal, Transition
from warrener_store.jobs.rows import AttemptOutcome, JobRow, evolve
from warrener_store.jobs.rules import IN_FLIGHT
from warrener_supervisor.decisions import context
from warrener_supervisor.decisions.delays import count_uncharged
from warrener_supervisor.decisions.judge import JudgedEvent, judge, judge_all

SIGNALS = sorted(stage.OF_SIGNAL)


@pytest.mark.parametrize(
    ("state", "signal", "where"),
    [
        (state, signal, where)
        for state in JobState
        for signal in SIGNALS
        for where in Fence
        if state is not JobState.WAITING or where is Fence.NEWER or signal not in ATTEMPT_SIGNALS
    ],  # what waits has no attempt that anybody could tell of
)
def test_the_judge_does_what_the_journey_allows(state: JobState, signal: Signal, where: Fence) -> None:
    current = 0 if state is JobState.WAITING else 3
    reported_attempt = {Fence.OLDER: current - 1, Fence.CURRENT: current, Fence.NEWER: current + 1}[where]
    row = stage.make(state, attempt=current, dispatched_at=None, deadline_at=stage.NOW)
    if signal is Signal.TIMED_OUT and state is JobState.RUNNING:
        row = evolve(row, started_at=stage.NOW - row.policy.timeout)
    decision = judge(row, stage.OF_SIGNAL[signal](reported_attempt), stage.AT)
    step = state_machine.effect_of(state, signal, where if signal in ATTEMPT_SIGNALS else Fence.CURRENT)
    match step:
        case Transition(states=states):
            assert isinstance(decision, context.JobTransition)
            assert decision.row.state in states
            assert broken_job_rule(decision.row) is None
        case state_machine.Ignore():
            assert isinstance(decision, context.NoChange)
        case state_machine.Reject():
            assert isinstance(decision, context.ParkDecision)
            assert decision.reason is Reason.IMPOSSIBLE


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, bool]]:
    """Signals about attempts near the current one, with errors that a retry may mend or not."""
    one = st.tuples(st.sampled_from([signal.value for signal in SIGNALS]), st.integers(-1, 1), st.booleans())
    return draw(st.lists(one, max_size=40))


@given(
    history=histories(),
    attempts=st.integers(1, 4),
    losses=st.integers(0, 3),
    snoozes=st.integers(0, 4),
    age=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(hours=1)),
    chance=st.floats(0, 0.999),
)
@settings(max_examples=400, deadline=None)
def test_along_any_history_a_job_keeps_its_promises(
    history: list[tuple[str, int, bool]],
    attempts: int,
    losses: int,
    *,
    snoozes: int,
    age: timedelta | None,
    chance: float,
) -> None:
    policy = JobPolicy(max_attempts=attempts, max_lost_attempts=losses, max_snoozes=snoozes, max_age=age)
    row, now = _queued(policy), stage.NOW
    ended: set[int] = set()
    for signal, offset, mendable in history:
        now += timedelta(seconds=60)
        before = row
        decision = judge(
            row,
            _word(Signal(signal), max(1, row.attempt + offset), mendable=mendable),
            context.JudgeContext(now, context.Timings(), chance),
        )
        if not isinstance(decision, context.JobTransition):
            continue
        row = decision.row
        assert not before.state.terminal, "a terminal state is never left"
        assert row.attempt in (before.attempt, before.attempt + 1), "attempts grow by one"
        assert row.failures <= attempts
        assert row.losses <= losses + 1
        assert broken_job_rule(row) is None
        assert (decision.dead_letter is not None) == (row.state is JobState.DEAD)
        if row.attempt > before.attempt:
            assert stage.attempt_of(decision).attempt == before.attempt
            assert context.Notification.DISPATCH in decision.notifications
        if decision.attempt is not None:
            assert stage.attempt_of(decision).attempt not in ended, "an attempt ends once"
            ended.add(stage.attempt_of(decision).attempt)
        assert (context.Notification.FINISHED in decision.notifications) == row.state.terminal
        if row.state is JobState.RETRYING and row.due_at and row.attempt > before.attempt:
            assert row.due_at >= now
        if signal == Signal.SNOOZED and row.attempt > before.attempt:
            assert row.due_at is not None
            assert row.due_at >= now + timedelta(seconds=1), "a snooze never spins"
            assert (
                row.failures > before.failures or before.attempt <= snoozes + before.failures + before.losses
            )


@given(history=histories(), cuts=st.lists(st.integers(1, 5), min_size=1, max_size=40))
@settings(max_examples=200, deadline=None)
def test_how_events_are_cut_into_batches_does_not_matter(
    history: list[tuple[str, int, bool]], cuts: list[int]
) -> None:
    cases = [
        JudgedEvent(_word(Signal(signal), max(1, 2 + offset), mendable=mendable), 0.5)
        for signal, offset, mendable in history
    ]
    whole = judge_all(_queued(JobPolicy(max_attempts=3)), cases, stage.AT)
    row = _queued(JobPolicy(max_attempts=3))
    rest = list(cases)
    for cut in [*cuts, len(cases)]:
        batch, rest = rest[:cut], rest[cut:]
        folded = judge_all(row, batch, stage.AT)
        assert [save.row.version for save in folded.saves] == [
            row.version + nth for nth in range(1, len(folded.saves) + 1)
        ]
        row = folded.row
    assert replace(row, version=0) == replace(whole.row, version=0)


def _queued(policy: JobPolicy) -> JobRow:
    now = dict.fromkeys(("requested_at", "accepted_at", "dispatched_at", "updated_at"), stage.NOW)
    return stage.make(JobState.QUEUED, policy=policy, deadline_at=stage.NOW + timedelta(hours=20), **now)


def _word(signal: Signal, attempt: int, *, mendable: bool) -> Event[Any]:
    if signal is Signal.FAILED:
        error = ErrorInfo(kind=ErrorKind.ERROR, type="Boom", message="boom", retryable=mendable)
        return stage.failed(attempt, error)
    return stage.OF_SIGNAL[signal](attempt)


def test_a_failure_is_tried_again_after_its_backoff() -> None:
    decision = stage.judged(stage.make(JobState.RUNNING), stage.failed())
    row = decision.row
    assert (row.state, row.attempt, row.failures, row.agent_id) == (JobState.RETRYING, 2, 1, None)
    assert row.due_at == stage.NOW + timedelta(seconds=1)
    assert row.wake_at == stage.NOW + timedelta(seconds=16)
    assert stage.attempt_of(decision).outcome is AttemptOutcome.FAILED
    assert decision.notifications == {context.Notification.DISPATCH, context.Notification.RETRYING}


@pytest.mark.parametrize(
    ("seconds", "due_in", "wakes_in"),
    [
        (90, timedelta(seconds=90), timedelta(seconds=105)),  # by a delay queue
        (7200, timedelta(hours=2), timedelta(hours=2)),  # in the store
        (3_000_000_000, timedelta(days=366), timedelta(days=366)),  # at most a year
    ],
)
def test_a_delay_requested_by_the_handler_wins(seconds: int, due_in: timedelta, wakes_in: timedelta) -> None:
    row = stage.judged(stage.make(JobState.RUNNING), stage.failed(retry_after_seconds=seconds)).row
    assert (row.due_at, row.wake_at) == (stage.NOW + due_in, stage.NOW + wakes_in)


def test_the_last_failure_is_death() -> None:
    decision = stage.judged(stage.make(JobState.RUNNING, attempt=3, failures=2), stage.failed(3))
    assert decision.row.state is JobState.DEAD
    assert "3 attempts are used up" in stage.dead_letter_of(decision).reason
    assert decision.notifications == {context.Notification.FINISHED, context.Notification.DEAD}


def test_a_released_attempt_is_given_to_another_at_once_and_not_charged() -> None:
    decision = stage.judged(stage.make(JobState.RUNNING), stage.released())
    row = decision.row
    assert (row.state, row.attempt, row.failures, row.due_at) == (JobState.RETRYING, 2, 0, stage.NOW)
    assert decision.notifications == {context.Notification.DISPATCH}


@pytest.mark.parametrize(
    "word", [stage.failed, stage.snoozed, stage.lost, stage.released, stage.stopped, stage.withdrawn]
)
def test_what_was_requested_to_be_cancelled_is_not_tried_again(word: Any) -> None:
    row = stage.make(JobState.RUNNING, cancel_reason="no need")
    assert stage.judged(row, word()).row.state is JobState.CANCELLED
    assert stage.judged(row, stage.succeeded(result=7)).row.result == 7, "it was there before the cancel"


def test_cancelling_what_runs_waits_for_its_agent() -> None:
    decision = stage.judged(stage.make(JobState.RUNNING), stage.cancel("me"))
    assert decision.row.state is JobState.RUNNING
    assert (decision.row.cancel_reason, decision.row.watchers) == ("requested", ())
    assert decision.notifications == {context.Notification.CANCEL}


def test_cancelling_what_is_over_changes_nothing() -> None:
    decision = judge(stage.make(JobState.SUCCEEDED), stage.cancel("me"), stage.AT)
    assert decision == context.NoChange("the job has succeeded already")


@pytest.mark.parametrize(
    ("not_in_heartbeat", "seen", "is_lost"),
    [
        (False, stage.STARTED, True),  # as silent as it was said to be
        (False, stage.STARTED + timedelta(seconds=1), False),  # any supervisor has seen it since
        (True, stage.STARTED + timedelta(seconds=1), True),  # it lives, and does not list it
    ],
)
def test_a_loss_counts_unless_its_agent_was_seen_since(
    *, not_in_heartbeat: bool, seen: datetime, is_lost: bool
) -> None:
    event = stage.lost()
    data = event.data.model_copy(update={"not_in_heartbeat": not_in_heartbeat})
    found = stage.AT._replace(seen={"agent-1": seen})
    decision = judge(stage.make(JobState.RUNNING), event.model_copy(update={"data": data}), found)
    assert isinstance(decision, context.JobTransition) is is_lost


def test_a_loss_is_passed_over_if_something_was_received_of_the_attempt_since() -> None:
    at = stage.NOW - timedelta(seconds=5)
    event = stage.lost().model_copy(update={"time": at})
    assert stage.ignored(stage.make(JobState.RUNNING, updated_at=stage.NOW), event)
    assert isinstance(
        judge(stage.make(JobState.RUNNING, updated_at=at), event, stage.AT), context.JobTransition
    )
    assert stage.ignored(stage.make(JobState.RUNNING, updated_at=at, agent_id="agent-2"), event)


@pytest.mark.parametrize("report", [stage.snoozed, stage.stopped, stage.failed])
def test_an_attempt_whose_end_is_reported_was_not_lost(report: Callable[[int], Event[Any]]) -> None:
    retrying = stage.judged(stage.make(JobState.RUNNING), stage.lost()).row
    assert (retrying.losses, retrying.attempt) == (1, 2)
    spared = stage.judged(retrying, report(1)).row
    failures = 1 if report is stage.failed else 0
    assert (spared.losses, spared.failures, spared.attempt, spared.error) == (0, failures, 2, None)
    assert stage.ignored(spared, report(1)), "once"


def test_only_the_charge_for_that_attempt_is_taken_back() -> None:
    row = stage.judged(stage.make(JobState.RUNNING), stage.lost()).row
    row = stage.judged(row, stage.lost(2)).row
    assert stage.ignored(row, stage.failed(1, agent="agent-2")), "it was not agent-2's"
    assert stage.ignored(row, stage.released(2)), "given back: not known to have run on"
    spared = stage.judged(row, stage.stopped(2)).row
    assert (spared.losses, spared.attempt) == (1, 3)
    assert spared.error is not None
    assert [death[:16] for death in spared.error.crashes] == ["attempt 1: lost:"]


def test_a_failure_reported_by_one_who_no_longer_holds_the_attempt_is_passed_over() -> None:
    row = stage.make(JobState.RUNNING, agent_id="agent-2")
    earlier, later = stage.NOW - timedelta(minutes=1), stage.NOW - timedelta(seconds=1)
    assert stage.ignored(row, stage.failed(agent="agent-1", at=earlier))
    assert isinstance(judge(row, stage.failed(agent="agent-3", at=later), stage.AT), context.JobTransition)


def test_of_two_agents_that_run_an_attempt_the_later_start_holds_it() -> None:
    row = stage.make(JobState.RUNNING, agent_id="agent-1")
    taken = stage.judged(row, stage.started(agent="agent-2", at=stage.NOW - timedelta(seconds=1))).row
    assert taken.agent_id == "agent-2"
    assert stage.ignored(taken, stage.started(agent="agent-1"))


def test_an_agents_clock_cannot_move_a_start_out_of_its_time() -> None:
    row = stage.make(JobState.QUEUED)
    early = stage.judged(row, stage.started(at=stage.NOW - timedelta(days=1))).row
    late = stage.judged(row, stage.started(at=stage.NOW + timedelta(days=1))).row
    assert (early.started_at, late.started_at) == (row.dispatched_at, stage.NOW)


def test_an_event_whose_effect_is_saved_repeats_what_there_was_to_publish() -> None:
    stories: list[tuple[JobRow, Event[Any]]] = [
        (stage.make(JobState.RUNNING), stage.succeeded()),
        (stage.make(JobState.RUNNING), stage.failed()),
        (stage.make(JobState.RUNNING, failures=2), stage.failed()),
        (stage.make(JobState.RUNNING), stage.snoozed()),
        (stage.make(JobState.RUNNING), stage.withdrawn()),
        (stage.make(JobState.RUNNING), stage.released()),
        (stage.make(JobState.RUNNING), stage.lost()),
        (stage.make(JobState.RETRYING), stage.overdue()),
        (stage.make(JobState.QUEUED), stage.cancel()),
        (stage.make(JobState.RUNNING), stage.cancel()),
        (stage.make(JobState.RUNNING, deadline_at=stage.NOW), stage.deadline()),
        (stage.make(JobState.RUNNING, cancel_reason="no"), stage.stopped()),
    ]
    for before, event in stories:
        first = stage.judged(before, event)
        again = judge(first.row, event, stage.AT)
        assert not isinstance(again, context.ParkDecision)
        lasting = first.notifications - {context.Notification.RETRYING, context.Notification.CANCEL}
        assert lasting <= again.notifications, event.type
        if isinstance(again, context.JobTransition):
            assert replace(again.row, updated_at=stage.NOW) == replace(first.row, updated_at=stage.NOW)


def test_a_stale_event_publishes_nothing_once_the_next_attempt_runs() -> None:
    decision = judge(stage.make(JobState.RUNNING, attempt=2), stage.failed(1), stage.AT)
    assert decision == context.NoChange(state_machine.STALE.why)


@pytest.mark.parametrize("state", [state for state in JobState if state in IN_FLIGHT])
def test_g2_a_recorded_success_of_an_earlier_attempt_ends_the_job(state: JobState) -> None:
    row = stage.make(state, attempt=3)
    decision = stage.judged(row, stage.succeeded(1))
    assert (decision.row.state, decision.row.attempt) == (JobState.SUCCEEDED, 3)
    ended = stage.attempt_of(decision)
    assert (ended.attempt, ended.verdict) == (3, "done: recorded by attempt 1")
    is_stopped = context.Notification.CANCEL in decision.notifications
    assert is_stopped is (state is JobState.RUNNING), "what runs for nothing is stopped"
    # The supervisor that saved it may have died before it published that.
    again = stage.ignored(decision.row, stage.succeeded(1))
    assert context.Notification.FINISHED in again.notifications


DUE_AT = stage.NOW - timedelta(seconds=15)


def test_1_a_retry_that_is_due_is_queued_under_its_number() -> None:
    stories: list[tuple[dict[str, Any], datetime, set[context.Notification]]] = [
        ({"due_at": DUE_AT}, DUE_AT, set()),  # without a second message
        ({"dispatched_at": None}, stage.NOW, {context.Notification.DISPATCH}),  # it was held in the store
    ]
    for changes, dispatched_at, notifications in stories:
        decision = stage.judged(stage.make(JobState.RETRYING, attempt=2, **changes), stage.overdue(2))
        row = decision.row
        assert (row.state, row.attempt, row.dispatched_at) == (JobState.QUEUED, 2, dispatched_at)
        assert decision.notifications == notifications


LIVE = [state for state in JobState if not state.terminal]
WORDS = st.tuples(st.sampled_from(sorted(stage.OF_SIGNAL)), st.integers(1, 4))
STAYS_OR_ENDS = {JobState.RUNNING, JobState.CANCELLED, JobState.SUCCEEDED, JobState.EXPIRED}
"""What may become of a running job once somebody has asked to cancel it: no further attempt is made."""


def judge_event(row: JobRow, event: Event[Any]) -> JobRow:
    return judge_all(row, [JudgedEvent(event, 0.5)], stage.AT).row


@given(state=st.sampled_from(LIVE), reported=st.lists(WORDS, max_size=20), at=st.integers(0, 20))
def test_g2_a_cancelled_job_is_never_tried_again_and_never_succeeds_later(
    state: JobState, reported: list[tuple[Signal, int]], at: int
) -> None:
    row = stage.make(state)
    history = [stage.OF_SIGNAL[signal](attempt) for signal, attempt in reported]
    for event in history[:at]:
        row = judge_event(row, event)
    before = row.state
    row = judge_event(row, stage.cancel())
    if not before.terminal and before is not JobState.RUNNING:
        assert (row.ending or row.state) is JobState.CANCELLED, "it had not begun"
    attempt = row.attempt
    for event in history[at:]:
        was, row = row, judge_event(row, event)
        if was.state.terminal:
            assert row == was, "an end stays"
        assert row.attempt == attempt or before.terminal
        assert before is not JobState.RUNNING or (row.ending or row.state) in STAYS_OR_ENDS


def workflow(state: JobState = JobState.RUNNING, **changes: Any) -> JobRow:
    """A job that has suspended before."""
    return stage.make(state, suspensions=1, **changes)


def test_a_turn_that_called_something_forgets_the_failures_before_it() -> None:
    row = stage.make(JobState.RUNNING, failures=2, losses=1, error=stage.BOOM)
    got_on = stage.judged(row, stage.suspended(1, stage.call("a")))
    assert (got_on.row.failures, got_on.row.losses, got_on.row.error) == (0, 0, None)
    assert (got_on.row.state, got_on.row.suspensions, got_on.attempt) == (JobState.SUSPENDED, 1, None)
    assert stage.judged(row, stage.suspended(1)).row.failures == 2


def test_of_a_workflow_the_attempts_at_its_last_turn_count() -> None:
    suspended = stage.judged(
        stage.make(JobState.RUNNING, attempt=57), stage.suspended(57, stage.call("a"))
    ).row
    assert (suspended.settled_attempt, suspended.tries, count_uncharged(suspended)) == (57, 1, 0)
    again = workflow(attempt=60, settled_attempt=57, failures=2)
    assert (again.tries, count_uncharged(again), count_uncharged(replace(again, failures=0))) == (3, 0, 2)
    plain = stage.judged(stage.make(JobState.RUNNING, attempt=3, failures=2), stage.failed(3))
    assert plain.dead_letter is not None
    assert plain.dead_letter.attempts == 3


def test_every_end_without_success_of_a_workflow_that_has_suspended_only_begins() -> None:
    stories: list[tuple[JobRow, Event[Any], JobState, set[context.Notification]]] = [
        (workflow(failures=2), stage.failed(), JobState.DEAD, set()),
        (workflow(losses=2), stage.lost(), JobState.DEAD, {context.Notification.CANCEL}),
        (workflow(cancel_reason="no"), stage.stopped(), JobState.CANCELLED, set()),
        (workflow(cancel_reason="no"), stage.suspended(), JobState.CANCELLED, set()),
        (workflow(), stage.withdrawn(), JobState.CANCELLED, set()),
        (workflow(deadline_at=stage.NOW), stage.deadline(), JobState.EXPIRED, {context.Notification.CANCEL}),
        (workflow(JobState.QUEUED), stage.cancel(), JobState.CANCELLED, {context.Notification.CANCEL}),
        (workflow(JobState.SUSPENDED), stage.cancel(), JobState.CANCELLED, {context.Notification.CANCEL}),
        (
            workflow(JobState.SUSPENDED, deadline_at=stage.NOW),
            stage.deadline(),
            JobState.EXPIRED,
            {context.Notification.CANCEL},
        ),
    ]
    for row, event, end, notifications in stories:
        decision = stage.judged(row, event)
        assert (decision.row.state, decision.row.ending) == (JobState.SUSPENDED, end), event.type
        assert decision.notifications == notifications, event.type
        assert decision.dead_letter is None
        assert broken_job_rule(decision.row) is None
        again = stage.ignored(decision.row, event)
        assert notifications <= again.notifications <= {context.Notification.CANCEL}, "and a repeat stops it"
        for later in (stage.succeeded(), stage.deadline(), stage.cancel(), stage.started(), stage.failed()):
            assert stage.ignored(decision.row, later), "nothing changes how it ends"


def test_a_workflow_that_waits_grows_older_than_its_max_age() -> None:
    policy = JobPolicy(max_attempts=3, max_age=timedelta(seconds=1))
    assert stage.judged(workflow(policy=policy), stage.failed()).row.state is JobState.RETRYING


def test_changed_code_is_given_back_and_its_turns_count_as_no_tries() -> None:
    changed = ErrorInfo(kind=ErrorKind.ERROR, type="CodeChanged", message="line 7", retryable=False)
    row = stage.make(JobState.RUNNING, attempt=40, suspensions=30, settled_attempt=39)
    decision = stage.judged(row, stage.failed(40, changed))
    assert (decision.row.state, decision.row.failures) == (JobState.RETRYING, 0)
    assert stage.attempt_of(decision).outcome is AttemptOutcome.RELEASED
    assert "has no fitting code of" in stage.attempt_of(decision).verdict
    assert decision.row.due_at == stage.NOW + timedelta(seconds=1), "the first delay"


def test_a_late_suspension_revokes_the_loss_of_its_turn() -> None:
    lost = stage.judged(stage.make(JobState.RUNNING), stage.lost()).row
    spared = stage.judged(lost, stage.suspended(1)).row
    assert (spared.state, spared.losses, spared.suspensions) == (JobState.RETRYING, 0, 0)
