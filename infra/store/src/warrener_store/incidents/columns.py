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

_RAISED_AGAIN = """
ON CONFLICT (fingerprint) DO UPDATE SET
  kind = excluded.kind,
  subject = excluded.subject,
  job_type = excluded.job_type,
  sample = excluded.sample,
  times = excluded.times + CASE WHEN held.closed_at IS NULL THEN held.times ELSE 0 END,
  first_seen_at = CASE WHEN held.closed_at IS NULL THEN held.first_seen_at ELSE excluded.first_seen_at END,
  last_seen_at = CASE
    WHEN held.closed_at IS NULL AND held.last_seen_at > excluded.last_seen_at THEN held.last_seen_at
    ELSE excluded.last_seen_at END,
  round = held.round + CASE WHEN held.closed_at IS NULL THEN 0 ELSE 1 END,
  step = CASE WHEN held.closed_at IS NULL THEN held.step ELSE 0 END,
  due_at = CASE WHEN held.closed_at IS NULL THEN held.due_at END,
  failed_tries = CASE WHEN held.closed_at IS NULL THEN held.failed_tries ELSE 0 END,
  delivered = CASE WHEN held.closed_at IS NULL THEN held.delivered ELSE excluded.delivered END,
  last_error = CASE WHEN held.closed_at IS NULL THEN held.last_error END,
  wake_at = CASE
    WHEN held.closed_at IS NULL AND held.wake_at < excluded.wake_at THEN held.wake_at
    ELSE excluded.wake_at END,
  policy_version = CASE WHEN held.closed_at IS NULL THEN held.policy_version END,
  policy_history = CASE WHEN held.closed_at IS NULL THEN held.policy_history END,
  claimed_by = CASE WHEN held.closed_at IS NULL THEN held.claimed_by END,
  claimed_until = CASE WHEN held.closed_at IS NULL THEN held.claimed_until END,
  acknowledged_by = CASE WHEN held.closed_at IS NULL THEN held.acknowledged_by END,
  acknowledged_at = CASE WHEN held.closed_at IS NULL THEN held.acknowledged_at END,
  snoozed_until = CASE WHEN held.closed_at IS NULL THEN held.snoozed_until END,
  closed_at = NULL,
  close_reason = NULL
"""
"""What becomes of an incident that is raised again: an open one is counted on, a closed one begins anew."""
WORDS = {
    "incident": qualify("incidents", INCIDENTS.columns),
    "policy_version": ", ".join(POLICY_VERSIONS.columns),
    "over": str(rows.ALL_STEPS_DONE),
    "raised_again": _RAISED_AGAIN.strip(),
}
