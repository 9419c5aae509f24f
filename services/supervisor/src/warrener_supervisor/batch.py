"""Several events about one job, judged in order against what the one before made of it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import Event
from warrener_store.job_row import evolve
from warrener_store.port import Save
from warrener_store.rows import JobRow
from warrener_supervisor.context import JudgeContext
from warrener_supervisor.judgement import judge
from warrener_supervisor.verdicts import JobTransition, JudgeDecision, NoChange, Notification, ParkDecision


class JudgedEvent(NamedTuple):
    """An event before the judge, the chance that was drawn for it, and what it was read from: None where no
    message said it."""

    event: Event[Any]
    chance: float
    origin: DecodedEvent | None = None


@dataclass(slots=True)
class JobBatch:
    """What a batch makes of one job: its rulings one by one, and the saves that carry them all out.

    As few saves as can be: one, but for each further attempt that ended in the same batch one more.
    """

    row: JobRow
    saves: list[Save] = field(default_factory=list[Save])
    decisions: list[tuple[JudgedEvent, JudgeDecision]] = field(
        default_factory=list[tuple[JudgedEvent, JudgeDecision]]
    )
    notifications: set[Notification] = field(default_factory=set[Notification])
    answers: list[str] = field(default_factory=list[str])

    def add(self, entry: JudgedEvent, decision: JudgeDecision) -> None:
        """Take in the next ruling."""
        self.decisions.append((entry, decision))
        match decision:
            case JobTransition():
                self._change(decision)
            case NoChange(notifications=notifications, answer=answer):
                self.notifications |= notifications
                self.answers.extend([answer] if answer else [])
            case ParkDecision():
                pass

    def _change(self, decision: JobTransition) -> None:
        self.notifications |= decision.notifications
        last = self.saves[-1] if self.saves else None
        if last is None or (last.attempt is not None and decision.attempt is not None):
            self.row = _numbered(decision.row, self.row.version + 1)
            self.saves.append(Save(self.row, decision.attempt, decision.dead_letter))
            return
        self.row = _numbered(decision.row, last.row.version)
        self.saves[-1] = Save(self.row, last.attempt or decision.attempt, decision.dead_letter)


def _numbered(row: JobRow, version: int) -> JobRow:
    """A row is large, and copied only if it must be: most judgements have counted right."""
    return row if row.version == version else evolve(row, version=version)


def judge_all(row: JobRow, entries: Iterable[JudgedEvent], context: JudgeContext) -> JobBatch:
    """Judge `entries` in order, beginning with the job as `row`."""
    batch = JobBatch(row)
    for entry in entries:
        batch.add(entry, judge(batch.row, entry.event, context._replace(chance=entry.chance)))
    return batch
