"""The version of the time zone database depends on its contents, not on a name."""

import os
import subprocess
import sys
from importlib.metadata import version as version_of
from importlib.resources import files
from pathlib import Path

RELEASE = version_of("tzdata")
PRINT_VERSION = "from warrener_calendar.zones import database_version; print(database_version())"


def version(folder: Path | None) -> str:
    """Return the version in a process that looks into this folder first; None: into the system's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONTZPATH"}
    if folder is not None:
        environment["PYTHONTZPATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", PRINT_VERSION], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def put_zone(folder: Path, name: str, like: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(files("tzdata").joinpath("zoneinfo", *like.split("/")).read_bytes())


def test_it_is_that_of_the_files_which_are_read(tmp_path: Path) -> None:
    package = version(tmp_path)
    assert package.startswith(f"{RELEASE} "), "an empty folder: the package's own"
    (tmp_path / "tzdata.zi").write_text("# version 2099z\n", encoding="ascii")
    assert version(tmp_path) == package.replace(RELEASE, "2099z")


def test_a_zone_that_changes_within_a_release_changes_it(tmp_path: Path) -> None:
    put_zone(tmp_path, "Europe/Berlin", like="Europe/Berlin")
    same = version(tmp_path)
    assert same == version(tmp_path / "none")
    put_zone(tmp_path, "Europe/Berlin", like="Asia/Tokyo")
    assert version(tmp_path) != same
