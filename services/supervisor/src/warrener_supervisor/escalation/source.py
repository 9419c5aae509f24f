"""Where the ladders come from: a file that is read again when it changes, or none."""

from pathlib import Path

from warrener_runtime.logs import get_logger
from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation.loading import read
from warrener_supervisor.escalation.model import Escalation

_log = get_logger("escalation")


class LadderFile:
    """The ladders as they stand in a file now. Raises SettingsError at once if it cannot be used; a later
    mistake in it is told, and what was there before goes on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen = self._written()
        self._escalation = read(path) if path else Escalation()

    def current(self) -> Escalation:
        """Asks the file system whether the file has changed."""
        written = self._written()
        if self._path is not None and written != self._seen:
            self._seen = written
            self._reload(self._path)
        return self._escalation

    def force_reload(self) -> None:
        """Whatever the file system says of it."""
        if self._path is not None:
            self._seen = self._written()
            self._reload(self._path)

    def _reload(self, path: Path) -> None:
        try:
            self._escalation = read(path)
        except SettingsError as error:
            _log.error(
                "The escalation file cannot be used as it is now; the ladders of before go on.",
                action="escalation.bad_file",
                problems=list(error.problems),
            )
        else:
            _log.info(
                "The escalation file was read again.",
                action="escalation.reloaded",
                ladders=[ladder.name for ladder in self._escalation.ladders],
            )

    def _written(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None
