"""The columns of incidents and their occurrences."""

from warrener_store.incidents.rows import CaseChange, CaseEntry, CaseRow, RaisedIncident
from warrener_store.mapping import RowMapper

CASES = RowMapper(CaseRow)
CASE_PROGRESS = RowMapper(
    CaseRow,
    (
        "fingerprint",
        "claimed_by",
        "times",
        "step",
        "due_at",
        "tries",
        "delivered",
        "trouble",
        "wake_at",
        "closed_at",
        "closed_why",
    ),
)
"""The parameters of `save_case`: the key, the claim, the count at that time, and the columns that are
written."""
CASE_CHANGES = RowMapper(CaseChange)
CASE_ENTRIES = RowMapper(CaseEntry)
RAISED = RowMapper(
    RaisedIncident, ("fingerprint", "occurrence", "kind", "subject", "job_type", "sample", "raised_at")
)
NEW_ENTRIES = RowMapper(RaisedIncident, ("fingerprint", "occurrence", "subject", "raised_at"))
