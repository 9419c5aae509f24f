"""Decide which rows are old enough to be deleted, by the settings. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from warrener_contracts.state_machine import JobState
from warrener_scheduler.settings import RetentionSettings
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.jobs.rows import StateCount
from warrener_store.retention.rows import JobsBefore, OldRow, RetentionKind
from warrener_store.schedules.rows import ScheduleRow


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """The retention of each kind of row; None: it always stays."""

    jobs: Mapping[JobState, timedelta | None]
    by_type: Mapping[str, Mapping[JobState, timedelta | None]]
    rows: Mapping[RetentionKind, timedelta | None]
    window: timedelta | None = None

    @classmethod
    def of(cls, settings: RetentionSettings) -> "RetentionPolicy":
        """Read the policy from the settings."""
        return cls(
            jobs={
                JobState.SUCCEEDED: settings.scheduler_succeeded_retention,
                JobState.CANCELLED: settings.scheduler_cancelled_retention,
                JobState.DEAD: settings.scheduler_dead_retention,
                JobState.EXPIRED: settings.scheduler_expired_retention,
            },
            by_type=settings.scheduler_retention_by_job_type,
            rows={
                RetentionKind.PARKED: settings.scheduler_parked_retention,
                RetentionKind.INCIDENTS: settings.scheduler_incident_retention,
                RetentionKind.ESCALATION_POLICIES: settings.scheduler_incident_retention,
                RetentionKind.REDRIVES: settings.scheduler_redrive_retention,
                RetentionKind.AGENTS: settings.scheduler_agent_retention,
                RetentionKind.JOB_TYPES: settings.scheduler_job_type_retention,
                RetentionKind.AUDIT_RECORDS: settings.scheduler_audit_retention,
            },
            window=settings.scheduler_idempotency_window,
        )

    def jobs_before(self, counts: Iterable[StateCount], now: datetime) -> list[JobsBefore]:
        """Return which jobs are old, for each type and terminal state that has jobs."""
        # A type may have jobs in several queues.
        kinds = dict.fromkeys((one.job_type, one.state) for one in counts if one.state.terminal)
        keeps = [(job_type, state, self._keep(job_type, state)) for job_type, state in kinds]
        keyed = now if self.window is None else now - self.window
        return [
            JobsBefore(job_type, state, now - keep, keyed)
            for job_type, state, keep in keeps
            if keep is not None
        ]

    def _keep(self, job_type: str, state: JobState) -> timedelta | None:
        of_type = self.by_type.get(job_type, {})
        return of_type[state] if state in of_type else self.jobs[state]

    def rows_before(self, kind: RetentionKind, now: datetime) -> datetime | None:
        """Return the age limit of this kind of row; None if its rows always stay."""
        keep = self.rows[kind]
        return None if keep is None else now - keep


def unused_types(
    old: Mapping[str, OldRow], schedules: Iterable[ScheduleRow], agents: Iterable[AgentRow], before: datetime
) -> set[str]:
    """Return the keys of job types that no schedule names and whose queue no agent has served since `before`.

    The age of the announcement is not enough: an agent announces its types when it starts, and may run for
    months.
    """
    named = {row.definition.job_type for row in schedules}
    served = {queue for agent in agents if agent.last_seen_at >= before for queue in agent.queues}
    return {
        key
        for key, row in old.items()
        if isinstance(row, JobTypeRow) and row.name not in named and row.queue not in served
    }
