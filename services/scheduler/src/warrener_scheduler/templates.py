"""Placeholders in the arguments of schedules. Pure.

`{{ tick.nominal_at }}` becomes a value, `{{ tick.local_at | %Y-%m-%d }}` a formatted moment, and `{{{{`
stands for two braces. A template computes nothing: it names values, and formats moments.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from warrener_contracts.events import SchedulePutData
from warrener_contracts.json_safety import is_array
from warrener_scheduler.calendar.zones import zone

KnownVariables = Mapping[str, Collection[str] | None]
"""The first part of each name, and the names that may follow it; None allows any."""
TICK_VARIABLES: KnownVariables = {
    "tick": (
        "schedule",
        "run",
        "nominal_at",
        "local_at",
        "previous_at",
        "previous_local_at",
        "previous_success_at",
        "previous_success_local_at",
    )
}
_PLACEHOLDER = re.compile(r"\{\{\{\{|\{\{([^{}]*)\}\}")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_NOTHING = object()
_MAX_QUOTED = 60  # characters of a text in a mistake


@dataclass(frozen=True, slots=True)
class Tick:
    """One nominal time of a schedule and the ticks before it."""

    nominal_at: datetime
    run: int
    previous_at: datetime | None
    previous_success_at: datetime | None


def tick_variables(spec: SchedulePutData, tick: Tick) -> Mapping[str, Any]:
    """Return the variables of a tick, each moment in UTC and by the clock of the schedule's zone."""
    here = zone(spec.timezone)

    def local(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment.astimezone(here)

    def universal(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment.astimezone(UTC)

    return {
        "tick": {
            "schedule": spec.name,
            "run": tick.run,
            "nominal_at": universal(tick.nominal_at),
            "local_at": local(tick.nominal_at),
            "previous_at": universal(tick.previous_at),
            "previous_local_at": local(tick.previous_at),
            "previous_success_at": universal(tick.previous_success_at),
            "previous_success_local_at": local(tick.previous_success_at),
        }
    }


def check_arguments(spec: SchedulePutData, known: KnownVariables = TICK_VARIABLES) -> None:
    """Raise ValueError if the arguments name a variable that no tick has."""
    if mistakes := list(find_mistakes(spec.arguments, known)):
        raise ValueError("; ".join(mistakes))


def uses_last_success(spec: SchedulePutData) -> bool:
    """True if the arguments name the last tick whose job succeeded."""
    return any("tick.previous_success" in placeholder for placeholder in placeholders_in(spec.arguments))


def placeholders_in(template: Any) -> Iterator[str]:
    """Yield the text between the braces of each placeholder, in a text or in the texts of a JSON value."""
    if isinstance(template, str):
        yield from (found[1] for found in _PLACEHOLDER.finditer(template) if found[1] is not None)
    for part in _parts(template):
        yield from placeholders_in(part)


def find_mistakes(template: Any, known: KnownVariables) -> Iterator[str]:
    """Yield the mistakes in the placeholders of a text, or of the texts of a JSON value."""
    if isinstance(template, str):
        for found in _PLACEHOLDER.finditer(template):
            if found[1] is not None and (mistake := _find_mistake(found[1], known)):
                yield f"{mistake}, got {found[0][:_MAX_QUOTED]!r}"
    for part in _parts(template):
        yield from find_mistakes(part, known)


def render(template: Any, names: Mapping[str, Any]) -> Any:
    """Fill the placeholders of a JSON value from `names`.

    A text that is one placeholder alone becomes the value itself, so that a number stays a number. A
    placeholder without a value stays as it is.
    """
    if isinstance(template, str):
        return _render_text(template, names) if "{{" in template else template
    if isinstance(template, Mapping):
        named = cast("Mapping[str, Any]", template)
        return {key: render(value, names) for key, value in named.items()}
    if is_array(template):
        return [render(value, names) for value in template]
    return template


def has_placeholders(template: Any) -> bool:
    """True if there may be placeholders to render."""
    if isinstance(template, str):
        return "{{" in template
    return any(map(has_placeholders, _parts(template)))


def _find_mistake(placeholder: str, known: KnownVariables) -> str:
    name, time_format = _split(placeholder)
    if not _NAME.fullmatch(name):
        return "expected a place such as {{ tick.nominal_at }} ({{{{ stands for two braces)"
    first, _, rest = name.partition(".")
    follows = known.get(first, ())
    if follows is not None and rest not in follows:
        return f"expected one of {', '.join(_all_names(known))}"
    if time_format is None:
        return ""
    return "" if time_format else "expected a form such as %Y-%m-%d after |"


def _all_names(known: KnownVariables) -> list[str]:
    return [
        name
        for first, follows in known.items()
        for name in ([f"{first}.…"] if follows is None else [f"{first}.{rest}" for rest in follows])
    ]


def _render_text(template: str, names: Mapping[str, Any]) -> Any:
    alone = _PLACEHOLDER.fullmatch(template)
    if alone and alone[1] is not None:
        value = _look_up(alone[1], names)
        return template if value is _NOTHING else _to_json(value)
    return _PLACEHOLDER.sub(_make_filler(names), template)


def _make_filler(names: Mapping[str, Any]) -> Callable[[re.Match[str]], str]:
    def fill(found: re.Match[str]) -> str:
        if found[1] is None:
            return "{{"
        value = _look_up(found[1], names)
        return found[0] if value is _NOTHING else _to_text(value)

    return fill


def _look_up(placeholder: str, names: Mapping[str, Any]) -> Any:
    name, time_format = _split(placeholder)
    value: Any = names
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _NOTHING
        value = cast("Mapping[str, Any]", value)[part]
    return value.strftime(time_format) if time_format and isinstance(value, datetime) else value


def _split(placeholder: str) -> tuple[str, str | None]:
    name, bar, time_format = placeholder.partition("|")
    return name.strip(), time_format.strip() if bar else None


def _to_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _to_text(value: Any) -> str:
    return "" if value is None else str(_to_json(value))


def _parts(template: Any) -> list[Any]:
    if isinstance(template, Mapping):
        return list(cast("Mapping[str, Any]", template).values())
    return list(template) if is_array(template) else []
