"""Masks passwords in log lines and error messages, in a time in proportion to their length.

Foreign text is masked: a handler logs what it likes. So each pattern below begins with a fixed text, and
reads on either a bounded way, or up to a character at which its next search begins.
"""

import re
from string import ascii_letters
from typing import Final

HIDDEN = "***"
MAX_SHOWN: Final = 20_000
"""Characters of one foreign text in a log line, a span or a terminal."""
_MAX_WORD = 1_000  # characters of the last word, which `cut` drops whole

# Up to the last @ before a slash; a password with a slash is looked for after what cannot be a port.
_PASSWORD_IN_URL = re.compile(r"(?P<before>://[^\s/:@?#\"]*:)(?:[^\s/\"]+|(?!\d{1,5}/)[^\s\"'<>]{1,100})@")
_SECRET_NAME = re.compile(r"password|passwd|passphrase|secret|token|api_?key", re.IGNORECASE)
_SIGNS_OF_SECRETS = ("pass", "pwd", "secret", "api")
_NAMED_SECRET = re.compile(
    r"(?:passw(?:or)?d|passphrase|(?<![a-z])pwd|secret|api[_-]?key)"
    r"(?:\\{0,3}[\"'])?\s{0,3}(?:=>|=|:)\s{0,3}"
    r"(?P<value>\"(?:[^\"\\\n]++|\\.)*+(?:\"|\\?$)|'(?:[^'\\\n]++|\\.)*+(?:'|\\?$)"
    r"|\\{1,3}[\"'][^\"'\\]*+|(?:[^\s,;&)\]}\"'\\]|\\[^\"'nrt])+)",
    re.IGNORECASE | re.MULTILINE,
)
_SECRET_OPTION = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|api-key)[\"']?,?[ \t]{1,3}"
    r"(?!-)(?P<value>\"[^\"\n]*+\"?|'[^'\n]*+'?|[^\s\"',]+)",
    re.IGNORECASE,
)
_MAX_PREFIX = 30  # characters of an option before such a name


def mask(text: str) -> str:
    """Hide the passwords of URLs, and what follows names such as `PGPASSWORD=`, `--password ` and
    `password: `."""
    if "://" in text:
        text = _PASSWORD_IN_URL.sub(rf"\g<before>{HIDDEN}@", text)
    lower = text.lower()
    if any(sign in lower for sign in _SIGNS_OF_SECRETS):
        text = _SECRET_OPTION.sub(_hide_option, text)
        text = _NAMED_SECRET.sub(_hide_value, text)
    return text


def cut(text: str, limit: int = MAX_SHOWN) -> str:
    """Return the beginning of a text, without its last word: half a password would not be masked."""
    if len(text) <= limit:
        return text
    text = text[:limit]
    least = max(0, limit - _MAX_WORD)
    end = max(text.rfind(sign, least) for sign in (" ", "\n", "://"))
    return text[:end] if end >= 0 else text


def shown(text: str, limit: int = MAX_SHOWN) -> str:
    """Return a foreign text as people may see it: cut, then masked; it says how much was left out."""
    masked = mask(cut(text, limit))
    return masked if len(text) <= limit else f"{masked}… [{len(text):,} characters in all]"


def mask_value(name: str, value: object) -> object:
    """Hide a value whose name denotes a secret; mask all others."""
    if value is not None and _SECRET_NAME.search(name):
        return HIDDEN
    return mask(value) if isinstance(value, str) else value


def _hide_option(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - _MAX_PREFIX) : found.start()]
    _, dashes, prefix = before.rpartition("--")
    return _hide_value(found) if dashes and not prefix.strip("-_" + ascii_letters) else found[0]


def _hide_value(found: re.Match[str]) -> str:
    value = found["value"]
    if value in {"null", "None", '""', "''"}:
        return found[0]
    opening = value[: len(value) - len(value.lstrip("\\"))] + value.lstrip("\\")[0]
    if opening[-1] not in "\"'":
        opening = ""
    closing = opening if len(opening) == 1 else ""  # a quote within a quoted text closes after the value
    before = found.string[found.start() : found.start("value")]
    return f"{before}{opening}{HIDDEN}{closing}"
