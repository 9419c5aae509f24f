"""Importers of schedules from elsewhere, and the result that they share: schedules and losses."""

from dataclasses import dataclass
from enum import StrEnum

from warrener_contracts.events import SchedulePutData


class Loss(StrEnum):
    """How much of an entry an import loses."""

    LEFT_OUT = "left_out"  # the entry has no schedule
    DIFFERS = "differs"  # its schedule does less than the entry did


@dataclass(frozen=True, slots=True)
class ImportIssue:
    """A loss and its reason; `where` is a line of the crontab, or an entry."""

    where: str
    loss: Loss
    why: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The schedules, the origin of each, and the losses."""

    schedules: tuple[SchedulePutData, ...]
    origins: tuple[str, ...]
    issues: tuple[ImportIssue, ...]

    def without(self, problems: list[str | None]) -> "ImportResult":
        """Leave out the schedules that have a problem, which becomes an issue."""
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
