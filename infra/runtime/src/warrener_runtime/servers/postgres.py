"""PostgreSQL as a child process."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from warrener_runtime.servers.errors import ServerFailed
from warrener_runtime.servers.guard_spec import GuardSpec
from warrener_runtime.servers.guarded_process import GuardedProcess
from warrener_runtime.servers.ports import free_block
from warrener_runtime.servers.postgres_cluster import OWNER, PostgresCluster
from warrener_runtime.servers.postgres_commands import PostgresCommands
from warrener_runtime.servers.postgres_install import account, group_of, programs

_START_WITHIN = 60.0  # seconds
_STOP_WITHIN = 30.0
_ANSWER_WITHIN = 60.0
_STATUS_LINE = 7  # of postmaster.pid, counted from 0; the same that pg_ctl waits for

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
}
# A killed server loses nothing (the kernel has the pages), a crashed machine may. It serves tests.
_UNSYNCED = {"fsync": "off", "full_page_writes": "off"}


class PrivatePostgres(PostgresCommands):
    """A PostgreSQL of one's own on 127.0.0.1, never as root: where we are root, it runs as another user.

    `start` returns when it takes connections. Its data survives `stop` and `kill`, not a crash of the
    machine unless it is `durable`. It ends with `stop`, or when this process dies in whatever way.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        durable: bool = False,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`durable`: fsync is on, as in production. `settings`: more of postgresql.conf."""
        self._settings = _SETTINGS | ({} if durable else _UNSYNCED) | dict(settings)
        self._cluster = PostgresCluster(folder.absolute(), programs(), account())
        self._port = port or free_block((0,))
        self._processes = GuardedProcess(f"PostgreSQL in {folder}", self._spec())

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    @property
    def url(self) -> str:
        """Its database `postgres`, as the owner of everything."""
        return self.url_of("postgres")

    @property
    def log(self) -> Path:
        """All that the server says."""
        return self._cluster.log

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._processes.running

    def url_of(self, database: str) -> str:
        """The URL of one database."""
        return f"postgresql://{OWNER}:{self._cluster.password()}@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        """Make the cluster if there is none, start, and wait until it takes connections."""
        if self.running:
            return
        self._cluster.make()
        self._cluster.pid_file.unlink(missing_ok=True)  # of a killed one: its process id may be another's now
        self._processes.start(self._is_ready, _START_WITHIN)

    def stop(self) -> None:
        """End it in order, without waiting for its clients."""
        self._processes.stop(signal.SIGINT, _STOP_WITHIN)

    def kill(self) -> None:
        """SIGKILL to all of its processes."""
        self._processes.kill()

    def remove(self) -> None:
        """SIGKILL, and its folder with all that it kept."""
        self.kill()
        shutil.rmtree(self._cluster.folder, ignore_errors=True)

    def restart(self) -> None:
        """Stop and start; every connection is closed."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers."""
        self._processes.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._processes.resume()

    def execute(self, statement: str) -> str:
        """Run one statement by psql; what it prints."""
        psql = [str(self._cluster.programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(  # noqa: S603 - a list of our own words, and no shell
            [*psql, "-d", self.url, "-c", statement],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_WITHIN,
        )
        if done.returncode:
            raise ServerFailed(f"expected PostgreSQL to run {statement!r}, got: {done.stderr.strip()}")
        return done.stdout.strip()

    def _spec(self) -> GuardSpec:
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
        return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready"
