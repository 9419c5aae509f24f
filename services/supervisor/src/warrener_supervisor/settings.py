"""The supervisor's settings."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from warrener_runtime.settings import ServiceSettings

Prefetch = Annotated[int, Field(ge=1, le=10_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class SupervisorSettings(ServiceSettings):
    """Environment `WARRENER_*`, or a TOML file."""

    section = "supervisor"

    store_url: str = "sqlite:///.warrener/state.db"
    """PostgreSQL, or a SQLite file that all services of this host share."""
    status_prefetch: Prefetch = 500
    """How many messages are judged in one batch at most; as many again are fetched meanwhile."""
    watch_every: Seconds = 0.5
    """Seconds between looks at timeouts, leases and deadlines."""
    lease: Seconds = 8.0
    """Seconds of silence after which an agent counts as lost; heartbeats come every 2."""
    ladder_grace: Seconds = 15.0
    """Seconds after its time that a delayed attempt may take to come down the ladder."""
    timeout_grace: Seconds = 10.0
    """Seconds that an agent has to end an attempt that runs too long, before the watchdog does."""
    escalation: Path | None = None
    """The file of the escalation ladders; none: one line in the log for each cause of death."""
