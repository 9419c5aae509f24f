"""The `warrener up` of a folder, as other programs of this machine find it.

It holds a lock for as long as it runs, so the file of a killed one is never believed.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from warrener_runtime.namespace import DEFAULT_NAMESPACE
from warrener_runtime.secrets import mask

DEFAULT_FOLDER = ".warrener"
LOCK_FILE = "up.lock"
ENDPOINTS_FILE = "endpoints.json"

_announced: set[str] = set()


@dataclass(frozen=True, slots=True)
class Endpoints:
    """URLs of what `up` runs, for other programs."""

    broker_url: str
    store_url: str
    ledger_url: str
    namespace: str = DEFAULT_NAMESPACE


def find_running_up(folder: Path = Path(DEFAULT_FOLDER)) -> Endpoints | None:
    """The endpoints of the `up` that holds the folder; None if none runs, or it is not ready."""
    return read_endpoints(folder) if find_holder(folder) is not None else None


def find_holder(folder: Path) -> int | None:
    """Id of the process that holds the folder's lock; None if it is free."""
    try:
        import fcntl  # noqa: PLC0415 - there is no `up` where this module is missing
    except ImportError:
        return None
    try:
        with (folder / LOCK_FILE).open("r", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return int(lock.read() or 0)
    except OSError:  # no folder, or none that we may read
        pass
    return None


def read_endpoints(folder: Path) -> Endpoints | None:
    """The announced endpoints; None if the file is missing or unreadable."""
    try:
        return Endpoints(**json.loads((folder / ENDPOINTS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def announce_use(broker_url: str) -> None:
    """Write to stderr, once in a process, that no URL was given and this one was found."""
    if broker_url not in _announced:
        _announced.add(broker_url)
        sys.stderr.write(f"warrener: using the `warrener up` of this folder, {mask(broker_url)}\n")
