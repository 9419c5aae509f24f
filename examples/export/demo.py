"""`python -m examples.export.demo`: three days are exported, three files are damaged, an agent is killed.

Exits 0 only if the written files have each flight of the others once, the reports name the damaged ones, and
alerts were sent.
"""

import asyncio
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from examples.export.handlers import FOLDER
from examples.flights.damage import damage
from examples.flights.days import HEADER, data_set
from examples.flights.warren import Warren

from warrener_store import StateStore, open_store
from warrener_store.jobs.rows import JobFilter, JobRow

DAYS = [date(2013, 1, day) for day in (1, 2, 3)]
SPAN = ("--from", "2013-01-01T00:00-05:00", "--to", "2013-01-03T23:59-05:00")
KILL_AT = 6  # exported files
PATIENCE = 240.0  # seconds for all


def main() -> int:
    """Run the story; the exit code."""
    folder, data = FOLDER.absolute(), FOLDER.absolute() / "up"
    shutil.rmtree(folder, ignore_errors=True)
    files = [file for day in DAYS for file in write_day(folder, day)]
    damaged = {f"{file.parent.name}/{file.name}": how for file, how in damage(files).items()}
    print(f"{len(files)} files of three days; damaged: {', '.join(map(' '.join, damaged.items()))}")
    os.environ["WARRENER_SUPERVISOR_ESCALATION_FILE"] = str(Path(__file__).with_name("escalation.toml"))
    warren = Warren(data, "examples.export.handlers")
    try:
        warren.start(within=240)
        asyncio.run(export(warren, data, folder))
    finally:
        warren.stop()
    wrong = mistakes(folder, files, damaged)
    for found in (*warren.alerts, *(f"wrong: {one}" for one in wrong)):
        print(found)
    return 0 if not wrong and warren.alerts and warren.restarted else 1


def write_day(folder: Path, day: date) -> list[Path]:
    """Write the flights of a day, one file for each carrier."""
    carriers: dict[str, list[list[str]]] = {}
    for line in data_set():
        if line[:3] == [str(day.year), str(day.month), str(day.day)]:
            carriers.setdefault(line[HEADER.index("carrier")], []).append(line)
    source = folder / "in" / day.isoformat()
    source.mkdir(parents=True)
    for carrier, lines in carriers.items():
        with (source / f"{carrier}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *lines])
    return sorted(source.iterdir())


async def export(warren: Warren, data: Path, folder: Path) -> None:
    """Request the three days as the schedule does, and kill an agent while their files are exported."""
    store = open_store(f"sqlite:///{data / 'state.db'}")
    await store.start()
    try:
        ask = (sys.executable, "-m", "warrener", "schedule", "backfill", "export.daily", *SPAN)
        where = ("--broker", warren.broker_url(), "--store", f"sqlite:///{data / 'state.db'}")
        await asyncio.to_thread(subprocess.run, [*ask, *where], check=True)
        async with asyncio.timeout(PATIENCE):
            while _count(folder) < KILL_AT:  # noqa: ASYNC110 - another process writes them
                await asyncio.sleep(0.1)
            print(f"kill -9 of an agent (process {warren.kill('agent')}) while the maps run")
            while not all(job.state.terminal for job in await days(store)):  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.3)
        for job in await days(store):
            print(f"{job.arguments['day']}: {job.state} after {job.attempt} turns")
    finally:
        await store.close()


async def days(store: StateStore) -> list[JobRow]:
    """The workflows, the oldest day first."""
    return sorted(
        await store.list_jobs(JobFilter(job_type="export.day")), key=lambda job: str(job.arguments["day"])
    )


def mistakes(folder: Path, files: Sequence[Path], damaged: Mapping[str, str]) -> list[str]:
    """What is not as it must be, by the files that were written."""
    wrong = list[str]()
    reports = {day: json.loads((folder / f"out/{day}/report.json").read_text()) for day in DAYS}
    failed = {f"{day}/{one['file']}" for day, report in reports.items() for one in report["failed"]}
    if failed != set(damaged):
        wrong.append(f"expected the reports to name {sorted(damaged)}, got {sorted(failed)}")
    for file in files:
        target = folder / "out" / file.parent.name / f"{file.stem}.jsonl"
        if (
            f"{file.parent.name}/{file.name}" not in damaged and _lines(target) != _lines(file) - 1
        ):  # the header
            wrong.append(f"expected {_lines(file) - 1} flights in {target}, got {_lines(target)}")
    for day, report in reports.items():
        print(f"{day}: {report['flights']} flights, {report['late']} late, failed: {report['failed']}")
    return wrong


def _count(folder: Path) -> int:
    return len(list(folder.glob("out/*/*.jsonl")))


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
