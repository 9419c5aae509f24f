"""Access tokens: who may use the console with which role. Only hashes are stored.

A line for each token: `name:role:sha256:hash`. A token has 256 random bits, so that a plain hash cannot
be guessed back; no slow hash is needed.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe

import structlog

from warrener.errors import CommandError, UsageError
from warrener.operations.roles import Role
from warrener_runtime.secret_files import write_secret_file

_log = structlog.stdlib.get_logger(__name__)

_PREFIX = "wrc_"  # the beginning of each token, by which scanners for leaked secrets find it
_NAME = re.compile(r"[\w.@+\-]{1,64}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}")
_MIN_TOKEN, _MAX_TOKEN = 20, 256  # characters


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token as it is stored."""

    name: str
    role: Role
    digest: str

    @property
    def line(self) -> str:
        """Its line in the file."""
        return f"{self.name}:{self.role.value}:sha256:{self.digest}"


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def make_token(name: str, role: Role) -> tuple[str, AccessToken]:
    """Make a token. Its secret is shown once and stored nowhere. Raises CommandError if the name cannot
    be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"expected a name of at most 64 characters of a-z, A-Z, 0-9 and `.@+-_`, got {name!r}",
            do="name the person or the program",
        )
    secret = f"{_PREFIX}{token_urlsafe(32)}"
    return secret, AccessToken(name, role, _hash(secret))


def parse_tokens(lines: Iterable[str], source: str) -> tuple[AccessToken, ...]:
    """Read token lines; empty ones and those with `#` are left out. Raises CommandError, which quotes no
    hash."""
    tokens: list[AccessToken] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match text.split(":"):
            case [name, role, "sha256", digest] if (
                _NAME.fullmatch(name) and role in set(Role) and _HASH.fullmatch(digest)
            ):
                tokens.append(AccessToken(name, Role(role), digest))
            case parts:
                raise UsageError(
                    f"{source}, line {number} ({parts[0][:64]}): expected name:role:sha256:hash, "
                    f"with a role of {', '.join(Role)}, got another form",
                    do="make a line with `warrener console token NAME --role ROLE`",
                )
    names = [one.name for one in tokens]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(
            f"{source}: expected each name once, got {', '.join(sorted(twice))} twice",
            do="delete one of the lines",
        )
    return tuple(tokens)


def add_token(file: Path, token: AccessToken) -> None:
    """Add the line of a token to a file, made for its owner alone. Raises CommandError, also if it has
    the name."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        if any(one.name == token.name for one in parse_tokens(lines, str(file))):
            raise UsageError(
                f"expected a name that {file} has not, got {token.name}",
                do="delete its line first: its token and its sessions end at once",
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        write_secret_file(file, "\n".join([*lines, token.line]) + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"expected to write the token to {file}, got: {error}", do="name another with --file"
        ) from error


class TokenList:
    """The tokens of the settings and of the file, which is read again when it changes: a token that is
    deleted there ends at once, with its sessions."""

    def __init__(self, lines: Iterable[str], file: Path | None) -> None:
        self._given = parse_tokens(lines, "WARRENER_CONSOLE_TOKENS")
        self._file = file
        self._of_file: tuple[AccessToken, ...] = ()
        self._stamp: tuple[int, int, int] | None = None
        if file is not None:
            self._read(file)

    def _read(self, file: Path) -> None:
        try:
            found = file.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(
                f"WARRENER_CONSOLE_TOKENS_FILE: expected a readable file, got {str(file)!r} ({error})",
                do="make it with `warrener console token NAME --role ROLE --file FILE`",
            ) from error
        self._of_file, self._stamp = parse_tokens(lines, str(file)), stamp

    def tokens(self) -> tuple[AccessToken, ...]:
        """All tokens. If the file became unreadable, none of its tokens counts until it is put right."""
        if self._file is not None:
            try:
                self._read(self._file)
            except CommandError as error:
                if self._of_file or self._stamp is not None:
                    _log.error(
                        "Tokens of the file are refused.",
                        action="console.tokens_unreadable",
                        reason=str(error),
                    )
                self._of_file, self._stamp = (), None
        return self._given + self._of_file

    def find(self, secret: str) -> AccessToken | None:
        """The token of this secret; a short one is refused. Compares with each, so that the time says
        nothing."""
        digest = _hash(secret) if len(secret) <= _MAX_TOKEN else ""
        found = None
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is not None and len(secret) < _MIN_TOKEN:
            _log.warning(
                f"A token is refused: expected at least {_MIN_TOKEN} characters.",
                action="console.short_token",
                name=found.name,
            )
            return None
        return found

    def by_digest(self, digest: str) -> AccessToken | None:
        """The token that a session was opened with; None if it was deleted since."""
        return next((token for token in self.tokens() if token.digest == digest), None)
