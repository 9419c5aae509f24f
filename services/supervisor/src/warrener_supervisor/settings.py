"""The supervisor's settings."""

from pathlib import Path
from typing import Annotated

from pydantic import ByteSize, Field, ValidationInfo, field_validator

from warrener_runtime.settings import DurationSeconds, ServiceSettings

Prefetch = Annotated[int, Field(ge=1, le=10_000)]
Seconds = Annotated[DurationSeconds, Field(gt=0, le=86_400)]


class SupervisorSettings(ServiceSettings):
    """Environment `WARRENER_*`, or a TOML file."""

    section = "supervisor"

    store_url: str = "sqlite:///.warrener/state.db"
    """PostgreSQL, or a SQLite file that all services of this host share."""
    supervisor_status_prefetch: Prefetch = 500
    """How many messages are judged in one batch at most; as many again are fetched meanwhile."""
    supervisor_watchdog_interval: Seconds = 0.5
    """Time between two looks at timeouts, leases and deadlines."""
    agent_claim_ttl: Seconds | None = None
    """The setting of agents, where it is set for the supervisor too: compared, not used."""
    supervisor_agent_timeout: Seconds = 8.0
    """Silence after which an agent counts as lost; heartbeats come every 2 s."""
    supervisor_delay_grace: Seconds = 15.0
    """Time that a delayed attempt may take to leave its delay queue after it was due."""
    supervisor_timeout_grace: Seconds = 10.0
    """Time that an agent has to end an attempt that runs too long, before the watchdog does."""
    supervisor_log_lines_limit: Annotated[int, Field(ge=1, le=100_000)] = 500
    """Log lines that are stored of an attempt: the last ones, rounded up to a message of its agent."""
    supervisor_log_size_limit: Annotated[ByteSize, Field(ge=1024, le=16 * 1024 * 1024)] = ByteSize(64 * 1024)
    """The same in bytes."""
    supervisor_cancel_marks_limit: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Cancels of jobs that no request has come for, of one user of the broker, or of one source if the
    message names no user: each leaves a mark in the store until it expires. Those of all users may be a
    hundred times as many, and so may those of all sources."""
    supervisor_escalation_file: Path | None = None
    """The file of the escalation policies; none: one line in the log for each cause of death."""

    @field_validator("supervisor_agent_timeout")
    @classmethod
    def _claims_end_before_agents_are_lost(cls, timeout: float, info: ValidationInfo) -> float:
        ttl: float | None = info.data.get("agent_claim_ttl")
        if ttl is not None and timeout <= ttl:
            raise ValueError(f"more than agent_claim_ttl ({ttl:g} s), so that a claim ends before")
        return timeout
