"""The folder of one `warrener up`: what it keeps, who holds it, and where the others find it."""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from warrener.errors import CommandError
from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE

DEFAULT_FOLDER = ".warrener"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the other commands find what `up` runs."""

    broker_url: str
    store_url: str
    ledger_url: str
    namespace: str = DEFAULT_NAMESPACE


class DataFolder:
    """`.warrener/`: state, ledger, the broker's data, and the files by which commands find each other."""

    def __init__(self, path: Path = Path(DEFAULT_FOLDER)) -> None:
        self.path = path
        self._lock = path / "up.lock"
        self._endpoints = path / "endpoints.json"
        self._port = path / "broker.port"

    @property
    def broker(self) -> Path:
        """Where the private broker keeps its data."""
        return self.path / "broker"

    @property
    def state_url(self) -> str:
        """The state store that `up` makes."""
        return f"sqlite:///{(self.path / 'state.db').absolute()}"

    @property
    def ledger_url(self) -> str:
        """The ledger that `up` makes."""
        return f"sqlite:///{(self.path / 'ledger.db').absolute()}"

    def make(self) -> None:
        """It is there, and git leaves it alone."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / ".gitignore").write_text("*\n", encoding="ascii")

    @contextmanager
    def hold(self) -> Generator[None]:
        """Be the only `up` of this folder. The lock goes with the process, however it ends."""
        self.make()
        with self._lock.open("a+", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CommandError(
                    f"expected a free folder {self.path}, got one held by `warrener up` ({self.holder()})",
                    do="use what runs there, stop it with Ctrl-C, or choose another folder with --data",
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                self._endpoints.unlink(missing_ok=True)

    def holder(self) -> int | None:
        """The process that holds the folder now; None if nobody does."""
        try:
            with self._lock.open("r", encoding="ascii") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    return int(lock.read() or 0)
        except FileNotFoundError:
            pass
        return None

    def announce(self, endpoints: Endpoints) -> None:
        """Let the other commands find it; written whole or not at all."""
        fresh = self._endpoints.with_suffix(".new")
        fresh.touch(mode=0o600)  # the URLs may hold passwords
        fresh.write_text(json.dumps(asdict(endpoints), indent=2), encoding="utf-8")
        fresh.replace(self._endpoints)

    def endpoints(self) -> Endpoints | None:
        """What was announced, if it can be read."""
        try:
            return Endpoints(**json.loads(self._endpoints.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def broker_port(self) -> int | None:
        """The port of the private broker that was here before: its data belongs to it."""
        try:
            return int(self._port.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def save_broker_port(self, port: int) -> None:
        """Remember it for the next time."""
        self._port.write_text(str(port), encoding="ascii")
