"""What an import carries over, and what it cannot. Pure data."""

from dataclasses import dataclass
from enum import StrEnum

from warrener_contracts.events import SchedulePutData


class Loss(StrEnum):
    """How much of it."""

    LEFT_OUT = "left_out"  # there is no schedule for it
    DIFFERS = "differs"  # there is one, and it does not do all that the other did


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was not carried over, and why."""

    where: str  # a line of the crontab, or an entry
    loss: Loss
    why: str


@dataclass(frozen=True, slots=True)
class Carried:
    """The schedules, where each came from, and what is missing."""

    schedules: tuple[SchedulePutData, ...]
    wheres: tuple[str, ...]  # one for each schedule
    findings: tuple[Finding, ...]

    def without(self, problems: list[str | None]) -> "Carried":
        """The same without the schedules that have a problem, which become findings."""
        kept = [place for place, problem in enumerate(problems) if problem is None]
        refused = (
            Finding(where, Loss.LEFT_OUT, problem)
            for where, problem in zip(self.wheres, problems, strict=True)
            if problem is not None
        )
        return Carried(
            tuple(self.schedules[place] for place in kept),
            tuple(self.wheres[place] for place in kept),
            (*self.findings, *refused),
        )
