"""Where PostgreSQL is on this machine, and whom it runs as."""

import os
import pwd
import shutil
from pathlib import Path

from warrener_runtime.servers.errors import ServerMissing


def programs() -> Path:
    """The folder of initdb, postgres and psql; Debian keeps each version in one of its own, off PATH."""
    named = os.environ.get("WARRENER_POSTGRES_BIN")
    for folder in [Path(named)] if named else [*_newest_first(), *_on_path()]:
        if all((folder / program).exists() for program in ("initdb", "postgres", "psql")):
            return folder
    raise ServerMissing(
        "expected PostgreSQL's initdb, postgres and psql, got none; install it "
        "(Debian, Ubuntu: apt-get install postgresql) or set WARRENER_POSTGRES_BIN to the folder with them"
    )


def account() -> str | None:
    """Whom to become because PostgreSQL refuses to run as root; None where we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise ServerMissing(
        "expected a user postgres or nobody to run PostgreSQL as, got neither; do not run this as root"
    )


def group_of(user: str | None) -> int | None:
    """The user's own group."""
    return None if user is None else pwd.getpwnam(user).pw_gid


def _newest_first() -> list[Path]:
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted(folders, key=lambda folder: float(folder.parent.name), reverse=True)


def _on_path() -> list[Path]:
    found = shutil.which("initdb")
    return [Path(found).resolve().parent] if found else []
