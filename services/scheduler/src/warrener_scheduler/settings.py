"""Settings of the scheduler: environment `WARRENER_*`, or a TOML file."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from warrener_contracts.fields import PositiveDuration, parse_duration
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_runtime.settings import DurationSeconds, ServiceSettings

_MIN_RETENTION = timedelta(hours=1)
_NEVER = "never"


def _parse_retention(value: object) -> timedelta | None:
    return None if value is None or value == _NEVER else parse_duration(value)


Retention = Annotated[timedelta | None, BeforeValidator(_parse_retention)]
"""A duration such as "30d"; "never" deletes nothing."""


def _terminal_state(state: object) -> JobState:
    if state not in TERMINAL:
        raise ValueError(f"one of {', '.join(sorted(TERMINAL))}")
    return JobState(str(state))


TerminalState = Annotated[JobState, BeforeValidator(_terminal_state)]


class RetentionSettings(ServiceSettings):
    """Settings of retention."""

    scheduler_succeeded_retention: Retention = timedelta(days=7)
    """Time that succeeded jobs and their attempts stay after their end; "never" deletes none."""
    scheduler_cancelled_retention: Retention = timedelta(days=7)
    """The same for cancelled jobs, and for the marks that keep a cancelled tree from growing."""
    scheduler_cancel_mark_retention: Retention = timedelta(days=1)
    """Time that the mark of a cancel stays whose job no request has come for: one that comes later runs."""
    scheduler_dead_retention: Retention = timedelta(days=30)
    """The same for dead jobs and their dead letters."""
    scheduler_expired_retention: Retention = timedelta(days=30)
    """The same for expired jobs."""
    scheduler_retention_by_job_type: dict[str, dict[TerminalState, Retention]] = Field(default_factory=dict)
    """Other retention for some job types: `{"flights.load": {"succeeded": "1d", "dead": "never"}}`."""
    scheduler_idempotency_window: PositiveDuration | None = None
    """Time that an idempotency key stands for its job after the job was accepted. None: as long as the job is
    stored. Longer: jobs with a key are stored that long. Shorter: the first repeat after it begins a new job.
    """
    scheduler_parked_retention: Retention = timedelta(days=30)
    """Time that parked messages stay."""
    scheduler_incident_retention: Retention = timedelta(days=90)
    """Time that incidents stay after their end, and that an open one names the jobs that died of it."""
    scheduler_redrive_retention: Retention = timedelta(days=90)
    """Time that redrives stay after their end."""
    scheduler_agent_retention: Retention = timedelta(days=7)
    """Time that agents stay after their last heartbeat."""
    scheduler_job_type_retention: Retention = timedelta(days=30)
    """Time that job types stay after their last announcement, if no agent serves the queue, no schedule names
    the type and none of its jobs is unfinished."""
    scheduler_audit_retention: Retention = timedelta(days=365)
    """Time that records of actions stay in the audit log."""
    scheduler_prune_interval: Retention = timedelta(minutes=5)
    """Time between two passes of deletion, for all schedulers together; "never" deletes nothing."""
    scheduler_export_folder: Path | None = None
    """Folder for JSON Lines files of deleted rows; each row is on the disk before it is deleted."""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        retentions = [
            self.scheduler_succeeded_retention,
            self.scheduler_cancelled_retention,
            self.scheduler_cancel_mark_retention,
            self.scheduler_dead_retention,
            self.scheduler_expired_retention,
            self.scheduler_agent_retention,
            *(keep for states in self.scheduler_retention_by_job_type.values() for keep in states.values()),
        ]
        if any(keep is not None and keep < _MIN_RETENTION for keep in retentions):
            raise ValueError(
                "a retention of at least 1 h for jobs and agents: clients repeat requests for minutes, "
                "and a repeat of a deleted job would run it again"
            )
        incidents, dead = self.scheduler_incident_retention, self.scheduler_dead_retention
        if incidents is not None and dead is not None and incidents < dead:
            raise ValueError(
                "scheduler_incident_retention to be no shorter than scheduler_dead_retention: "
                "an open incident would not name jobs that are there"
            )
        return self


class SchedulerSettings(RetentionSettings):
    """All settings of the scheduler."""

    section = "scheduler"

    store_url: str = "sqlite:///.warrener/state.db"
    """PostgreSQL, or a SQLite file that all services of this host share."""
    scheduler_request_keys_file: Path | None = None
    """File of the keys that may sign requests, each with its job types; none: requests need no signature."""
    scheduler_requests_prefetch: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Maximal number of messages in a batch; as many again are prefetched."""
    scheduler_dispatch_interval: Annotated[DurationSeconds, Field(gt=0, le=60)] = 0.5
    """Time between two looks at the jobs that wait for their time."""
    scheduler_queues: tuple[str, ...] = ()
    """Queues that requests may name though no agent has announced them; patterns, such as `batch-*`."""
    scheduler_job_type_users: dict[str, str] = Field(default_factory=dict)
    """Users of the broker to whom job types belong, by patterns of their names: `{"payments.*": "payroll"}`.
    Nobody else announces those, not even first, and the user takes over what another has announced. Other job
    types belong to the user that first announced them, while they are stored."""
    scheduler_rejection_limit: Annotated[int, Field(ge=0, le=1000)] = 10
    """Number of rejected ticks in a row after which a schedule is paused; 0: never."""
    scheduler_trigger_exchanges: dict[str, list[str]] = Field(default_factory=dict)
    """Exchanges of your own that schedules may wait for, each with the topic patterns of their keys:
    `{"airport": ["landed.*"], "shop": ["#"]}`. Beside them, schedules may wait for events of jobs, schedules,
    breakers, agents and services on `warrener.events`, never for replies."""
    scheduler_tick_retention: PositiveDuration = timedelta(days=90)
    """Time that the tick history keeps a tick; waiting ticks, and ticks not known to be published, stay
    longer."""
    scheduler_ticks_keep_newest: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Number of newest ticks of each schedule that stay however old they are."""

    @model_validator(mode="after")
    def _check_trigger_exchanges(self) -> Self:
        if any(exchange.startswith("warrener.") for exchange in self.scheduler_trigger_exchanges):
            raise ValueError(
                "scheduler_trigger_exchanges with exchanges of your own: of Warrener's, schedules may wait "
                "for public events, and nothing else"
            )
        return self
