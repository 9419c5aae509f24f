"""The agent of the daily export: list the files of a folder, load each into a database, sum up.

Each file is loaded in the transaction that the ledger gives the handler: its rows and the job's result commit
together. Kill whatever you like while it runs: every row is there once.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from examples.export.files import WrongHeader, read_file
from pydantic import BaseModel

from warrener_agent import Agent, Fail, JobContext, Workflow
from warrener_contracts.schedule_rules import ScheduleChoices

agent = Agent()

FOLDER = Path(".warrener/export/files")  # of the agents
LATE = 15  # minutes
CHOICES = ScheduleChoices(expect_success_within=timedelta(hours=26))

_TABLE = """
CREATE TABLE IF NOT EXISTS flights (
    file TEXT NOT NULL, line INTEGER NOT NULL, day TEXT NOT NULL, carrier TEXT NOT NULL,
    flight INTEGER NOT NULL, origin TEXT NOT NULL, destination TEXT NOT NULL, departs_at TEXT NOT NULL,
    departure_delay INTEGER, arrival_delay INTEGER, distance INTEGER NOT NULL
)
"""  # no unique key: a row that is loaded twice must be seen, not refused

_INSERT = """
INSERT INTO flights VALUES (:file, :line, :day, :carrier, :flight, :origin, :destination, :departs_at,
    :departure_delay, :arrival_delay, :distance)
"""

_SUM = """
SELECT count(DISTINCT file) AS files, count(*) AS flights,
    coalesce(sum(CASE WHEN arrival_delay > :late THEN 1 ELSE 0 END), 0) AS late
FROM flights
"""


class FailedFile(BaseModel):
    """A file that could not be loaded."""

    file: str
    error: str


class Summary(BaseModel):
    """What the database has after a night, and the result of its workflow."""

    files: int
    flights: int
    late: int
    failed: list[FailedFile]


@agent.job("export.list", timeout="1m", guarantee="transactional")
async def list_files(job: JobContext, folder: Path) -> list[str]:
    """Make the table, and return the files that are not in it yet."""
    files = await asyncio.to_thread(lambda: sorted(file.name for file in folder.glob("*.csv")))
    if not files:
        raise Fail(f"expected CSV files in {folder}, got none")
    transaction = await job.transaction()
    await transaction.execute(_TABLE)
    loaded = {row["file"] for row in await transaction.execute("SELECT DISTINCT file FROM flights")}
    return [file for file in files if file not in loaded]


# In a child process: a file that never ends is a file that blocks, and only a process can be killed.
@agent.job(
    "export.load",
    max_attempts=3,
    timeout="5s",
    executor="process",
    guarantee="transactional",
    no_retry_on=(WrongHeader,),
)
def load(job: JobContext, path: Path) -> int:
    """Load the flights of one file; returns their number."""
    flights = read_file(path)
    job.transaction_sync().execute(_INSERT, [flight.model_dump() for flight in flights])
    return len(flights)


@agent.job("export.summary", guarantee="transactional")
async def sum_up(job: JobContext, failed: Sequence[FailedFile]) -> Summary:
    """Sum up what the database has, beside the files that it lacks."""
    [found] = await (await job.transaction()).execute(_SUM, {"late": LATE})
    return Summary(failed=list(failed), **found)


@agent.schedule("export.nightly", cron="30 23 * * *", timezone="America/New_York", choices=CHOICES)
@agent.workflow("export.night")
async def export_night(flow: Workflow, folder: Path = FOLDER) -> Summary:
    """Load each new file of the folder, and sum up. A file that fails stops no other."""
    files = await flow.call(list_files, folder=folder)
    loads = await flow.map(
        load, [{"path": folder / file} for file in files], key=lambda item: item["path"].name
    )
    failed = [
        FailedFile(file=one.key, error=one.error.message if one.error else one.state)
        for one in loads.failures
    ]
    return await flow.call(sum_up, failed=failed)
