"""For how long things are kept, as the scheduler's settings say."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from warrener_contracts.fields import PositiveDuration, parse_duration
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_runtime.settings import ServiceSettings

_MIN_RETENTION = timedelta(hours=1)
_NEVER = "never"


def _parse_retention(value: object) -> timedelta | None:
    return None if value is None or value == _NEVER else parse_duration(value)


Retention = Annotated[timedelta | None, BeforeValidator(_parse_retention)]
"""A duration such as "30d"; "never": nothing of it is deleted."""


def _terminal_state(state: object) -> JobState:
    if state not in TERMINAL:
        raise ValueError(f"one of {', '.join(sorted(TERMINAL))}")
    return JobState(str(state))


TerminalState = Annotated[JobState, BeforeValidator(_terminal_state)]


class RetentionSettings(ServiceSettings):
    """The part of the scheduler's settings that is about retention."""

    scheduler_succeeded_retention: Retention = timedelta(days=7)
    """How long a succeeded job is kept after its end, with its attempts; "never" deletes none."""
    scheduler_cancelled_retention: Retention = timedelta(days=7)
    """The same of cancelled jobs, and of the marks that keep a cancelled tree from growing."""
    scheduler_dead_retention: Retention = timedelta(days=30)
    """The same of dead jobs and their dead letters."""
    scheduler_expired_retention: Retention = timedelta(days=30)
    """The same of expired jobs."""
    scheduler_retention_by_job_type: dict[str, dict[TerminalState, Retention]] = Field(default_factory=dict)
    """Other retention for some job types: `{"flights.load": {"succeeded": "1d", "dead": "never"}}`."""
    scheduler_idempotency_window: PositiveDuration | None = None
    """How long an idempotency key stands for its job after it was accepted. None: as long as the job is kept.
    Longer: jobs with a key are kept that long. Shorter: the first repeat after it begins a new job."""
    scheduler_parked_retention: Retention = timedelta(days=30)
    """How long a parked message is kept."""
    scheduler_incident_retention: Retention = timedelta(days=90)
    """How long an incident is kept after its end, and how long an open one names the jobs that died of it."""
    scheduler_redrive_retention: Retention = timedelta(days=90)
    """How long a redrive is kept after its end."""
    scheduler_agent_retention: Retention = timedelta(days=7)
    """How long an agent is kept after its last heartbeat."""
    scheduler_job_type_retention: Retention = timedelta(days=30)
    """How long a job type is kept after its last announcement, if no agent serves its queue, no schedule
    names it and none of its jobs is still to end."""
    scheduler_prune_interval: Retention = timedelta(minutes=5)
    """Time between two passes of deletion, of all schedulers together; "never" deletes nothing."""
    scheduler_prune_batch_limit: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Rows that one statement looks at, at most."""
    scheduler_prune_pause: Annotated[float, Field(ge=0, le=60)] = 0.1
    """Seconds between two of these statements."""
    scheduler_export_folder: Path | None = None
    """Folder for JSON Lines files of what is deleted; each row is on the disk before it is deleted."""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        retentions = [
            self.scheduler_succeeded_retention,
            self.scheduler_cancelled_retention,
            self.scheduler_dead_retention,
            self.scheduler_expired_retention,
            self.scheduler_agent_retention,
            *(keep for states in self.scheduler_retention_by_job_type.values() for keep in states.values()),
        ]
        if any(keep is not None and keep < _MIN_RETENTION for keep in retentions):
            raise ValueError(
                "a retention of at least 1 h for jobs and agents: clients ask again for minutes, "
                "and a repeat of a deleted job would run it again"
            )
        incidents, dead = self.scheduler_incident_retention, self.scheduler_dead_retention
        if incidents is not None and dead is not None and incidents < dead:
            raise ValueError(
                "scheduler_incident_retention to be no shorter than scheduler_dead_retention: "
                "an open incident would not name jobs that are there"
            )
        return self
