"""Which servers the tests run on: WARRENER_TEST_SERVERS is private, containers, auto, or a release of Debian.

auto, the default, takes private processes, which start in seconds, where the programs are installed; and else
containers, where a Docker engine answers. A test that can have neither is skipped and says what both lack.
trixie and sid take the RabbitMQ of that release, 4.0 and 4.3, in a root folder with its package, which a node
of ours runs in: without Docker and without an image registry. A root takes half a minute and 200 MB, and is
made once: it is kept in ~/.cache/warrener."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.servers.kinds import PostgresServer, RabbitMQServer, Servers
from tests.servers.postgres import PrivatePostgres

from warrener_devservers import PrivateRabbitMQ, RabbitMQInstallation, ServerMissing

SUITES = ("trixie", "sid")  # RabbitMQ 4.0, and 4.3 or what has followed it
_MADE_WITHIN = 900  # seconds
# sid's Release file may be past its date where a mirror is a snapshot; the signature is checked all the same.
_APT = ("--aptopt", 'Acquire::Check-Valid-Until "false"')


def _debian_rabbitmq(suite: str, folder: Path) -> RabbitMQServer:
    root = _root(suite)
    own = RabbitMQInstallation.of_this_machine()  # for its epmd, which speaks with every version
    installation = RabbitMQInstallation(epmd=own.epmd, prefix=_inside(root, folder))
    return PrivateRabbitMQ(folder, installation=installation)


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


CHOICE = "WARRENER_TEST_SERVERS"
POSTGRES_SETTINGS = {"autovacuum": "off"}
"""Each test has a database of its own, and the server would start a process for one after another of them."""
S = TypeVar("S")


def _private_postgres(folder: Path) -> PostgresServer:
    return PrivatePostgres(folder, settings=POSTGRES_SETTINGS)


def _container_rabbitmq(_: Path) -> RabbitMQServer:
    # Half a second of imports, which most test runs need not spend.
    from tests.servers.containers import ContainerRabbitMQ, check_engine  # noqa: PLC0415

    check_engine()
    return ContainerRabbitMQ()


def _container_postgres(_: Path) -> PostgresServer:
    from tests.servers.containers import ContainerPostgres, check_engine  # noqa: PLC0415 - as above

    check_engine()
    return ContainerPostgres()


KINDS = {
    "private": Servers(PrivateRabbitMQ, _private_postgres),
    "containers": Servers(_container_rabbitmq, _container_postgres),
    **{suite: Servers(partial(_debian_rabbitmq, suite), PrivatePostgres) for suite in SUITES},
    "auto": Servers(
        lambda folder: first_of(partial(PrivateRabbitMQ, folder), partial(_container_rabbitmq, folder)),
        lambda folder: first_of(partial(_private_postgres, folder), partial(_container_postgres, folder)),
    ),
}


def chosen_servers() -> Servers:
    """The servers that the environment names."""
    choice = os.environ.get(CHOICE, "auto")
    if choice not in KINDS:
        raise ValueError(f"expected {CHOICE} to be one of {', '.join(KINDS)}, got {choice!r}; correct it")
    return KINDS[choice]


def first_of(first: Callable[[], S], second: Callable[[], S]) -> S:
    """The first of both that can be had; ServerMissing, with what both lack."""
    try:
        return first()
    except ServerMissing as one:
        try:
            return second()
        except ServerMissing as other:
            raise ServerMissing(f"{one}; or: {other}") from other
