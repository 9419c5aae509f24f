"""What the scheduler can be told."""

from typing import Annotated

from pydantic import Field

from warrener_runtime.settings import ServiceSettings


class SchedulerSettings(ServiceSettings):
    """Environment `WARRENER_*`, or a TOML file."""

    section = "scheduler"

    store_url: str = "sqlite:///.warrener/state.db"
    """PostgreSQL, or a SQLite file that all services of this host share."""
    requests_prefetch: Annotated[int, Field(ge=1, le=10_000)] = 500
    """How many requests are accepted in one batch at most."""
    dispatch_every: Annotated[float, Field(gt=0, le=60)] = 0.5
    """Seconds between looks at the jobs that wait for their time."""
