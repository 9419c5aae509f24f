"""`warrener keys` makes keys that encrypt payloads, and keys that sign requests."""

import json
import os
import re
from base64 import b64encode
from pathlib import Path

from warrener.errors import CommandError, UsageError
from warrener.options import argument, flag, option
from warrener_runtime.secret_files import write_secret_file


def keys(
    key_id: str = argument("Name of the key, such as 2026-11 or the name of a program.", "ID"),
    *,
    signing: bool = flag("--signing", "Make a key that signs requests, in place of one that encrypts."),
    job_type: list[str] | None = option(
        "With --signing: job types that it may request, such as 'bills.*'; repeatable.",
        "PATTERN",
        show_default="none",
    ),
    file: Path | None = option("File that gets the line of the key (default: it is printed).", "FILE"),
) -> None:
    """Make a key that encrypts payloads, or one that signs requests.

    Of several keys in a file, the last one encrypts or signs. The public part of a signing key is printed for
    the scheduler's WARRENER_SCHEDULER_REQUEST_KEYS_FILE.

    $ warrener keys 2026-11 --file encryption-keys.toml
    $ warrener keys billing --signing --job-type 'bills.*' --file billing-key.toml
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key_id):
        raise UsageError(
            f"expected a-z, A-Z, 0-9, - and _ in the name of a key, got {key_id!r}", do="rename it"
        )
    if job_type and not signing:
        raise UsageError(
            "expected --job-type with --signing, got it alone", do="add --signing, or leave it out"
        )
    before = "" if file is None else _read_keys(file, key_id)
    secret, public = _make_signing_key() if signing else (b64encode(os.urandom(32)).decode(), "")
    line = f'{key_id} = "{secret}"'
    if file is not None:
        _write_keys(file, f"{before}{line}\n")
    shown = [] if file else [line]
    if signing:
        comment = "" if job_type else "  # it may request none: add some"
        patterns = f"job_types = {json.dumps(job_type or [])}{comment}"
        shown += [f"[{key_id}]", f'public = "{public}"', patterns]
    for text in shown:
        print(text)


def _read_keys(file: Path, key_id: str) -> str:
    """The text of a file of keys that may get another one. Raises UsageError."""
    from tomllib import loads

    try:
        text = file.read_text("utf-8") if file.exists() else ""
        found = loads(text)
    except (OSError, ValueError):
        found, text = {"": None}, ""
    if not all(isinstance(one, str) for one in found.values()):  # a table is of public keys
        raise UsageError(f"expected a file of keys, got {file}, which is none", do="name another with --file")
    if key_id in found:
        raise UsageError(f"expected a name that {file} has not, got {key_id}", do="choose another")
    return text if not text or text.endswith("\n") else f"{text}\n"


def _write_keys(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_secret_file(file, text)
    except OSError as error:
        raise CommandError(
            f"expected to write the key to {file}, got: {error.strerror}", do="name another with --file"
        ) from error


def _make_signing_key() -> tuple[str, str]:
    try:
        from warrener_runtime.encryption import make_signing_key
    except ModuleNotFoundError:
        raise CommandError(
            "expected the package cryptography, got an installation without it",
            do="install warrener with its extra `encryption`",
        ) from None
    return make_signing_key()
