"""What the scheduler can be told."""

from typing import Annotated

from pydantic import Field

from warrener_scheduler.retention.settings import RetentionSettings


class SchedulerSettings(RetentionSettings):
    """Environment `WARRENER_*`, or a TOML file."""

    section = "scheduler"

    store_url: str = "sqlite:///.warrener/state.db"
    """PostgreSQL, or a SQLite file that all services of this host share."""
    requests_prefetch: Annotated[int, Field(ge=1, le=10_000)] = 500
    """How many messages are accepted in one batch at most; as many again are fetched meanwhile."""
    dispatch_every: Annotated[float, Field(gt=0, le=60)] = 0.5
    """Seconds between looks at the jobs that wait for their time."""
    ticks_keep_days: Annotated[float, Field(gt=0, le=36_500)] = 90.0
    """Days that the ledger keeps a tick; what waits, or is not known to be published, is kept longer."""
    ticks_keep_newest: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """How many of the newest ticks of each schedule are kept however old they are."""
