"""Templates: JSON values whose texts have placeholders, such as `{{ tick.run }}`. Pure.

Schedules, escalation policies and programs share this language; docs/reference/templates.md describes it.
`{{ tick.local_at | %Y-%m-%d }}` formats a time, and `{{{{` stands for two braces. A template computes
nothing: a name is looked up in objects alone, never as an attribute.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn, cast

from warrener_contracts.json_safety import is_array
from warrener_contracts.topology import MAX_BODY

MAX_PLACEHOLDERS: Final = 1_000
"""Placeholders of one template."""
MAX_FORMAT: Final = 100
"""Characters of the format of a time."""
MAX_INSERTED: Final = 2 * MAX_BODY
"""Characters that the values of one template may have together. Values of at most 2,000 characters always
fit, so formatted times do."""
_MAX_MISTAKES = 20
_MAX_QUOTED = 60  # characters of a text in a mistake

_BRACES = "{{"
_ESCAPED = "{{{{"
# A brace before a placeholder is plain text: `{{{ name }}` is a brace and a value.
_TOKEN = re.compile(r"\{\{\{\{|\{\{([^{}]*)\}\}|\{\{(?!\{)")
_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
# Without widths, which may be a billion, and without %s, which takes each time for a local one.
_FORMAT = re.compile(r"(?:[^%\0\ud800-\udfff]|%-?[aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%f])*")
_NOTHING: Final = object()


class TemplateError(ValueError):
    """A template cannot be rendered from these values."""


@dataclass(frozen=True, slots=True)
class TemplateNames:
    """The names that a template may use; `arguments.*` stands for all that follow `arguments.`.

    `times`: those that may have a format.
    """

    names: Collection[str]
    times: Collection[str] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.names or any(
            known.endswith(".*") and name.startswith(known[:-1]) for known in self.names
        )


class Placeholder(NamedTuple):
    """A name in braces; `source` is its whole text."""

    source: str
    name: str
    time_format: str | None


def find_mistakes(template: Any, known: TemplateNames) -> Iterator[str]:
    """Yield the mistakes in the texts of a JSON value, at most 20."""
    placeholders = mistakes = 0
    for text in _texts(template):
        for found in _TOKEN.finditer(text):
            if found[0] == _ESCAPED:
                continue
            placeholders += 1
            if mistake := _find_mistake(text, found, known):
                mistakes += 1
                yield mistake
            if mistakes == _MAX_MISTAKES:
                return
            if placeholders > MAX_PLACEHOLDERS:
                yield f"expected at most {MAX_PLACEHOLDERS} names in braces, got more"
                return


def has_placeholders(template: Any) -> bool:
    """True if rendering may change a text of this JSON value."""
    return any(_BRACES in text for text in _texts(template))


def placeholders_in(template: Any) -> Iterator[Placeholder]:
    """Yield the placeholders in the texts of a JSON value."""
    for text in _texts(template):
        yield from (part for part in split_text(text) if isinstance(part, Placeholder))


def split_text(text: str) -> list[str | Placeholder]:
    """Split a text into its placeholders and the plain text between them, without escapes.

    Braces that are a mistake are plain text.
    """
    parts: list[str | Placeholder] = []
    end = 0
    for found in _TOKEN.finditer(text):
        if found.start() > end:
            parts.append(text[end : found.start()])
        parts.append(_BRACES if found[1] is None else _placeholder(found))
        end = found.end()
    if end < len(text):
        parts.append(text[end:])
    return parts


def escape_placeholders(value: Any) -> Any:
    """Double each `{{` in the texts of a JSON value, so that rendering returns them unchanged."""
    if isinstance(value, str):
        return value.replace(_BRACES, _ESCAPED)
    if isinstance(value, Mapping):
        return {key: escape_placeholders(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return [escape_placeholders(one) for one in value] if is_array(value) else value


def _refuse(placeholder: Placeholder) -> NoReturn:
    raise TemplateError(f"expected a value of {placeholder.name}, got none")


def render(
    template: Any, values: Mapping[str, Any], *, missing: Callable[[Placeholder], str] = _refuse
) -> Any:
    """Replace the placeholders in the texts of a JSON value by their `values`.

    A text that is one placeholder alone becomes the value itself: a number stays a number. Within a text,
    null is empty, and an object or array is written as JSON. Keys of objects are left alone. `missing`
    returns the text for a name without a value; as a rule such a name raises TemplateError, as do values
    that are too long together.
    """
    return _Rendering(values, missing).render(template)


class _Rendering:
    """One rendering: its values, and how many characters they may still add."""

    def __init__(self, values: Mapping[str, Any], missing: Callable[[Placeholder], str]) -> None:
        self._values, self._missing, self._left = values, missing, MAX_INSERTED

    def render(self, template: Any) -> Any:
        if isinstance(template, str):
            return self._render_text(template) if _BRACES in template else template
        if isinstance(template, Mapping):
            named = cast("Mapping[str, Any]", template)
            return {key: self.render(value) for key, value in named.items()}
        if is_array(template):
            return [self.render(value) for value in template]
        return template

    def _render_text(self, text: str) -> Any:
        parts = split_text(text)
        if len(parts) == 1 and isinstance(parts[0], Placeholder):
            value = self._value_of(parts[0])
            self._count(to_text(value))
            return value.isoformat() if isinstance(value, date | time) else value
        return "".join(
            part if isinstance(part, str) else self._count(to_text(self._value_of(part))) for part in parts
        )

    def _value_of(self, placeholder: Placeholder) -> Any:
        value = _look_up(placeholder.name, self._values)
        if value is _NOTHING:
            return self._missing(placeholder)
        if placeholder.time_format is None or value is None:
            return value
        if isinstance(value, date | time):
            return value.strftime(placeholder.time_format)
        raise TemplateError(
            f"expected a time before | in {placeholder.source!r}, got {type(value).__name__}; leave the "
            "format out"
        )

    def _count(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise TemplateError(
                f"expected values of at most {MAX_INSERTED} characters together, got more; name fewer"
            )
        return text


def to_text(value: Any) -> str:
    """Write a value within a text: null is empty, true is `true`, a time is as in RFC 3339."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping | list | tuple | bool | int | float):
        return json.dumps(cast("Any", value), ensure_ascii=False, default=_to_json)
    return str(value)


