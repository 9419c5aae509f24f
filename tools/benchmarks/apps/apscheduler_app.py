"""APScheduler with one schedule, kept in PostgreSQL: `python -m tools.benchmarks.apps.apscheduler_app`."""

import logging
from datetime import UTC, datetime
from typing import Any

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-untyped] # it has none
from apscheduler.schedulers.blocking import BlockingScheduler  # type: ignore[import-untyped]
from tools.benchmarks.place import here
from tools.benchmarks.stamp import stamp


def main() -> None:
    """Tick until told to end."""
    logging.basicConfig(level="WARNING")
    url = here().database_url.replace("postgresql://", "postgresql+psycopg2://")
    scheduler: Any = BlockingScheduler(jobstores={"default": SQLAlchemyJobStore(url=url)}, timezone=UTC)
    begin = datetime.now(UTC).replace(microsecond=500_000)  # ours ticks on whole seconds beside it
    scheduler.add_job(stamp, "interval", seconds=1, start_date=begin, id="stamped")
    scheduler.start()


if __name__ == "__main__":
    main()
