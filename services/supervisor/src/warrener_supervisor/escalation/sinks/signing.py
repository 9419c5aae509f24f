"""Signatures as Standard Webhooks has them: HMAC-SHA256 over id, timestamp and body. Pure."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from hmac import new

_PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """The key in a secret: `whsec_` and base64, or the text itself. Raises ValueError."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return b64decode(secret[len(_PREFIX) :], validate=True)
    except ValueError as error:
        raise ValueError("expected base64 behind whsec_, got something else") from error


def signed(message_id: str, now: datetime, body: bytes, key: bytes) -> Mapping[str, str]:
    """The headers by which a receiver knows who sent it, and when."""
    timestamp = str(int(now.timestamp()))
    signed_content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{b64encode(new(key, signed_content, sha256).digest()).decode()}",
    }
