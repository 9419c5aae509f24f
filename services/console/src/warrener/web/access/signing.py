"""Signs cookies and tokens with the secret of the console."""

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from typing import Any, cast

from warrener.errors import CommandError, UsageError

_SECRET_SIZE = 32  # bytes
_MAX_SEALED = 8192  # characters


def encode_bytes(content: bytes) -> str:
    """Write bytes as URL-safe base64 without padding."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


class Signer:
    """Makes and checks signatures. Each purpose has a key of its own, so that a value signed for one is
    worthless for another."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _SECRET_SIZE:
            raise ValueError(f"expected a secret of at least {_SECRET_SIZE} bytes, got {len(secret)}")
        self._secret = secret

    def sign(self, purpose: str, text: str) -> str:
        """The signature of a text."""
        key = hmac.digest(self._secret, f"warrener console: {purpose}".encode(), sha256)
        return encode_bytes(hmac.digest(key, text.encode("utf-8", "surrogatepass"), sha256))

    def check(self, purpose: str, text: str, signature: str) -> bool:
        """True if the signature is that of the text; takes as long for every wrong signature."""
        expected = self.sign(purpose, text)
        return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))

    def seal(self, purpose: str, content: Mapping[str, Any], expires_at: datetime) -> str:
        """Write a document that `unseal` accepts until it expires. Its text can be read by everybody."""
        document = {**content, "expires_at": expires_at.timestamp()}
        text = encode_bytes(dumps(document, separators=(",", ":")).encode())
        return f"{text}.{self.sign(purpose, text)}"

    def unseal(self, purpose: str, sealed: str, now: datetime) -> dict[str, Any] | None:
        """Read a sealed document; None if it is forged, changed, expired, or sealed for another purpose."""
        text, dot, signature = sealed.partition(".")
        if not dot or len(sealed) > _MAX_SEALED or not self.check(purpose, text, signature):
            return None
        try:
            document = loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            expires_at = datetime.fromtimestamp(document.pop("expires_at"), UTC)
        except (ValueError, TypeError, KeyError, AttributeError, Base64Error):
            return None
        return cast("dict[str, Any]", document) if now < expires_at else None


def read_secret(given: str | None, file: Path) -> bytes:
    """The secret of the console: the given one, or that of a file, made once for its owner alone.

    Raises CommandError if the secret is too short, or the file readable by others.
    """
    if given is not None:
        secret = given.encode()
        if len(secret) < _SECRET_SIZE:
            raise UsageError(
                f"WARRENER_CONSOLE_SECRET: expected at least {_SECRET_SIZE} characters, got {len(secret)}",
                do="make one with `openssl rand -base64 32`",
            )
        return secret
    try:
        return _read_file(file)
    except FileNotFoundError:
        return _make_file(file)
    except OSError as error:
        problem = f"expected to read the secret of the console in {file}, got: {error.strerror}"
        raise CommandError(problem, do="name another file with WARRENER_CONSOLE_SECRET_FILE") from error


def _read_file(file: Path) -> bytes:
    secret = file.read_bytes().strip()
    others = file.stat().st_mode & 0o077
    if others:
        raise CommandError(
            f"expected {file} to be readable by its owner alone, got mode {file.stat().st_mode & 0o777:04o}",
            do=f"chmod 600 {file}, or delete it: everybody signs in again",
        )
    if len(secret) < _SECRET_SIZE:
        raise CommandError(
            f"expected a secret of at least {_SECRET_SIZE} bytes in {file}, got {len(secret)}",
            do="delete the file: the next start makes another",
        )
    return secret


def _make_file(file: Path) -> bytes:
    """Write the file under another name first, so that no other process reads half of it."""
    secret = token_urlsafe(_SECRET_SIZE).encode()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.{encode_bytes(token_bytes(6))}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secret)
        try:
            os.link(draft, file)
        except FileExistsError:  # another console was first
            secret = _read_file(file)
        finally:
            draft.unlink()
    except OSError as error:
        raise CommandError(
            f"expected to write the secret of the console to {file}, got: {error.strerror}",
            do="name another file with WARRENER_CONSOLE_SECRET_FILE, or give WARRENER_CONSOLE_SECRET",
        ) from error
    return secret
