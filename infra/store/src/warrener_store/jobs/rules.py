"""Rules that jobs obey, as pure predicates. The databases refuse a breach by CHECKs of the same names."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from warrener_contracts.state_machine import STATE_MACHINE, JobState, Signal, Transition
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow

WITH_ATTEMPT = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.RETRYING})
"""The states in which a job has a current attempt."""
IN_FLIGHT = tuple(
    state for state in JobState if isinstance(STATE_MACHINE[state, Signal.SUCCEEDED], Transition)
)
"""The states from which a success ends the job."""
WORDS = {"in_flight": ", ".join(f"'{state.value}'" for state in IN_FLIGHT)}
"""The meanings of words in braces of statements."""
MAX_WATCHERS = 8
VERDICT = "done"
"""The verdict of a success; the statement `attempts_of` gives it to an attempt inlined in its job."""

JOB_RULES: Mapping[str, Callable[[JobRow], bool]] = MappingProxyType(
    {
        "version_from_one": lambda row: row.version >= 1,
        "counts_not_negative": lambda row: min(row.attempt, row.failures, row.losses) >= 0,
        "over_iff_finished_at": lambda row: row.state.terminal == (row.finished_at is not None),
        "over_iff_never_woken": lambda row: row.state.terminal == (row.wake_at is None),
        "running_has_owner_and_lease": lambda row: (
            row.state is not JobState.RUNNING or (row.agent_id is not None and row.lease_until is not None)
        ),
        "attempt_where_dispatched": lambda row: row.state not in WITH_ATTEMPT or row.attempt >= 1,
        "no_attempt_while_waiting": lambda row: row.state is not JobState.WAITING or row.attempt == 0,
        "result_only_if_succeeded": lambda row: row.result is None or row.state is JobState.SUCCEEDED,
        "progress_is_a_fraction": lambda row: row.progress is None or 0 <= row.progress <= 1,
    }
)


def broken_job_rule(row: JobRow) -> str | None:
    """The name of the first rule that this row breaks, or None."""
    return next((name for name, holds in JOB_RULES.items() if not holds(row)), None)


def broken_attempt_rule(row: AttemptRow) -> str | None:
    """The name of the first rule that this row breaks, or None."""
    return "attempt_from_one" if row.attempt < 1 else None


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
