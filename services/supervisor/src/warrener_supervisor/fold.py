"""Several events about one job, judged in order against what the one before made of it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import Event
from warrener_store.job_row import evolve
from warrener_store.port import Save
from warrener_store.rows import JobRow
from warrener_supervisor.judgement import judge
from warrener_supervisor.moment import Moment
from warrener_supervisor.verdicts import Ignored, Judgement, Parked, Ruling, Tell


class Case(NamedTuple):
    """An event before the judge, the chance that was drawn for it, and what it was read from: None where no
    message said it."""

    event: Event[Any]
    chance: float
    came: DecodedEvent | None = None


@dataclass(slots=True)
class Folded:
    """What a batch makes of one job: its rulings one by one, and the saves that carry them all out.

    As few saves as can be: one, but for each further attempt that ended in the same batch one more.
    """

    row: JobRow
    saves: list[Save] = field(default_factory=list[Save])
    rulings: list[tuple[Case, Ruling]] = field(default_factory=list[tuple[Case, Ruling]])
    tells: set[Tell] = field(default_factory=set[Tell])
    answers: list[str] = field(default_factory=list[str])

    def add(self, case: Case, ruling: Ruling) -> None:
        """Take in the next ruling."""
        self.rulings.append((case, ruling))
        match ruling:
            case Judgement():
                self._change(ruling)
            case Ignored(tells=tells, answer=answer):
                self.tells |= tells
                self.answers.extend([answer] if answer else [])
            case Parked():
                pass

    def _change(self, ruling: Judgement) -> None:
        self.tells |= ruling.tells
        last = self.saves[-1] if self.saves else None
        if last is None or (last.attempt is not None and ruling.attempt is not None):
            self.row = _numbered(ruling.row, self.row.version + 1)
            self.saves.append(Save(self.row, ruling.attempt, ruling.dead_letter))
            return
        self.row = _numbered(ruling.row, last.row.version)
        self.saves[-1] = Save(self.row, last.attempt or ruling.attempt, ruling.dead_letter)


def _numbered(row: JobRow, version: int) -> JobRow:
    """A row is large, and copied only if it must be: most judgements have counted right."""
    return row if row.version == version else evolve(row, version=version)


def fold(row: JobRow, cases: Iterable[Case], at: Moment) -> Folded:
    """Judge `cases` in order, beginning with the job as `row`."""
    folded = Folded(row)
    for case in cases:
        folded.add(case, judge(folded.row, case.event, at._replace(chance=case.chance)))
    return folded
