"""The attempt by which a job succeeded: kept in the job's own row where that row tells the rest of it.

Most attempts are the only ones of their jobs, and say what the job says: by whom, dispatched when, succeeded.
A row of its own for each would be half of what a save writes, with a key to check and an index to enter. So
the job keeps, in two columns that are the store's own, when that attempt ran; `attempts_of` makes it of them.
"""

from warrener_contracts.state_machine import JobState
from warrener_store.rows import AttemptEnd, AttemptRow, JobRow

VERDICT = "done"
"""The verdict on it; what `attempts_of.sql` says of an attempt that it makes of its job."""


def is_inlined_in_job(row: JobRow, attempt: AttemptRow) -> bool:
    """Whether the row tells all of this attempt but when it ran."""
    return (
        row.state is JobState.SUCCEEDED
        and attempt.end is AttemptEnd.SUCCEEDED
        and attempt.attempt == row.attempt
        and attempt.verdict == VERDICT
        and attempt.error is None
        and attempt.agent_id == row.owner
        and attempt.dispatched_at == row.dispatched_at
    )
