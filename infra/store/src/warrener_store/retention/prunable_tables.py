"""The table of each kind of old row, and the condition for its deletion: the same words for both
databases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.agents.store import AGENTS, JOB_TYPES
from warrener_store.audit.store import AUDIT_RECORDS
from warrener_store.dead_letters.columns import REDRIVE_COLUMNS, redrive_from_row
from warrener_store.incidents.columns import INCIDENTS, POLICY_VERSIONS
from warrener_store.mapping import ColumnCodec
from warrener_store.parked.store import PARKED
from warrener_store.retention.rows import OldRow, RetentionKind

_LIVE = ", ".join(f"'{state.value}'" for state in JobState if state not in TERMINAL)


@dataclass(frozen=True, slots=True)
class PrunableTable:
    """The table of a kind, its key, the column of its age, and the further condition on row `kept`."""

    table: str
    key: str
    moment: str
    columns: Sequence[str]
    from_row: Callable[[Sequence[Any], ColumnCodec], OldRow]
    condition: str = "1 = 1"
    key_is_id: bool = False
    locks: bool = True  # to lock a row takes the right to change it, which nobody has on the audit log

    def page(self) -> str:
        """The statement of `old_rows`: $1 before, $2 and $3 the position behind which it begins, $4 limit."""
        columns = ", ".join(f"kept.{name}" for name in self.columns)
        return (
            f"SELECT {columns}, ({self.condition}) AS free "  # noqa: S608 - made of constants alone
            f"FROM {self.table} AS kept "
            f"WHERE kept.{self.moment} < $1 AND (kept.{self.moment}, kept.{self.key}) > ($2, $3) "
            f"ORDER BY kept.{self.moment}, kept.{self.key} LIMIT $4"
        )

    def deletion(self, named: str, *, skip_locked: bool) -> str:
        """The statement of `delete_rows`: $1 before; `named` is the condition that the key is one of $2."""
        lock = f" ORDER BY kept.{self.key} FOR UPDATE SKIP LOCKED" if skip_locked and self.locks else ""
        return (
            f"DELETE FROM {self.table} WHERE {self.key} IN ("  # noqa: S608 - made of constants alone
            f"SELECT kept.{self.key} FROM {self.table} AS kept "
            f"WHERE kept.{self.key} {named} AND kept.{self.moment} < $1 AND {self.condition}{lock}"
            ") RETURNING 1"
        )


PRUNABLE_TABLES: Mapping[RetentionKind, PrunableTable] = MappingProxyType(
    {
        RetentionKind.PARKED: PrunableTable(
            "warrener_parked", "parked_id", "parked_at", PARKED.columns, PARKED.from_row
        ),
        RetentionKind.INCIDENTS: PrunableTable(
            "warrener_incidents",
            "fingerprint",
            "last_seen_at",
            INCIDENTS.columns,
            INCIDENTS.from_row,
            "kept.closed_at < $1 AND NOT EXISTS (SELECT 1 FROM warrener_incident_occurrences AS entry "
            "WHERE entry.fingerprint = kept.fingerprint LIMIT 1 OFFSET 0)",
        ),
        RetentionKind.ESCALATION_POLICIES: PrunableTable(
            "warrener_escalation_policies",
            "version",
            "last_seen_at",
            POLICY_VERSIONS.columns,
            POLICY_VERSIONS.from_row,
            "NOT EXISTS (SELECT 1 FROM warrener_incidents AS incident "
            "WHERE incident.policy_version = kept.version LIMIT 1 OFFSET 0)",
        ),
        RetentionKind.REDRIVES: PrunableTable(
            "warrener_redrives",
            "redrive_id",
            "updated_at",
            REDRIVE_COLUMNS,
            redrive_from_row,
            "kept.wake_at IS NULL AND NOT EXISTS (SELECT 1 FROM warrener_dead_letters AS dead_letter "
            "WHERE dead_letter.redrive_id = kept.redrive_id AND dead_letter.state IN ('claimed', 'redriven') "
            "LIMIT 1 OFFSET 0)",
            key_is_id=True,
        ),
        RetentionKind.AGENTS: PrunableTable(
            "warrener_agents", "agent_id", "last_seen_at", AGENTS.columns, AGENTS.from_row
        ),
        RetentionKind.JOB_TYPES: PrunableTable(
            "warrener_job_types",
            "name",
            "announced_at",
            JOB_TYPES.columns,
            JOB_TYPES.from_row,
            "NOT EXISTS (SELECT 1 FROM warrener_job_counts AS live "  # noqa: S608 - made of constants alone
            f"WHERE live.job_type = kept.name AND live.state IN ({_LIVE}) "
            "GROUP BY live.state HAVING sum(live.jobs) > 0 LIMIT 1 OFFSET 0)",
        ),
        RetentionKind.AUDIT_RECORDS: PrunableTable(
            "warrener_audit",
            "record_id",
            "recorded_at",
            AUDIT_RECORDS.columns,
            AUDIT_RECORDS.from_row,
            key_is_id=True,
            locks=False,
        ),
    }
)

_JOBS = """job.finished_at < $1
    AND (job.idempotency_key IS NULL OR job.accepted_at < $2)
    AND NOT EXISTS (
      SELECT 1 FROM warrener_jobs AS child
      WHERE child.parent_id = job.job_id AND NOT ({is_undo} AND child.finished_at IS NOT NULL)
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_jobs AS parent
      WHERE parent.job_id = job.parent_id AND ({job_is_undo} OR parent.finished_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM warrener_workflow_turns AS begun
        WHERE begun.job_id = parent.job_id AND begun.attempt = parent.generation
          AND begun.suspended_at > job.finished_at
        LIMIT 1 OFFSET 0
      ))
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS redriven
      WHERE redriven.redriven_as = job.job_id AND redriven.state = 'redriven'
      LIMIT 1 OFFSET 0
    )
    AND NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS own
      WHERE own.job_id = job.job_id AND (own.state IN ('claimed', 'redriven') OR EXISTS (
        SELECT 1 FROM warrener_incidents AS incident
        JOIN warrener_incident_occurrences AS named ON named.fingerprint = incident.fingerprint
        WHERE incident.fingerprint = own.fingerprint AND incident.closed_at IS NULL
          AND named.occurrence = CAST(own.job_id AS text) AND named.steps_done < {over}
        LIMIT 1 OFFSET 0
      ))
      LIMIT 1 OFFSET 0
    )"""
"""The condition that a job may be deleted: it ended before $1, and was accepted before $2 if it has a key.
A child job of a workflow stays until that has ended, or has begun another generation since then.
A job that undid a call stays until its workflow has gone, and does not hold it: without it the call would be
undone again.
OFFSET 0 makes PostgreSQL look references up job by job, by an index, rather than read a whole table."""
WORDS = {"prunable": _JOBS}
