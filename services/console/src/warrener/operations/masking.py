"""Hides secrets in what users and handlers wrote: fields of documents by their names, `name=value` in texts,
and both in rows of the store. Pure.

A field is hidden if its name holds one of the masked words: `card` hides `card`, `card_number` and
`creditCard`, but not `discard`. A pattern with `*` is compared with the whole name.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.marks import WHOLE
from warrener_contracts.private_payloads import MARK, shown
from warrener_runtime.secrets import HIDDEN, mask
from warrener_runtime.terminal import escape_json

if TYPE_CHECKING:  # a list of one kind of row needs no other kind
    from warrener.explanations.explanation import Explanation
    from warrener_contracts.events import ErrorInfo
    from warrener_store.dead_letters.rows import DeadLetter
    from warrener_store.jobs.rows import AttemptRow, JobRow

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
_DOCUMENTS = frozenset({"arguments", "result"})  # names of what a schema may mark as a whole
_MAX_DEPTH = 64
_MAX_NAME = 200  # characters that are looked at; the cache has thousands of names
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_NAME = re.compile(r"""(?<![\w.\-])(?P<name>["']?[\w.\-]{1,64}["']?)\s{0,3}(?:=>|=|:)\s{0,3}""", re.ASCII)
_VALUE = re.compile(
    r""""(?:[^"\\\n]|\\.)*+(?:"|\\?$)|'(?:[^'\\\n]|\\.)*+(?:'|\\?$)"""  # perhaps cut off within
    r"""|(?:Bearer|Basic|Token)\s+[^\s,;'"]+|[^\s,;&)\]}"']+""",
    re.ASCII | re.IGNORECASE | re.MULTILINE,
)
_NAMED_GROUP = re.compile(r"""["'](?P<name>[^"'\\\n]{1,64})["']\s{0,3}:\s{0,3}[\[{]""")
_BEARER = re.compile(r"\b(?P<scheme>Bearer|Basic)\s+[\w.~+/=\-]{8,}", re.ASCII | re.IGNORECASE)


def _normalize(name: str) -> str:
    """Write a name in lower case with `_` between its words: `X-ApiKey2` becomes `x_api_key_2`."""
    return "_".join(_WORD.findall(name)).lower()


class Masker:
    """Hides the fields of some names; None: nothing. One for each console: names are looked up once.

    `marked`: further names, in any case.
    """

    def __init__(
        self, masked_fields: Sequence[str] | None = DEFAULT_MASKED_FIELDS, marked: Collection[str] = ()
    ) -> None:
        self._fields, self._of = masked_fields, dict[str, Masker]()
        self.marked = frozenset(name[:_MAX_NAME] for name in marked)
        self.every = self
        """The masker of what may be of any job type."""
        self._hides_nothing = masked_fields is None
        masked_fields = masked_fields or ()
        self._globs = tuple(one.lower() for one in masked_fields if "*" in one)
        words = "|".join(re.escape(_normalize(one)) for one in masked_fields if "*" not in one)
        self._words = re.compile(rf"(?:^|_)(?:{words})s?(?:_|$)") if words else None
        self._find = lru_cache(4096)(self._is_masked)

    def of(self, job_type: str) -> "Masker":
        """The masker of the documents and errors of one job type, whose schema marks fields beside the
        list."""
        return self._of.get(job_type, self)

    def learn(self, marks: Mapping[str, frozenset[str]]) -> None:
        """Know the fields that the schema of each job type marks `writeOnly`, and those of no other."""
        self._of = {
            job_type: known
            if (known := self._of.get(job_type)) is not None and known.marked == names
            else Masker(self._fields, names)
            for job_type, names in marks.items()
            if names and not self._hides_nothing
        }
        everything = frozenset[str]().union(*marks.values())
        if WHOLE in everything:
            everything = everything - {WHOLE} | _DOCUMENTS
        if not self._hides_nothing and self.every.marked != everything:
            self.every = Masker(self._fields, everything) if everything else self

    def _is_masked(self, name: str) -> bool:
        if name in self.marked:
            return True
        if self._words is not None and self._words.search(_normalize(name)):
            return True
        return any(fnmatchcase(name.lower(), glob) for glob in self._globs)

    def is_masked(self, name: str) -> bool:
        return self._find(name[:_MAX_NAME])

    def text(self, text: str) -> str:
        """Hide passwords in URLs, the values of masked names (`password=x`, `"token": "x"`), and bearer
        tokens."""
        if self._hides_nothing:
            return text
        text = mask(text)
        if "=" in text or ":" in text:
            text = "".join(self._hide_values(text))
        return _BEARER.sub(rf"\g<scheme> {HIDDEN}", text) if " " in text else text

    def body(self, text: str) -> str:
        """Hide the same in JSON: lists and objects of masked names too, which are no values in a text."""
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            masked = self.value(document)
            return text if masked == document else escape_json(json.dumps(masked, ensure_ascii=False))
        for found in _NAMED_GROUP.finditer(text):  # the beginning of a document
            if self.is_masked(found["name"]):
                text = text[: found.end() - 1] + HIDDEN
                break
        return self.text(text)

    def _hide_values(self, text: str) -> Iterator[str]:
        end = 0
        for found in _NAME.finditer(text):  # of a name alone: in `no: card=1` its value has another
            if found.start() < end or not self.is_masked(found["name"].strip("\"'")):
                continue
            value = _VALUE.match(text, found.end())
            if value is None or value[0] in {"null", "None", '""', "''"}:
                continue
            quote = value[0][0] if value[0][0] in "\"'" else ""
            yield f"{text[end : found.end()]}{quote}{HIDDEN}{quote}"
            end = value.end()
        yield text[end:]

    def value(self, document: Any) -> Any:
        """Hide masked fields of a document at any depth, and secrets in its texts. Models become
        dictionaries."""
        if WHOLE in self.marked and document not in (None, ""):
            return dict.fromkeys(document, HIDDEN) if is_object(document) else HIDDEN
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
        masked = {
            name: HIDDEN if name in hidden and value not in (None, "") else self._value(value, depth - 1)
            for name, value in document.items()
        }
        return masked if (words := shown(document)) is None else masked | {MARK: words}

    def _sequence(self, items: list[Any], depth: int) -> list[Any]:
        match items:
            case [str(name), value] if self.is_masked(name) and value not in (None, ""):
                return [name, HIDDEN]  # ["Authorization", "…"], as headers are written
            case _:
                return [self._value(item, depth - 1) for item in items]


# -- rows --------------------------------------------------------------------------------------------------


def mask_error(masker: Masker, error: "ErrorInfo | None") -> "ErrorInfo | None":
    """The error with its message, stack and flight record masked."""
    return error and error.with_texts(lambda text: shown(text) or masker.text(text))


def mask_job(masker: Masker, row: "JobRow") -> "JobRow":
    masker = masker.of(row.job_type)
    return replace(
        row,
        arguments=masker.value(row.arguments),
        result=masker.value(row.result),
        error=mask_error(masker, row.error),
        progress_note=None if row.progress_note is None else masker.text(row.progress_note),
        cancel_reason=None if row.cancel_reason is None else masker.text(row.cancel_reason),
    )


def mask_attempt(masker: Masker, attempt: "AttemptRow") -> "AttemptRow":
    return replace(attempt, error=mask_error(masker, attempt.error), verdict=masker.text(attempt.verdict))


def mask_dead_letter(masker: Masker, dead_letter: "DeadLetter") -> "DeadLetter":
    return replace(dead_letter, error=mask_error(masker.of(dead_letter.job_type), dead_letter.error))


def mask_explanation(masker: Masker, explanation: "Explanation") -> "Explanation":
    """The explanation with its sentences masked: they quote errors."""
    return replace(
        explanation,
        sentence=masker.text(explanation.sentence),
        detail=masker.text(explanation.detail),
        next=masker.text(explanation.next),
        steps=tuple(replace(step, detail=masker.text(step.detail)) for step in explanation.steps),
        notes=tuple(map(masker.text, explanation.notes)),
    )


def restore_hidden(given: object, original: object) -> Any:
    """Put the values of the original where the given document has a hidden or encrypted one at the same
    place."""
    if given == HIDDEN:
        return original
    if is_object(given) and is_object(original):
        words = shown(original)
        return {
            name: restore_hidden(
                HIDDEN if name == MARK and value == words else value, original.get(name, value)
            )
            for name, value in given.items()
        }
    if is_array(given) and is_array(original) and len(given) == len(original):
        return [restore_hidden(item, other) for item, other in zip(given, original, strict=True)]
    return given
