"""G2: what was cancelled never succeeds later, whatever is heard of it and in whatever order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import NOW, make

from warrener_contracts.events import Event
from warrener_contracts.state_machine import Signal
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor.decisions.context import JudgeContext, Timings
from warrener_supervisor.decisions.judge import JudgedEvent, judge_all

LIVE = [state for state in JobState if not state.terminal]
AT = JudgeContext(NOW, Timings())
WORDS = st.tuples(st.sampled_from(sorted(event_factory.OF_SIGNAL)), st.integers(1, 4))
STAYS_OR_ENDS = {JobState.RUNNING, JobState.CANCELLED, JobState.SUCCEEDED, JobState.EXPIRED}
"""What may become of a running job once somebody has asked to cancel it: no further attempt is made."""


def judge_event(row: JobRow, event: Event[Any]) -> JobRow:
    return judge_all(row, [JudgedEvent(event, 0.5)], AT).row


@given(state=st.sampled_from(LIVE), reported=st.lists(WORDS, max_size=20), at=st.integers(0, 20))
def test_g2_a_cancelled_job_is_never_tried_again_and_never_succeeds_later(
    state: JobState, reported: list[tuple[Signal, int]], at: int
) -> None:
    row = make(state)
    history = [event_factory.OF_SIGNAL[signal](attempt) for signal, attempt in reported]
    for event in history[:at]:
        row = judge_event(row, event)
    before = row.state
    row = judge_event(row, event_factory.cancel())
    if not before.terminal and before is not JobState.RUNNING:
        assert row.state is JobState.CANCELLED, "it had not begun"
    attempt = row.attempt
    for event in history[at:]:
        was, row = row, judge_event(row, event)
        if was.state.terminal:
            assert row == was, "an end stays"
        assert row.attempt == attempt or before.terminal
        assert before is not JobState.RUNNING or row.state in STAYS_OR_ENDS
