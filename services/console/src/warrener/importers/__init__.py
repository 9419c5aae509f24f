"""Importers of schedules from elsewhere, and the result that they share: schedules and losses."""

from collections.abc import Callable
from dataclasses import dataclass, field
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
    """The schedules, the origin of each, and the losses, in the order in which they are added."""

    schedules: list[SchedulePutData] = field(default_factory=list[SchedulePutData])
    origins: list[str] = field(default_factory=list[str])
    issues: list[ImportIssue] = field(default_factory=list[ImportIssue])

    def add(self, where: str, schedule: SchedulePutData) -> None:
        self.origins.append(where)
        self.schedules.append(schedule)

    def leave_out(self, where: str, why: str) -> None:
        """Add an entry that has no schedule."""
        self.issues.append(ImportIssue(where, Loss.LEFT_OUT, why))

    def differ(self, where: str, why: str) -> None:
        """Add an entry whose schedule does less."""
        self.issues.append(ImportIssue(where, Loss.DIFFERS, why))

    def without(self, find_problem: Callable[[SchedulePutData], str | None]) -> "ImportResult":
        """Leave out the schedules that have a problem, which becomes an issue."""
        found = ImportResult(issues=[*self.issues])
        for where, schedule in zip(self.origins, self.schedules, strict=True):
            if (problem := find_problem(schedule)) is None:
                found.add(where, schedule)
            else:
                found.leave_out(where, problem)
        return found
