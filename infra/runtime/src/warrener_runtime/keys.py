"""Key files, and what they open. Without a configured file nothing of `cryptography` is imported."""

import os
import tomllib
from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warrener_runtime.logs import get_logger
from warrener_runtime.secret_files import SecretFileError, exposure, read_secret_file
from warrener_runtime.settings import SettingsError

if TYPE_CHECKING:
    from warrener_runtime.encryption import KeyRing, SigningKey

SIGNATURE_HEADER, SIGNATURE_KEY_HEADER = "warrener-signature", "warrener-signature-key"
SIGNATURE_HEADERS = frozenset({SIGNATURE_HEADER, SIGNATURE_KEY_HEADER})
ENCRYPTION_KEYS, SIGNING_KEY = "WARRENER_ENCRYPTION_KEYS_FILE", "WARRENER_SIGNING_KEY_FILE"
_log = get_logger("keys")


class KeyFileError(SettingsError):
    """A key file cannot be used."""


def find_key_file(given: str | os.PathLike[str] | None, variable: str) -> Path | None:
    """The file that is given, or else that which the environment variable names."""
    named = given or os.environ.get(variable)
    return Path(named) if named else None


def read_key_file(variable: str, path: Path) -> dict[str, Any]:
    """Read a TOML file of keys by their ids. Raises KeyFileError."""
    try:
        return tomllib.loads(read_secret_file(variable, str(path)))
    except SecretFileError as error:
        raise KeyFileError([str(error)]) from None
    except ValueError as error:
        raise KeyFileError([f"{path}: expected a file of keys in TOML, got a mistake: {error}"]) from None


def _read_secret_keys(variable: str, path: Path) -> dict[str, Any]:
    if complaint := exposure(variable, str(path)):
        _log.warning("A key file is open to others.", action="keys.readable", error=complaint)
    return read_key_file(variable, path)


def load_key_ring(path: Path | None) -> "KeyRing | None":
    """The keys of the file that encrypt and decrypt payloads; None without a file."""
    if path is None:
        return None
    with _key_errors(path):
        from warrener_runtime.encryption import open_key_ring  # noqa: PLC0415 - see above

        return open_key_ring(_read_secret_keys(ENCRYPTION_KEYS, path))


class MessageSigner:
    """Signs the messages of one exchange, each as a whole: its body, in headers."""

    def __init__(self, signer: "SigningKey", exchange: str) -> None:
        self._signer, self._exchange = signer, exchange

    def sign(self, messages: Sequence[Any]) -> list[Any]:
        """Sign those of the exchange; the others stay as they are."""
        return [self.signed(one) if one.exchange == self._exchange else one for one in messages]

    def signed(self, message: Any) -> Any:
        """The message with its signature."""
        signature = b64encode(self._signer.sign(message.body)).decode()
        added = {SIGNATURE_HEADER: signature, SIGNATURE_KEY_HEADER: self._signer.key_id}
        return message._replace(headers={**message.headers, **added})


def load_signer(path: Path | None, exchange: str) -> MessageSigner | None:
    """Make the signer of the messages of `exchange` with the key of the file; None without a file."""
    if path is None:
        return None
    found = _read_secret_keys(SIGNING_KEY, path)
    with _key_errors(path):
        from warrener_runtime.encryption import open_signing_key  # noqa: PLC0415 - see above

        return MessageSigner(open_signing_key(found), exchange)


def read_public_key(path: Path, name: str, text: str) -> Callable[[bytes, bytes], bool]:
    """The check of signatures and bodies by a public key of this file. Raises KeyFileError."""
    with _key_errors(path):
        from warrener_runtime.encryption import open_public_key  # noqa: PLC0415 - see above

        return open_public_key(name, text)


@contextmanager
def _key_errors(path: Path) -> Generator[None]:
    """Raises KeyFileError for keys of this file that `encryption` cannot open, or without its package."""
    try:
        yield
    except ModuleNotFoundError as error:
        problem = (
            f"expected the package cryptography, got none ({error}): install the extra `encryption`, as in "
            "pip install 'warrener-client[encryption]'"
        )
    except ValueError as error:
        problem = str(error)
    else:
        return
    raise KeyFileError([f"{path}: {problem}"])
