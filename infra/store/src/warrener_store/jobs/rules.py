"""The states from which a success ends a job, its watchers, and the attempt that its row holds. Pure."""

from collections.abc import Iterable
from datetime import timedelta

from warrener_contracts.identity import DETACHED_SOURCE, UNDO_SOURCE
from warrener_contracts.state_machine import STATE_MACHINE, JobState, Signal, Transition
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow

IN_FLIGHT = tuple(
    state
    for state in JobState
    if isinstance(STATE_MACHINE[state, Signal.SUCCEEDED], Transition) and state is not JobState.SUSPENDED
)
"""The states from which a plain success ends the job; a suspended one may leave children, so it is judged."""
WORDS = {
    "in_flight": ", ".join(f"'{state.value}'" for state in IN_FLIGHT),
    "open_states": ", ".join(f"'{state.value}'" for state in JobState if not state.terminal),
    "is_undo": f"substr(source, 1, {len(UNDO_SOURCE)}) = '{UNDO_SOURCE}'",
    "job_is_undo": f"substr(job.source, 1, {len(UNDO_SOURCE)}) = '{UNDO_SOURCE}'",
    "is_detached": f"substr(source, 1, {len(DETACHED_SOURCE)}) = '{DETACHED_SOURCE}'",
}
CANCEL_MARK = "job.unknown"
"""Job type of the mark that the cancel of an unknown job leaves under its id. No agent can declare it,
because `job` is a reserved first word."""
MAX_WATCHERS = 8
CHOSEN = ": by a rule, "
"""Behind it a verdict says what a retry rule has chosen."""
MAX_HELD = timedelta(hours=1)
"""Jobs that are put off for longer wait before a gate, which wakes them (`gates/`)."""
VERDICT = "done"
"""The verdict of a success; the statement `attempts_of` gives it to an attempt inlined in its job."""


def chosen_by_rule(verdict: str) -> str:
    """The part of the verdict about a failed attempt that says what a retry rule has chosen for the next
    one, and why; empty if none has."""
    return verdict.partition(CHOSEN)[2]


def merge_watchers(watchers: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """`watchers` and then `more`, each once at its last place; the oldest beyond MAX_WATCHERS are dropped."""
    latest = dict.fromkeys(reversed([*watchers, *more]))
    return tuple(reversed(list(latest)[:MAX_WATCHERS]))


def is_inlined_in_job(row: JobRow, attempt: AttemptRow) -> bool:
    """True if the job's row holds all of this attempt but when it ran.

    Most attempts are the only ones of their jobs and repeat what the job says. A row of its own for each
    would be half of what a save writes, so the job stores in two columns when that attempt ran, and
    `attempts_of` makes the attempt from them.
    """
    return (
        row.state is JobState.SUCCEEDED
        and attempt.outcome is AttemptOutcome.SUCCEEDED
        and attempt.attempt == row.attempt
        and attempt.verdict == VERDICT
        and attempt.error is None
        and attempt.agent_id == row.agent_id
        and attempt.dispatched_at == row.dispatched_at
    )
