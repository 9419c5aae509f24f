"""River: jobs in PostgreSQL, in Go. It is measured where there is a `go` to build it."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tools.benchmarks.place import ROOT, Place
from tools.benchmarks.systems.port import Command

_SOURCE = Path(__file__).parents[1] / "apps" / "river"
_PROGRAM = ROOT / "build" / "bench-river"
_BUILD_TIMEOUT = 600.0  # seconds; the first build downloads its modules


class RiverMissing(Exception):
    """River cannot be built here; the others are measured without it."""


class River:
    """It needs no broker. Its requester is in Go too: River inserts from no other language in bulk."""

    name = "river"
    settings = (
        "1 process of 2000 workers, LISTEN/NOTIFY, InsertManyFast of 1000 by pgx, finished jobs kept, in Go"
    )
    finished: str | None = "SELECT count(*) FROM river_job WHERE state = 'completed'"
    driver = Command(("ask",), program=str(_PROGRAM))

    def prepare(self, place: Place) -> None:
        """Build it once in a run, and make its tables."""
        build_river()
        subprocess.run([_PROGRAM, "migrate"], env=place.environment(), check=True)

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        """One process, which uses all processors."""
        return [Command(("work",), program=str(_PROGRAM))]


@cache
def build_river() -> None:
    """Build the program. Raises RiverMissing."""
    go = shutil.which("go")
    if go is None:
        raise RiverMissing("expected go on the PATH to build River, got none; install Go 1.26 or later")
    _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [go, "build", "-o", str(_PROGRAM), "."],
        cwd=_SOURCE,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT,
        check=False,
    )
    if built.returncode:
        raise RiverMissing(f"expected River to build, got: {built.stderr[-1000:]}")
