"""The folder of one `warrener up`: its data, its lock, and the endpoints that other commands find there."""

import fcntl
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from warrener.errors import CommandError
from warrener_runtime.running_up import DEFAULT_FOLDER, ENDPOINTS_FILE, LOCK_FILE, Endpoints, find_holder
from warrener_runtime.secret_files import write_secret_file


class DataFolder:
    """`.warrener/`: state, ledger, the broker's data, lock and endpoints."""

    def __init__(self, path: Path = Path(DEFAULT_FOLDER)) -> None:
        self.path = path
        self._lock = path / LOCK_FILE
        self._endpoints = path / ENDPOINTS_FILE
        self._port, self._password = path / "broker.port", path / "broker.password"

    @property
    def broker(self) -> Path:
        return self.path / "broker"

    @property
    def state_url(self) -> str:
        return f"sqlite:///{(self.path / 'state.db').absolute()}"

    @property
    def ledger_url(self) -> str:
        return f"sqlite:///{(self.path / 'ledger.db').absolute()}"

    def make(self) -> None:
        """Create the folder, ignored by git. It is its owner's alone, with all in it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)  # also one that is there
        except OSError as error:
            raise CommandError(
                f"expected a folder {self.path} of our own, got: {error.strerror}",
                do="choose another folder with --data",
            ) from error
        # SQLite gives its other files the modes of these.
        for name in (".gitignore", LOCK_FILE, "state.db", "ledger.db", "ledger.db-claims"):
            (self.path / name).touch(mode=0o600)
        (self.path / ".gitignore").write_text("*\n", encoding="ascii")

    def broker_password(self) -> str:
        """The password of the private broker, made at the first start."""
        if not self._password.exists():
            write_secret_file(self._password, secrets.token_urlsafe(24).replace("-", "x").replace("_", "y"))
        return self._password.read_text(encoding="ascii")

    @contextmanager
    def hold(self) -> Generator[None]:
        """Lock the folder until the process ends. Raises CommandError if another `up` has it."""
        self.make()
        with self._lock.open("a+", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = find_holder(self.path)
                raise CommandError(
                    f"expected a free folder {self.path}, got one held by `warrener up` ({holder})",
                    do="use what runs there, stop it with Ctrl-C, or choose another folder with --data",
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                self._endpoints.unlink(missing_ok=True)

    def announce(self, endpoints: Endpoints) -> None:
        """Write the endpoints for other commands, atomically."""
        document = {field.name: getattr(endpoints, field.name) for field in fields(Endpoints)}
        write_secret_file(self._endpoints, json.dumps(document, indent=2))

    def broker_port(self) -> int | None:
        """Stored port of the private broker, which an exported URL may name."""
        try:
            return int(self._port.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def save_broker_port(self, port: int) -> None:
        write_secret_file(self._port, str(port))