def _to_json(value: Any) -> Any:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else to_text(value)


def _find_mistake(text: str, found: re.Match[str], known: TemplateNames) -> str | None:
    if found[1] is None:
        rest = text[found.start() :][:_MAX_QUOTED]
        return f"expected }}}} after {{{{, got {rest!r}; write {_ESCAPED} for two braces"
    got = f"got {found[0][:_MAX_QUOTED]!r}"
    _, name, time_format = _placeholder(found)
    if not _NAME.fullmatch(name):
        example = next((name for name in known.names if not name.endswith(".*")), "name")
        return f"expected a name such as {{{{ {example} }}}}, {got}; write {_ESCAPED} for two braces"
    if name not in known:
        expected = f"one of {', '.join(known.names)}" if known.names else "no name"
        return f"expected {expected}, {got}"
    return None if time_format is None else _find_format_mistake(name, time_format, known, got)


def _find_format_mistake(name: str, time_format: str, known: TemplateNames, got: str) -> str | None:
    if name not in known.times:
        after = f"only after {', '.join(known.times)}" if known.times else "nowhere: no name is a time"
        return f"expected a format {after}, {got}; leave it out"
    if "%" not in time_format or len(time_format) > MAX_FORMAT or not _FORMAT.fullmatch(time_format):
        return f"expected a format such as %Y-%m-%d of at most {MAX_FORMAT} characters after |, {got}"
    return None


def _placeholder(found: re.Match[str]) -> Placeholder:
    name, bar, time_format = found[1].partition("|")
    return Placeholder(found[0], name.strip(), time_format.strip() if bar else None)


def _look_up(name: str, values: Mapping[str, Any]) -> Any:
    value: Any = values
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _NOTHING
        value = cast("Mapping[str, Any]", value)[part]
    return value


def _texts(template: Any) -> Iterator[str]:
    left: list[Any] = [template]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            left += reversed(list(cast("Mapping[str, Any]", item).values()))
        elif is_array(item):
            left += reversed(item)
