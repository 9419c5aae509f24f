"""G2: what was cancelled never succeeds later, whatever is heard of it and in whatever order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from services.supervisor.tests import words
from services.supervisor.tests.words import NOW, make

from warrener_contracts.events import Event
from warrener_contracts.state_machine import Signal
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor.fold import Case, fold
from warrener_supervisor.moment import Moment
from warrener_supervisor.rules import Rules

LIVE = [state for state in JobState if not state.terminal]
AT = Moment(NOW, Rules())
WORDS = st.tuples(st.sampled_from(sorted(words.OF_SIGNAL)), st.integers(1, 4))
STAYS_OR_ENDS = {JobState.RUNNING, JobState.CANCELLED, JobState.SUCCEEDED, JobState.EXPIRED}
"""What may become of a running job once somebody has asked to cancel it: no further attempt is made."""


def heard(row: JobRow, event: Event[Any]) -> JobRow:
    return fold(row, [Case(event, 0.5)], AT).row


@given(state=st.sampled_from(LIVE), told=st.lists(WORDS, max_size=20), at=st.integers(0, 20))
def test_g2_a_cancelled_job_is_never_tried_again_and_never_succeeds_later(
    state: JobState, told: list[tuple[Signal, int]], at: int
) -> None:
    row = make(state)
    history = [words.OF_SIGNAL[signal](attempt) for signal, attempt in told]
    for event in history[:at]:
        row = heard(row, event)
    before = row.state
    row = heard(row, words.cancel())
    if not before.terminal and before is not JobState.RUNNING:
        assert row.state is JobState.CANCELLED, "it had not begun"
    attempt = row.attempt
    for event in history[at:]:
        was, row = row, heard(row, event)
        if was.state.terminal:
            assert row == was, "an end stays"
        assert row.attempt == attempt or before.terminal
        assert before is not JobState.RUNNING or row.state in STAYS_OR_ENDS
