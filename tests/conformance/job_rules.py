"""Rules that jobs obey, as pure predicates. The databases refuse a breach by CHECKs of the same names."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.jobs.rows import JobRow

WITH_ATTEMPT = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.RETRYING, JobState.SUSPENDED})
"""The states in which a job has a current attempt."""

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
        "suspensions_not_negative": lambda row: row.suspensions >= 0,
        "ending_known": lambda row: row.ending is None or row.ending in TERMINAL - {JobState.SUCCEEDED},
        "progress_is_a_fraction": lambda row: row.progress is None or 0 <= row.progress <= 1,
    }
)


def broken_job_rule(row: JobRow) -> str | None:
    """The name of the first rule that this row breaks, or None."""
    return next((name for name, holds in JOB_RULES.items() if not holds(row)), None)
