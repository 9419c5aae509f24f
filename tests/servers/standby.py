"""A standby of PostgreSQL: a copy that follows its primary, answers readers and refuses every write."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.kinds import PostgresServer
from tests.servers.postgres import PostgresCluster, PrivatePostgres, account, group_of, programs

from warrener_devservers import ServerFailed, ServerMissing

_COPIED_WITHIN = 120  # seconds


@dataclass(frozen=True, slots=True)
class _Copy(PostgresCluster):
    """The files of a standby, copied from the primary at `source`."""

    source: PostgresServer

    def _initialise(self) -> None:
        self._password_file.write_text(urlsplit(self.source.url).password or "", encoding="ascii")
        unfinished = self.folder / "unfinished"
        done = subprocess.run(
            [
                *(str(self.programs / "pg_basebackup"), "-D", str(unfinished), "-R", "-X", "stream"),
                *("-c", "fast", "--no-sync"),
                *("-d", f"{self.source.url}?application_name=standby"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=_COPIED_WITHIN,
            cwd=self.folder,
            user=self.account,
            group=group_of(self.account),
            extra_groups=[] if self.account else None,
        )
        if done.returncode:
            raise ServerFailed(f"expected pg_basebackup to copy the primary, got: {done.stderr.strip()}")
        unfinished.rename(self.data)


class StandbyPostgres(PrivatePostgres):
    """A private server that follows `primary`, which must run when this is started for the first time.

    It has the primary's owner and password. `promote` makes it a primary of its own.
    """

    def __init__(self, folder: Path, primary: PostgresServer) -> None:
        if not isinstance(primary, PrivatePostgres):
            raise ServerMissing("expected a private PostgreSQL as the primary of a standby, got a container")
        super().__init__(folder)
        self._cluster = _Copy(folder.absolute(), programs(), account(), primary)
        self._spec = self._guard_spec()

    def promote(self) -> None:
        """Let it take writes; returns when it does."""
        if self.execute("SELECT pg_promote(true, 60)") != "t":
            raise ServerFailed("expected the standby to be promoted within 60 s, got none")

    def has_followed(self, primary: PostgresServer) -> bool:
        """True once it has replayed all that the primary has written by now."""
        written = primary.execute("SELECT pg_current_wal_lsn()")
        return self.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == "t"
