"""The journey is complete, ends, and is drawn as it is."""

import itertools
from pathlib import Path

import pytest
from tools.reference.state_machine_page import state_machine_page

from warrener_contracts.state_machine import (
    ATTEMPT_SIGNALS,
    LATE_SUCCESS,
    STALE,
    STATE_MACHINE,
    TERMINAL,
    UNKNOWN_ATTEMPT,
    Fence,
    Ignore,
    JobState,
    Reject,
    Signal,
    Transition,
    compare_attempts,
    effect_of,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "journey-of-a-job.md"
IN_FLIGHT = (JobState.QUEUED, JobState.RUNNING, JobState.RETRYING, JobState.SUSPENDED)
PAIRS = list(itertools.product(JobState, Signal))


def test_every_pair_of_state_and_signal_has_exactly_one_step() -> None:
    assert set(STATE_MACHINE) == set(PAIRS)
    assert len(PAIRS) == 135
    for found in STATE_MACHINE.values():
        assert isinstance(found, Transition | Ignore | Reject)
        assert found.why
        if isinstance(found, Transition):
            assert 0 < len(found.states) == len(set(found.states))


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_g2_a_terminal_state_is_never_left(state: JobState) -> None:
    assert state.terminal
    for signal, where in itertools.product(Signal, Fence):
        assert not isinstance(effect_of(state, signal, where), Transition)


def test_every_state_can_be_reached_and_every_job_can_end() -> None:
    edges = {
        (state, target)
        for (state, _), found in STATE_MACHINE.items()
        if isinstance(found, Transition)
        for target in found.states
    }
    assert reachable({JobState.WAITING, JobState.QUEUED}, edges) == set(JobState)
    backwards = {(target, state) for state, target in edges}
    for end in (JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED):
        assert set(JobState) - TERMINAL <= reachable({end}, backwards)


def reachable(start: set[JobState], edges: set[tuple[JobState, JobState]]) -> set[JobState]:
    found = set(start)
    while more := {target for state, target in edges if state in found} - found:
        found |= more
    return found


@pytest.mark.parametrize(
    ("current", "reported", "expected"),
    [
        (2, 1, Fence.OLDER),
        (2, 2, Fence.CURRENT),
        (2, 3, Fence.NEWER),
        (0, 1, Fence.NEWER),
        (1000, 1, Fence.OLDER),
    ],
)
def test_the_fence_compares_attempts(current: int, reported: int, expected: Fence) -> None:
    assert compare_attempts(current, reported) is expected


@pytest.mark.parametrize(("state", "signal"), PAIRS)
def test_g3_the_fence_stands_before_the_table(state: JobState, signal: Signal) -> None:
    if signal in ATTEMPT_SIGNALS:
        late = signal is Signal.SUCCEEDED and state in IN_FLIGHT
        assert effect_of(state, signal, Fence.OLDER) is (LATE_SUCCESS if late else STALE)
        assert effect_of(state, signal, Fence.NEWER) is UNKNOWN_ATTEMPT
    else:  # the word about a job holds whatever its attempt is
        assert {id(effect_of(state, signal, where)) for where in Fence} == {id(STATE_MACHINE[state, signal])}
    assert effect_of(state, signal) is STATE_MACHINE[state, signal]


def test_who_is_cancelled_while_it_runs_is_never_tried_again_without_need() -> None:
    """Every end of an attempt allows the judge to apply a pending cancel."""
    for signal in (
        Signal.FAILED,
        Signal.SNOOZED,
        Signal.STOPPED,
        Signal.WITHDRAWN,
        Signal.RELEASED,
        Signal.LOST,
    ):
        found = STATE_MACHINE[JobState.RUNNING, signal]
        assert isinstance(found, Transition)
        assert JobState.CANCELLED in found.states


def test_the_page_is_the_journey() -> None:
    page = PAGE.read_text("utf-8")
    assert page == state_machine_page()
    for (state, signal), found in STATE_MACHINE.items():
        assert f"| `{state}` | `{signal}` |" in page
        for target in found.states if isinstance(found, Transition) else ():
            assert f"    {state} --> {target}: {signal}\n" in page
