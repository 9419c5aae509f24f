"""PgBouncer of this machine in front of a private PostgreSQL, in transaction mode."""

import os
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.faults.postgres_proxy import by_way_of
from tests.servers.kinds import PostgresServer

from warrener_devservers import ServerMissing
from warrener_devservers.postgres import account, group_of
from warrener_devservers.process import GuardedProcess, GuardSpec, free_block

_START_WITHIN = 30.0  # seconds
_STOP_WITHIN = 10.0

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
pool_mode = transaction
ignore_startup_parameters = {ignored}
"""


class PgBouncer:
    """A pooler that drops these startup parameters, and refuses a client that sends others."""

    def __init__(self, folder: Path, server: PostgresServer, ignored: Sequence[str] = ()) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if program is None:
            raise ServerMissing("expected pgbouncer, got none; apt-get install pgbouncer")
        self.port = free_block((0,))
        owner = urlsplit(server.url)
        folder.mkdir()
        settings = _SETTINGS.format(server=server.port, port=self.port, ignored=",".join(ignored))
        (folder / "settings").write_text(settings)
        (folder / "users").write_text(f'"{owner.username}" "{owner.password}"\n')
        for path in (folder, folder / "settings", folder / "users"):
            shutil.chown(path, account() or os.geteuid())
        self._processes = GuardedProcess(
            f"PgBouncer in {folder}",
            GuardSpec(
                commands=[[program, "settings"]],
                environment={"PATH": os.environ.get("PATH", os.defpath)},
                folder=str(folder),
                log=str(folder / "log"),
                user=account(),
                group=group_of(account()),
            ),
        )

    def start(self) -> None:
        """Start it; returns when it accepts connections."""
        self._processes.launch(self._accepts, _START_WITHIN)

    def stop(self) -> None:
        """End it, and its connections."""
        self._processes.end(signal.SIGTERM, _STOP_WITHIN)

    def url(self, url: str) -> str:
        """The server's url, by way of the pooler."""
        return by_way_of(url, self.port)

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
