"""What the arguments of a schedule may name of a tick. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.zones import zone
from warrener_scheduler.schedules.templating import KnownVariables, find_mistakes, placeholders_in

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


@dataclass(frozen=True, slots=True)
class Tick:
    """One nominal time of a schedule and what went before it."""

    nominal_at: datetime
    run: int
    previous_at: datetime | None
    previous_success_at: datetime | None


def tick_variables(spec: SchedulePutData, tick: Tick) -> Mapping[str, Any]:
    """What may be named of this tick, each moment in UTC and by the clock of the schedule's zone."""
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
    """Raises ValueError where its arguments name what no tick has."""
    if mistakes := list(find_mistakes(spec.arguments, known)):
        raise ValueError("; ".join(mistakes))


def uses_last_success(spec: SchedulePutData) -> bool:
    """Whether its arguments name the tick before whose job has succeeded."""
    return any("tick.previous_success" in placeholder for placeholder in placeholders_in(spec.arguments))
