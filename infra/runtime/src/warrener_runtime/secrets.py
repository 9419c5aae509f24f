"""Masks passwords in log lines and error messages."""

import re

HIDDEN = "***"

_PASSWORD_IN_URL = re.compile(r"(?P<before>[a-zA-Z][a-zA-Z0-9+.\-]*://[^\s/:@?#]*:)(?P<password>[^\s/]+)@")
_SECRET_NAME = re.compile(r"password|passwd|secret|token|api_?key", re.IGNORECASE)


def mask(text: str) -> str:
    """Hide the password of every URL in a text."""
    if "://" not in text:
        return text
    return _PASSWORD_IN_URL.sub(rf"\g<before>{HIDDEN}@", text)


def mask_value(name: str, value: object) -> object:
    """Hide a value whose name denotes a secret; mask URLs in all others."""
    if value is not None and _SECRET_NAME.search(name):
        return HIDDEN
    return mask(value) if isinstance(value, str) else value
