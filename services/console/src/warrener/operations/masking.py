"""Hides secrets in what users and handlers wrote: fields of documents by their names, and `name=value`
in texts. Pure.

A field is hidden if its name holds one of the masked words: `card` hides `card`, `card_number` and
`creditCard`, but not `discard`. A pattern with `*` is compared with the whole name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, cast

from pydantic import BaseModel

from warrener_runtime.secrets import HIDDEN, mask

DEFAULT_MASKED_FIELDS = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "authorization",
    "cookie",
    "credential",
    "card",
    "cvv",
    "cvc",
    "iban",
    "ssn",
)
_MAX_DEPTH = 64
_MAX_NAME = 200  # characters that are looked at; the cache has thousands of names
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_NAMED_VALUE = re.compile(
    r"""(?<![\w.\-])(?P<name>["']?[\w.\-]{1,64}["']?)(?P<sign>\s{0,3}(?:=>|=|:)\s{0,3})"""
    r"""(?P<value>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?:Bearer|Basic|Token)\s+[^\s,;'"]+|[^\s,;&)\]}"']+)""",
    re.ASCII | re.IGNORECASE,
)
_BEARER = re.compile(r"\b(?P<scheme>Bearer|Basic)\s+[\w.~+/=\-]{8,}", re.ASCII | re.IGNORECASE)


def _normalize(name: str) -> str:
    """Write a name in lower case with `_` between its words: `X-ApiKey2` becomes `x_api_key_2`."""
    return "_".join(_WORD.findall(name)).lower()


class Masker:
    """Hides the fields of some names; None: nothing. One for each console: names are looked up once."""

    def __init__(self, masked_fields: Sequence[str] | None = DEFAULT_MASKED_FIELDS) -> None:
        self._hides_nothing = masked_fields is None
        masked_fields = masked_fields or ()
        self._globs = tuple(one.lower() for one in masked_fields if "*" in one)
        words = "|".join(re.escape(_normalize(one)) for one in masked_fields if "*" not in one)
        self._words = re.compile(rf"(?:^|_)(?:{words})s?(?:_|$)") if words else None
        self._find = lru_cache(4096)(self._is_masked)

    def _is_masked(self, name: str) -> bool:
        if self._words is not None and self._words.search(_normalize(name)):
            return True
        return any(fnmatchcase(name.lower(), glob) for glob in self._globs)

    def is_masked(self, name: str) -> bool:
        """True if fields of this name are hidden."""
        return self._find(name[:_MAX_NAME])

    def text(self, text: str) -> str:
        """Hide passwords in URLs, the values of masked names (`password=x`, `"token": "x"`), and bearer
        tokens."""
        if self._hides_nothing:
            return text
        text = mask(text)
        if "=" in text or ":" in text:
            text = _NAMED_VALUE.sub(self._hide_value, text)
        return _BEARER.sub(rf"\g<scheme> {HIDDEN}", text) if " " in text else text

    def _hide_value(self, found: re.Match[str]) -> str:
        if not self.is_masked(found["name"].strip("\"'")) or found["value"] in {"null", "None", '""', "''"}:
            return found[0]
        quote = found["value"][0] if found["value"][0] in "\"'" else ""
        return f"{found['name']}{found['sign']}{quote}{HIDDEN}{quote}"

    def value(self, document: Any) -> Any:
        """Hide masked fields of a document at any depth, and secrets in its texts. Models become
        dictionaries."""
        return self._value(document, _MAX_DEPTH)

    def _value(self, document: Any, depth: int) -> Any:
        if depth == 0:
            return HIDDEN
        match document:
            case str():
                found: Any = self.text(document)
            case BaseModel():
                found = self._mapping(dict(document), depth)
            case Mapping():
                found = self._mapping(cast("dict[Any, Any]", document), depth)
            case list() | tuple() | set() | frozenset():
                found = self._sequence(list(cast("Iterable[Any]", document)), depth)
            case _ if is_dataclass(document) and not isinstance(document, type):
                names = [one.name for one in fields(document)]
                found = self._mapping({name: getattr(document, name) for name in names}, depth)
            case _:
                found = document
        return found

    def _mapping(self, document: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        hidden = {name for name in document if isinstance(name, str) and self.is_masked(name)}
        named = document.get("name", document.get("key"))
        if "value" in document and isinstance(named, str) and self.is_masked(named):
            hidden.add("value")  # {"name": "Authorization", "value": "…"}
        return {
            name: HIDDEN if name in hidden and value not in (None, "") else self._value(value, depth - 1)
            for name, value in document.items()
        }

    def _sequence(self, items: list[Any], depth: int) -> list[Any]:
        match items:
            case [str(name), value] if self.is_masked(name) and value not in (None, ""):
                return [name, HIDDEN]  # ["Authorization", "…"], as headers are written
            case _:
                return [self._value(item, depth - 1) for item in items]
