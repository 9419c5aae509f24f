"""What the arguments of a schedule may name of a tick. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.zones import zone
from warrener_scheduler.clock.templating import Known, mistakes_in, places_of

KNOWN: Known = {
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


@dataclass(frozen=True, slots=True)
class Tick:
    """One nominal time of a schedule and what went before it."""

    nominal_at: datetime
    run: int
    previous_at: datetime | None
    previous_success_at: datetime | None


def names_of(asked: SchedulePutData, tick: Tick) -> Mapping[str, Any]:
    """What may be named of this tick, each moment in UTC and by the clock of the schedule's zone."""
    here = zone(asked.timezone)

    def local(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment.astimezone(here)

    def universal(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment.astimezone(UTC)

    return {
        "tick": {
            "schedule": asked.name,
            "run": tick.run,
            "nominal_at": universal(tick.nominal_at),
            "local_at": local(tick.nominal_at),
            "previous_at": universal(tick.previous_at),
            "previous_local_at": local(tick.previous_at),
            "previous_success_at": universal(tick.previous_success_at),
            "previous_success_local_at": local(tick.previous_success_at),
        }
    }


def check_arguments(asked: SchedulePutData, known: Known = KNOWN) -> None:
    """Raises ValueError where its arguments name what no tick has."""
    if mistakes := list(mistakes_in(asked.arguments, known)):
        raise ValueError("; ".join(mistakes))


def names_success(asked: SchedulePutData) -> bool:
    """Whether its arguments name the tick before whose job has succeeded."""
    return any("tick.previous_success" in place for place in places_of(asked.arguments))
