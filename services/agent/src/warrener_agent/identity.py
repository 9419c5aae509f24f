"""The identity of an agent, which survives a restart, and the version of the code that it serves.

An agent that dies leaves claims that hold until their leases are over. An agent started in its place, in the
same folder, takes up its identity and need not wait: it reports the attempts of the dead process as lost as
soon as they are delivered again (`Ledger.fail_abandoned`). The previous agent is certainly dead: its identity
is a file that it has locked, and the kernel releases the lock only with the process. A frozen agent still
holds it.
"""

import fcntl
import hashlib
import os
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import IO

from warrener_contracts.topology import agent_id_of
from warrener_runtime.clock import Entropy
from warrener_runtime.logs import get_logger

_log = get_logger("agent.identity")

_MAX_IDENTITIES = 1000
_INSTALLED = ("site-packages", "dist-packages")
_OWN = "warrener_agent"
_WELL_FORMED = re.compile(r"[A-Za-z0-9-]{1,70}")


class Identity:
    """An agent's name, and the lock that keeps it from other agents."""

    def __init__(self, agent_id: str, file: IO[str] | None = None) -> None:
        self.agent_id = agent_id
        self._file = file

    async def release(self) -> None:
        """Let another agent have it. May be called twice."""
        if self._file is not None:
            self._file.close()


def new_agent_id(entropy: Entropy, user: str | None = None) -> str:
    """Make a new id for an agent of this user of the broker."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:50]
    return agent_id_of(user, f"{host}-{os.getpid()}-{entropy.new_id().hex[-8:]}")


def default_identity_folder(ledger_url: str) -> Path:
    """Return the folder of identities where the settings name none."""
    scheme, _, path = ledger_url.partition(":///")
    return (Path(path).parent if scheme == "sqlite" and path else Path(".warrener")) / "agents"


def acquire_identity(
    folder: Path, queues: Sequence[str], entropy: Entropy, user: str | None = None
) -> Identity:
    """Return the first free identity of `folder` that served the same queues, or else a new one. One of
    another user of the broker, or that names none, is replaced.

    If no file can be written or locked, the identity is new, and no agent will take it up.
    """
    served = hashlib.sha256("\n".join(sorted(queues)).encode()).hexdigest()[:8]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(_MAX_IDENTITIES):
            if (file := _lock_file(folder / f"{served}-{number}")) is not None:
                return _read_or_create(file, entropy, user)
    except OSError as error:
        _log.warning(
            "The agent's identity could not be stored: after a restart the agent will have another one, and "
            "its attempts will wait until their leases are over.",
            action="agent.identity_not_stored",
            folder=str(folder),
            error=str(error),
        )
    return Identity(new_agent_id(entropy, user))


def _lock_file(path: Path) -> IO[str] | None:
    """Return the locked file; None if another process has it. Raises OSError if locks do not work."""
    path.touch(mode=0o600)  # who writes another id into it sends this agent's events under that
    file = path.open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with closing(file):
            return None
    except OSError:
        file.close()
        raise
    return file


def _read_or_create(file: IO[str], entropy: Entropy, user: str | None) -> Identity:
    file.seek(0)
    stored_id = file.read()
    name = stored_id.rpartition("@")[2]
    if _WELL_FORMED.fullmatch(name) and stored_id == agent_id_of(user, name):
        _log.info("The agent took up its earlier identity.", action="agent.resumed", agent_id=stored_id)
        return Identity(stored_id, file)
    fresh = new_agent_id(entropy, user)
    file.truncate(0)
    file.write(fresh)
    file.flush()
    return Identity(fresh, file)


def find_code_version(handler_modules: Iterable[str]) -> str | None:
    """Return the version of the distribution with most of these modules; None if none is installed."""
    packages = Counter(module.partition(".")[0] for module in handler_modules)
    del packages[_OWN]  # a program's handler is ours
    return next((found for name, _ in packages.most_common() if (found := _package_version(name))), None)


def _package_version(package: str) -> str | None:
    """Return the version of the distribution of a top-level package.

    Most are named alike. The list of all packages takes a tenth of a second to make, so it is read only for
    a module that is certainly installed.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        file = getattr(sys.modules.get(package), "__file__", None) or ""
        if not any(folder in file for folder in _INSTALLED):
            return None
        distributions = packages_distributions().get(package, [])
        return version(distributions[0]) if distributions else None
