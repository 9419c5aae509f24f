"""The agent of the flights story: list the files of a folder, load each into a database.

Each file is loaded in the transaction that the ledger gives the handler: its rows and the job's result commit
together. Kill whatever you like while it runs: every row is there once.
"""

import asyncio
from pathlib import Path

from examples.flights.days import WrongHeader, read_day
from pydantic import BaseModel

from warrener_agent import Agent, JobContext

agent = Agent()

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


class Listing(BaseModel):
    """What `flights.list` found."""

    files: int


class Report(BaseModel):
    """What `flights.load` did."""

    file: str
    rows: int


@agent.job("flights.list", timeout="1m", guarantee="transactional")
async def list_files(job: JobContext, folder: Path) -> Listing:
    """Make the table and ask for one `flights.load` for each file: all of it, or nothing."""
    files = await asyncio.to_thread(lambda: sorted(folder.glob("*.csv")))
    transaction = await job.transaction()
    await transaction.execute(_TABLE)
    for file in files:
        job.request("flights.load", {"path": str(file)}, key=file.name)
    return Listing(files=len(files))


# In a child process: a file that never ends is a file that blocks, and only a process can be killed.
@agent.job(
    "flights.load",
    max_attempts=3,
    timeout="5s",
    executor="process",
    guarantee="transactional",
    no_retry_on=(WrongHeader,),
)
def load(job: JobContext, path: Path) -> Report:
    """Read one day, and insert its flights."""
    flights = read_day(path)
    job.transaction_sync().execute(_INSERT, [flight.model_dump() for flight in flights])
    return Report(file=path.name, rows=len(flights))
