"""Secrets in files: `WARRENER_BROKER_URL_FILE=/run/credentials/…` in place of `WARRENER_BROKER_URL`.

So no password stands in an environment, which child processes inherit and `docker inspect` prints.
"""

import stat
from collections.abc import Mapping
from pathlib import Path

SUFFIX = "_file"
_SECRET_ENDINGS = ("_url", "_secret", "_password", "_tokens", "_token")
_OF_CONTAINER = ("/run/secrets", "/var/run/secrets", "/run/credentials")
"""Folders of files for one container or unit alone, which Docker makes readable by all in it."""


class SecretFileError(ValueError):
    """A secret cannot be read from its file; the text names the setting and contains no secret."""


def may_hold_secret(field: str) -> bool:
    """True if the setting's value may come from a file: URLs, which may hold passwords, and secrets."""
    return field.lower().endswith(_SECRET_ENDINGS)


def read_secret_file(setting: str, file: str) -> str:
    """Read the file that `setting` names; a line break at its end is none of the secret. Raises
    SecretFileError."""
    try:
        text = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
        problem = f"{setting}: expected a file that this user can read, got {file!r} ({why}); correct it"
        raise SecretFileError(problem) from error
    if not text:
        raise SecretFileError(f"{setting}: expected a file with a value, got an empty one; fill {file!r}")
    return text


def read_secret(variable: str, environment: Mapping[str, str]) -> str | None:
    """Return the value of a variable, or the contents of the file that `<variable>_FILE` names. Raises
    SecretFileError, also if both are set."""
    value, name = environment.get(variable), f"{variable}{SUFFIX.upper()}"
    if not (file := environment.get(name)):
        return value or None
    if value:
        raise SecretFileError(f"expected {variable} or {name}, got both; unset one of them")
    return read_secret_file(name, file)


def write_secret_file(file: Path, text: str) -> None:
    """Write a file for its owner alone, atomically; one that is there keeps its mode."""
    draft = file.with_name(f"{file.name}.new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    if file.exists():
        draft.chmod(stat.S_IMODE(file.stat().st_mode))  # its reader may be another user of its group
    draft.replace(file)


def exposure(setting: str, file: str) -> str | None:
    """Say so if each user of the machine may read the file, wherever it cannot be one container's."""
    path = Path(file).resolve()
    try:
        open_to_all = path.stat().st_mode & stat.S_IROTH
    except OSError:
        return None
    if not open_to_all or any(path.is_relative_to(folder) for folder in _OF_CONTAINER):
        return None
    return f"{setting} names a file that each user of this machine can read: chmod 600 {path}"
