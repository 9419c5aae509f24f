"""What can go wrong with a private server."""

from pathlib import Path

_TAIL = 2000  # characters; enough for the last error of a server's log


class ServerError(Exception):
    """A private server could not do what was asked."""


class ServerMissing(ServerError):
    """The server's program is not installed; the text names the package that brings it."""


class ServerFailed(ServerError):
    """The server is installed, but did not start, stop or answer."""


def with_log(sentence: str, log: Path) -> str:
    """The sentence, and the end of the log that explains it."""
    if not log.exists():
        return sentence
    tail = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
    return f"{sentence} The end of {log}:\n{tail}" if tail else sentence
