"""PostgreSQL as a child process: its installation, its cluster, and its commands."""

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from warrener_devservers.process import GuardSpec, PrivateServer, ServerFailed, ServerMissing, free_block

_DATABASE_NAME = re.compile(r"[a-z][a-z0-9_]*")
OWNER = "warrener"
_MAKE_WITHIN = 120  # seconds
_START_WITHIN = 60.0  # seconds
_STOP_WITHIN = 30.0
_ANSWER_WITHIN = 60.0
_STATUS_LINE = 7  # of postmaster.pid, counted from 0; the same that pg_ctl waits for
_READY = ("ready", "standby")  # a standby answers readers

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
}

# A killed server loses nothing, as the kernel has the pages; a crashed machine may.
_UNSYNCED = {"fsync": "off", "full_page_writes": "off"}


def programs() -> Path:
    """Find the folder of initdb, postgres and psql; Debian has one per version, off PATH."""
    named = os.environ.get("WARRENER_POSTGRES_BIN")
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(versions, key=lambda folder: float(folder.parent.name), reverse=True)
    on_path = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    for folder in [Path(named)] if named else [*newest_first, *on_path]:
        if all((folder / program).exists() for program in ("initdb", "postgres", "psql")):
            return folder
    raise ServerMissing(
        "expected PostgreSQL's initdb, postgres and psql, got none; install it "
        "(Debian, Ubuntu: apt-get install postgresql) or set WARRENER_POSTGRES_BIN to the folder with them"
    )


def account() -> str | None:
    """The user to run PostgreSQL as, which refuses root; None if we are not root."""
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
    return None if user is None else pwd.getpwnam(user).pw_gid


class PostgresCommands(ABC):
    """The commands of a server that runs SQL for us."""

    @abstractmethod
    def url_of(self, database: str) -> str:
        """Return the URL of one database."""

    @abstractmethod
    def execute(self, statement: str) -> str:
        """Run one statement by psql; return its output. Raises ServerFailed."""

    def add_database(self, name: str, template: str = "template1") -> str:
        """Add a database, a copy of `template`, which must have no connections; return its URL. Takes 40
        ms."""
        self.execute(f'CREATE DATABASE "{_checked(name)}" TEMPLATE "{_checked(template)}"')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Delete a database; its connections are closed."""
        self.execute(f'DROP DATABASE IF EXISTS "{_checked(name)}" WITH (FORCE)')


def _checked(name: str) -> str:
    if not _DATABASE_NAME.fullmatch(name):
        raise ValueError(f"expected a database name of a-z, 0-9 and '_', got {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class PostgresCluster:
    """The files of a server in `folder`, owned by `account` (None: by us); made whole or not at all."""

    folder: Path
    programs: Path
    account: str | None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid_file(self) -> Path:
        """The file with a running server's status."""
        return self.data / "postmaster.pid"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def password(self) -> str:
        return self._password_file.read_text(encoding="ascii").strip()

    def make(self) -> None:
        """Make the cluster unless it exists."""
        if self.data.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._password_file.exists():
            self._password_file.write_text(secrets.token_hex(16), encoding="ascii")
            self._password_file.chmod(0o600)
        if self.account is not None:
            self._give_to(self.account)
        self._initialise()

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _give_to(self, account: str) -> None:
        for path in (self.folder, self._password_file):
            shutil.chown(path, account)
        for parent in self.folder.parents:
            if not parent.stat().st_mode & 0o001:
                raise ServerFailed(
                    f"expected a folder that the user {account} may enter, because PostgreSQL refuses "
                    f"to run as root, got {self.folder} below {parent}; "
                    f"choose another folder, or chmod o+x {parent}"
                )

    def _initialise(self) -> None:
        unfinished = self.folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)  # of an interrupted initdb
        done = subprocess.run(
            [
                *(self.programs / "initdb", "-D", unfinished, "-U", OWNER, f"--pwfile={self._password_file}"),
                "--auth-local=reject",
                "--auth-host=scram-sha-256",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=_MAKE_WITHIN,
            cwd=self.folder,
            user=self.account,
            group=group_of(self.account),
            extra_groups=[] if self.account else None,
        )
        if done.returncode:
            raise ServerFailed(
                f"expected initdb to make a cluster in {self.folder}, got: {done.stderr.strip()}"
            )
        unfinished.rename(self.data)


class PrivatePostgres(PostgresCommands, PrivateServer):
    """A private PostgreSQL on 127.0.0.1, never as root: if we are root, it runs as another user.

    `start` returns when it accepts connections. Its data survives `stop` and `kill`, not a crash of the
    machine unless it is `durable`. It ends with `stop`, or when this process dies in any way.
    """

    def __init__(
        self, folder: Path, *, durable: bool = False, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`durable`: fsync is on, as in production. `settings`: more of postgresql.conf."""
        self._settings = _SETTINGS | ({} if durable else _UNSYNCED) | dict(settings)
        self._cluster = PostgresCluster(folder.absolute(), programs(), account())
        self._port = free_block((0,))
        super().__init__(f"PostgreSQL in {folder}", self._guard_spec())

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The URL of the database `postgres`, as its owner."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://{OWNER}:{self._cluster.password()}@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        """Make the cluster if there is none, start the server, and wait until it accepts connections."""
        if self.running:
            return
        self._cluster.make()
        self._cluster.pid_file.unlink(missing_ok=True)  # of a killed one: its process id may be reused
        self.launch(self._is_ready, _START_WITHIN)

    def stop(self) -> None:
        """Stop the server in order, without waiting for its clients."""
        self.end(signal.SIGINT, _STOP_WITHIN)

    def execute(self, statement: str) -> str:
        psql = [str(self._cluster.programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*psql, "-d", self.url, "-c", statement],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_WITHIN,
        )
        if done.returncode:
            raise ServerFailed(f"expected PostgreSQL to run {statement!r}, got: {done.stderr.strip()}")
        return done.stdout.strip()

    def _guard_spec(self) -> GuardSpec:
        cluster = self._cluster
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        server = [str(cluster.programs / "postgres"), "-D", str(cluster.data), "-p", str(self._port)]
        return GuardSpec(
            commands=[[*server, *settings]],
            environment={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
            folder=str(cluster.folder),
            log=str(cluster.log),
            user=cluster.account,
            group=group_of(cluster.account),
        )

    def _is_ready(self) -> bool:
        try:
            lines = self._cluster.pid_file.read_text(encoding="ascii").splitlines()
        except OSError:
            return False
        return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() in _READY
