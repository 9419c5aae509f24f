"""The columns of incidents and their occurrences."""

from warrener_store.incidents.rows import (
    ALL_STEPS_DONE,
    IncidentChange,
    IncidentOccurrence,
    IncidentRow,
    PolicyVersionRow,
    RaisedIncident,
)
from warrener_store.mapping import RowMapper, qualify

INCIDENTS = RowMapper(IncidentRow)
INCIDENT_PROGRESS = RowMapper(
    IncidentRow,
    "fingerprint claimed_by times step due_at failed_tries delivered last_error wake_at closed_at "
    "close_reason round policy_version policy_history",
)
"""The parameters of `save_incident`: the key, the claim, the count at that time, and the columns that are
written."""
INCIDENT_CHANGES = RowMapper(IncidentChange)
INCIDENT_OCCURRENCES = RowMapper(IncidentOccurrence)
POLICY_VERSIONS = RowMapper(PolicyVersionRow)
RAISED = RowMapper(
    RaisedIncident, ("fingerprint", "occurrence", "kind", "subject", "job_type", "sample", "raised_at")
)
NEW_ENTRIES = RowMapper(RaisedIncident, ("fingerprint", "occurrence", "subject", "raised_at"))

WORDS = {
    "incident": qualify("incidents", INCIDENTS.columns),
    "policy_version": ", ".join(POLICY_VERSIONS.columns),
    "over": str(ALL_STEPS_DONE),
}
