"""By which time zone database this process plans.

Python looks into the folders of the system first (`zoneinfo.TZPATH`, which PYTHONTZPATH sets), and takes from
the package tzdata what it does not find there.
"""

from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from zoneinfo import TZPATH, available_timezones


@lru_cache(maxsize=1)
def database_version() -> str:
    """Its release, and a digest of what it says of all zones: distributions mend zones within a release, and
    people put files of their own beside it. A process reads a zone once, so this holds until it ends."""
    digest = sha256()
    for name in sorted(available_timezones()):
        digest.update(f"{name}\n".encode())
        digest.update(zone_file(name))
    return f"{_release()} {digest.hexdigest()[:12]}"


def _release() -> str:
    """That of the first folder that names one."""
    for folder in TZPATH:
        try:
            with Path(folder, "tzdata.zi").open(encoding="ascii") as lines:
                return lines.readline().removeprefix("# version").strip()
        except OSError:
            continue  # it need not be there, nor the folder
    return version("tzdata")


def zone_file(name: str) -> bytes:
    """What the database says of one zone."""
    found = (Path(folder, name) for folder in TZPATH)
    path = next((path for path in found if path.is_file()), None)
    return path.read_bytes() if path else files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
