"""What can go wrong with a private server."""

from pathlib import Path

_LINES = 12


class ServerError(Exception):
    """A private server could not do what was asked."""


class ServerMissing(ServerError):
    """The server's program is not installed; the text names the package that brings it."""


class ServerFailed(ServerError):
    """The server is installed, but did not start, stop or answer."""


def with_log(sentence: str, log: Path, since: int) -> str:
    """The sentence, and what the log says of it: the first errors after byte `since`, or else its last lines.

    The first ones, because a server that fails to start reports the cause first and then every consequence.
    """
    if not log.exists():
        return sentence
    lines = log.read_bytes()[since:].decode(errors="replace").splitlines()
    errors = [line for line in lines if "error" in line.lower() or "FATAL" in line]
    excerpt = errors[:_LINES] or lines[-_LINES:]
    return "\n".join([f"{sentence} From {log}:", *excerpt]) if excerpt else sentence
