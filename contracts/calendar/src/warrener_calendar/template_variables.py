"""The names that the arguments of a schedule may use in templates, and their values for a tick. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from warrener_calendar.zones import zone
from warrener_contracts.events import SchedulePutData
from warrener_contracts.templates import TemplateNames, find_mistakes, placeholders_in

_TIMES: Final = (
    "tick.nominal_at",
    "tick.local_at",
    "tick.previous_at",
    "tick.previous_local_at",
    "tick.previous_success_at",
    "tick.previous_success_local_at",
)
TICK_NAMES: Final = TemplateNames(("tick.schedule", "tick.run", *_TIMES), times=_TIMES)


@dataclass(frozen=True, slots=True)
class Tick:
    """One nominal time of a schedule and the ticks before it."""

    nominal_at: datetime
    run: int
    previous_at: datetime | None
    previous_success_at: datetime | None


def tick_variables(spec: SchedulePutData, tick: Tick) -> Mapping[str, Any]:
    """Return the values for a tick, each time in UTC and by the clock of the schedule's zone."""
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


def check_arguments(spec: SchedulePutData) -> None:
    """Raise ValueError if a template in the arguments has a mistake, or names a value that no tick has."""
    if mistakes := list(find_mistakes(spec.arguments, TICK_NAMES)):
        raise ValueError("; ".join(mistakes))


def uses_last_success(spec: SchedulePutData) -> bool:
    """True if the arguments name the last tick whose job succeeded."""
    return any(one.name.startswith("tick.previous_success") for one in placeholders_in(spec.arguments))
