"""The agent of the daily export. A file is written whole under its name, or not at all: a job that runs again
after a crash writes the same file again."""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from examples.flights.days import WrongHeader, read_day
from pydantic import BaseModel

from warrener_agent import Agent, Fail, Workflow
from warrener_contracts.schedule_rules import ScheduleChoices

agent = Agent()

FOLDER = Path(".warrener/export")  # of the agents: `in/2013-01-01/UA.csv` becomes `out/2013-01-01/UA.jsonl`
LATE = 15  # minutes
CHOICES = ScheduleChoices(expect_success_within=timedelta(hours=26))


class Exported(BaseModel):
    """The result of one file."""

    file: str
    flights: int
    late: int


class FailedFile(BaseModel):
    """A file that could not be exported."""

    file: str
    error: str


class Report(BaseModel):
    """The report of a day, and the result of its workflow."""

    day: date
    flights: int
    late: int
    exported: list[Exported]
    failed: list[FailedFile]


def list_files(folder: Path) -> list[str]:
    """The files of a day."""
    return sorted(file.name for file in folder.glob("*.csv"))


# In a child process: a file that never ends is a file that blocks, and only a process can be killed.
@agent.job("export.file", executor="process", timeout="20s", max_attempts=2, no_retry_on=(WrongHeader,))
def export_file(source: Path, target: Path) -> Exported:
    """Export the flights of one file, one JSON object a line."""
    flights = read_day(source)
    _write(target, "".join(f"{flight.model_dump_json()}\n" for flight in flights))
    late = sum((flight.arrival_delay or 0) > LATE for flight in flights)
    return Exported(file=source.name, flights=len(flights), late=late)


@agent.job("export.report")
def write_report(path: Path, day: date, exported: Sequence[Exported], failed: Sequence[FailedFile]) -> Report:
    """Add up a day."""
    report = Report(
        day=day,
        flights=sum(one.flights for one in exported),
        late=sum(one.late for one in exported),
        exported=list(exported),
        failed=list(failed),
    )
    _write(path, report.model_dump_json(indent=2))
    return report


@agent.schedule(
    "export.daily",
    cron="30 23 * * *",
    timezone="America/New_York",
    arguments={"day": "{{ tick.local_at | %Y-%m-%d }}"},
    choices=CHOICES,
)
@agent.workflow("export.day")
async def export_day(flow: Workflow, day: date, folder: Path = FOLDER) -> Report:
    """Export each file of a day, four at once, and report those that failed beside the others."""
    source, target = folder / "in" / day.isoformat(), folder / "out" / day.isoformat()
    files = await flow.step(list_files, source)
    if not files:
        raise Fail(f"expected files of {day} in {source}, got none")
    exports = await flow.map(
        export_file,
        [{"source": source / file, "target": (target / file).with_suffix(".jsonl")} for file in files],
        key=lambda item: item["source"].name,
        in_flight=4,
    )
    failed = [FailedFile(file=one.key, error=str(one.error)) for one in exports.failed]
    exported = [one for one in exports.results if one is not None]
    return await flow.call(
        write_report, path=target / "report.json", day=day, exported=exported, failed=failed
    )


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target.with_suffix(".part")
    written.write_text(text)
    written.replace(target)
