"""RabbitMQ of another Debian release: a root folder with its package, which a node of ours runs in.

So versions that the distribution of this machine does not have are tested without Docker and without an image
registry. A root takes half a minute and 200 MB, and is made once: it is kept in ~/.cache/warrener.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.kinds import PostgresServer, RabbitMQServer

from warrener_devservers import PrivatePostgres, PrivateRabbitMQ, RabbitMQInstallation, ServerMissing

SUITES = ("trixie", "sid")  # RabbitMQ 4.0, and 4.3 or what has followed it
_MADE_WITHIN = 900  # seconds
# sid's Release file may be past its date where a mirror is a snapshot; the signature is checked all the same.
_APT = ("--aptopt", 'Acquire::Check-Valid-Until "false"')


@dataclass(frozen=True, slots=True)
class DebianServers:
    """RabbitMQ of `suite`; PostgreSQL is this machine's own."""

    suite: str

    def rabbitmq(self, folder: Path) -> RabbitMQServer:
        root = _root(self.suite)
        own = RabbitMQInstallation.of_this_machine()  # for its epmd, which speaks with every version
        return PrivateRabbitMQ(
            folder, installation=RabbitMQInstallation(epmd=own.epmd, prefix=_inside(root, folder))
        )

    def postgres(self, folder: Path) -> PostgresServer:
        return PrivatePostgres(folder)


def _inside(root: Path, folder: Path) -> tuple[str, ...]:
    """The command that runs another one in `root`, where it may write in `folder` alone."""
    seen = (
        "--ro-bind",
        str(root),
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/run",
    )
    return ("bwrap", "--die-with-parent", *seen, "--bind", str(folder), str(folder), "--chdir", str(folder))


def _root(suite: str) -> Path:
    """The root folder of a suite, made if there is none."""
    for program, package in (("mmdebstrap", "mmdebstrap"), ("bwrap", "bubblewrap")):
        if shutil.which(program) is None:
            raise ServerMissing(
                f"expected {program} for RabbitMQ of {suite}, got none; apt-get install {package}"
            )
    if os.geteuid() != 0:
        raise ServerMissing(
            f"expected root to make a root folder of {suite}, got user {os.geteuid()}; run as root"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "warrener"
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / f"debian-{suite}"
    with _alone(cache / f"debian-{suite}.lock"):
        if not root.exists():
            _make(suite, root)
    return root


def _make(suite: str, root: Path) -> None:
    unfinished = root.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = ["mmdebstrap", "--variant=minbase", "--include=rabbitmq-server", *_APT, suite, str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MADE_WITHIN)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise ServerMissing(
            f"expected mmdebstrap to make a root of {suite}, got: {last}; is a mirror reachable?"
        )
    shutil.copy("/etc/hosts", unfinished / "etc/hosts")  # Erlang looks for localhost in it
    unfinished.rename(root)


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    """Two test runs at once make one root."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
