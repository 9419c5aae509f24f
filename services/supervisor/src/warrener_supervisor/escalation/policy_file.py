"""Read the escalation file, and read it again when it changes."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger
from warrener_supervisor.escalation.policy import Escalation
from warrener_supervisor.escalation.policy_checks import PolicyFileError, check_file

_log = get_logger("escalation")


class EscalationFile:
    """The current contents of the file.

    Raises PolicyFileError at once if it cannot be used; a later mistake is logged, and the contents before
    it stay.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen = self._written()
        self._escalation = read(path) if path else Escalation()

    def current(self) -> Escalation:
        """Return the contents, after reading the file again if it has changed."""
        written = self._written()
        if self._path is not None and written != self._seen:
            self._seen = written
            self._reload(self._path)
        return self._escalation

    def force_reload(self) -> None:
        """Read the file again, even if it seems unchanged."""
        if self._path is not None:
            self._seen = self._written()
            self._reload(self._path)

    def _reload(self, path: Path) -> None:
        try:
            self._escalation = read(path)
        except PolicyFileError as error:
            _log.error(
                "The escalation file cannot be used; the policies read before stay in force.",
                action="escalation.bad_file",
                problems=list(error.problems),
            )
        else:
            _log.info(
                "The escalation file was read again.",
                action="escalation.reloaded",
                policies=[policy.name for policy in self._escalation.policies],
            )

    def _written(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None


class ReloadOnSignal(ManagedComponent):
    """Calls `then` at each SIGHUP, which no longer ends the process. In the main thread alone."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__("hang-up")
        self._then = then

    async def _on_start(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._then)

    async def _on_stop(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


def read(path: Path) -> Escalation:
    """Read the file at `path`. Raises PolicyFileError."""
    try:
        return check_file(path.read_text(encoding="utf-8"), os.environ)
    except (OSError, UnicodeDecodeError) as error:
        problem = f"expected a file that can be read, got {str(path)!r} ({error})"
        raise PolicyFileError("WARRENER_SUPERVISOR_ESCALATION_FILE", problem, "correct the path") from error
    except PolicyFileError as error:
        raise PolicyFileError(error.key, error.problem, error.remedy, path) from None
