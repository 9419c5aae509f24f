"""What an import carries over, and what it cannot. Pure data."""

from dataclasses import dataclass
from enum import StrEnum

from warrener_contracts.events import SchedulePutData


class Loss(StrEnum):
    """How much of it."""

    LEFT_OUT = "left_out"  # there is no schedule for it
    DIFFERS = "differs"  # there is one, and it does not do all that the other did


@dataclass(frozen=True, slots=True)
class ImportIssue:
    """One thing that was not carried over, and why."""

    where: str  # a line of the crontab, or an entry
    loss: Loss
    why: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The schedules, where each came from, and what is missing."""

    schedules: tuple[SchedulePutData, ...]
    origins: tuple[str, ...]  # one for each schedule
    issues: tuple[ImportIssue, ...]

    def without(self, problems: list[str | None]) -> "ImportResult":
        """The same without the schedules that have a problem, which become findings."""
        indices = [place for place, problem in enumerate(problems) if problem is None]
        refused = (
            ImportIssue(where, Loss.LEFT_OUT, problem)
            for where, problem in zip(self.origins, problems, strict=True)
            if problem is not None
        )
        return ImportResult(
            tuple(self.schedules[place] for place in indices),
            tuple(self.origins[place] for place in indices),
            (*self.issues, *refused),
        )
