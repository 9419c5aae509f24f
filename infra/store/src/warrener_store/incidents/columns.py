"""The columns of incidents and their occurrences."""

from warrener_store.incidents import rows
from warrener_store.mapping import RowMapper, qualify

INCIDENTS = RowMapper(rows.IncidentRow)
INCIDENT_PROGRESS = RowMapper(
    rows.IncidentRow,
    "fingerprint claimed_by times step due_at failed_tries delivered last_error wake_at closed_at "
    "close_reason round policy_version policy_history",
)
"""The parameters of `save_incident`: the key, the claim, the count at that time, and the columns that are
written."""
INCIDENT_CHANGES = RowMapper(rows.IncidentChange)
INCIDENT_OCCURRENCES = RowMapper(rows.IncidentOccurrence)
POLICY_VERSIONS = RowMapper(rows.PolicyVersionRow)
RAISED = RowMapper(
    rows.RaisedIncident, ("fingerprint", "occurrence", "kind", "subject", "job_type", "sample", "raised_at")
)
NEW_ENTRIES = RowMapper(rows.RaisedIncident, ("fingerprint", "occurrence", "subject", "raised_at"))

WORDS = {
    "incident": qualify("incidents", INCIDENTS.columns),
    "policy_version": ", ".join(POLICY_VERSIONS.columns),
    "over": str(rows.ALL_STEPS_DONE),
}
