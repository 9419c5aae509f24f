"""The folder of a PostgreSQL: made once, whole or not at all."""

import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from warrener_runtime.servers.errors import ServerFailed
from warrener_runtime.servers.postgres_install import group_of

OWNER = "warrener"
_MAKE_WITHIN = 120  # seconds


@dataclass(frozen=True, slots=True)
class PostgresCluster:
    """What a server keeps in `folder`; files belong to `account` (None: to us)."""

    folder: Path
    programs: Path
    account: str | None

    @property
    def data(self) -> Path:
        """What PostgreSQL calls the data directory."""
        return self.folder / "data"

    @property
    def pid_file(self) -> Path:
        """Where a running server says how it is."""
        return self.data / "postmaster.pid"

    @property
    def log(self) -> Path:
        """Where the server writes what it has to say."""
        return self.folder / "server.log"

    def password(self) -> str:
        """The owner's password."""
        return self._password_file.read_text(encoding="ascii").strip()

    def make(self) -> None:
        """Make the cluster unless there is one."""
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
        shutil.rmtree(unfinished, ignore_errors=True)  # of an initdb that was interrupted
        done = subprocess.run(  # noqa: S603 - a list of our own words, and no shell
            [
                *(self.programs / "initdb", "-D", unfinished, "-U", OWNER, f"--pwfile={self._password_file}"),
                *(
                    "--auth-local=reject",
                    "--auth-host=scram-sha-256",
                    "-E",
                    "UTF8",
                    "--locale=C.UTF-8",
                    "--no-sync",
                ),
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
