"""AES-256-GCM under a ring of keys, and Ed25519 signatures. Imported only where keys are configured.

The nonce of a text is no random number but a MAC of it and of its place (as in AES-GCM-SIV): equal texts of
one place have equal ciphertexts, so that the repeat of a request is the same request.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

T = TypeVar("T")
_KEY, _NONCE = 32, 12  # bytes


class KeyRing:
    """Encrypts with one key, and decrypts with each."""

    def __init__(self, keys: Mapping[str, bytes], key_id: str) -> None:
        self.key_id = key_id
        self._keys = dict(keys)
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._nonce_key = self.derive(key_id, "nonce")

    def encrypt(self, plain: bytes, associated: bytes, place: bytes = b"") -> tuple[bytes, bytes]:
        parts = (len(part).to_bytes(8, "big") + part for part in (associated, place, plain))
        nonce = hmac.digest(self._nonce_key, b"".join(parts), "sha256")[:_NONCE]
        return nonce, self._ciphers[self.key_id].encrypt(nonce, plain, associated)

    def decrypt(self, key_id: str, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        """Raises KeyError for an unknown key, ValueError for what was not encrypted so."""
        try:
            return self._ciphers[key_id].decrypt(nonce, data, associated)
        except InvalidTag:
            raise ValueError("expected a text as it was encrypted, got another one") from None

    def derive(self, key_id: str, purpose: str) -> bytes:
        return hmac.digest(self._keys[key_id], f"warrener {purpose}".encode(), sha256)


def open_key_ring(found: Mapping[str, Any]) -> KeyRing:
    """Open lines `id = "base64 of 32 bytes"`: the last one encrypts. Raises ValueError."""
    if not found:
        raise ValueError('expected a line such as 2026-11 = "uL9…", got none')
    keys = {name: _read(name, text, _read_secret) for name, text in found.items()}
    return KeyRing(keys, list(keys)[-1])


class SigningKey:
    """Signs bytes."""

    def __init__(self, key_id: str, key: Ed25519PrivateKey) -> None:
        self.key_id, self._key = key_id, key

    def sign(self, body: bytes) -> bytes:
        return self._key.sign(body)


def open_signing_key(found: Mapping[str, Any]) -> SigningKey:
    """Open a line `id = "base64 of PKCS #8"`; of several the last one signs. Raises ValueError."""
    if not found:
        raise ValueError('expected a line such as billing = "MC4CAQ…", got none')
    key_id, text = list(found.items())[-1]
    return SigningKey(key_id, _read(key_id, text, _read_private))


def make_signing_key() -> tuple[str, str]:
    """A new key that signs, and its public part, both in base64 of their DER form."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(private).decode(), b64encode(public).decode()


def open_public_key(name: str, text: object) -> Callable[[bytes, bytes], bool]:
    """Open a public key (base64 of its DER form); returns a function that is True for a signature and the
    bytes that it is of. Raises ValueError."""
    key = _read(name, text, _read_public)

    def verify(signature: bytes, body: bytes) -> bool:
        try:
            key.verify(signature, body)
        except InvalidSignature:
            return False
        return True

    return verify


def _read(name: str, text: object, read: Callable[[bytes], T | None]) -> T:
    try:
        found = read(b64decode(str(text), validate=True))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        found = None
    if found is None:
        raise ValueError(
            f"{name}: expected the base64 of a key, got something else; `warrener keys` makes one"
        )
    return found


def _read_secret(raw: bytes) -> bytes | None:
    return raw if len(raw) == _KEY else None


def _read_private(raw: bytes) -> Ed25519PrivateKey | None:
    key = load_der_private_key(raw, None)
    return key if isinstance(key, Ed25519PrivateKey) else None


def _read_public(raw: bytes) -> Ed25519PublicKey | None:
    key = load_der_public_key(raw)
    return key if isinstance(key, Ed25519PublicKey) else None
