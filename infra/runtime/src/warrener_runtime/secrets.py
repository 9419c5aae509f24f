"""Passwords never leave the process by way of a log line or an error message."""

import re

HIDDEN = "***"

_PASSWORD_IN_URL = re.compile(r"(?P<before>[a-zA-Z][a-zA-Z0-9+.\-]*://[^\s/:@?#]*:)(?P<password>[^\s/]+)@")
_SECRET_NAME = re.compile(r"password|passwd|secret|token|api_?key", re.IGNORECASE)


def mask(text: str) -> str:
    """The text with the password of every URL in it hidden."""
    if "://" not in text:
        return text
    return _PASSWORD_IN_URL.sub(rf"\g<before>{HIDDEN}@", text)


def mask_value(name: str, value: object) -> object:
    """The value as it may be shown: hidden if its name says that it is a secret, else with URLs masked."""
    if value is not None and _SECRET_NAME.search(name):
        return HIDDEN
    return mask(value) if isinstance(value, str) else value
