"""The parts of a waterfall: bars, moments, and the rows that hold them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from warrener.render.times import brief
from warrener.render.tones import Tone


class BarLook(StrEnum):
    """How a bar is drawn."""

    SOLID = "solid"  # something runs
    HATCHED = "hatched"  # something waits
    PLANNED = "planned"  # the future


class WaitGroup(StrEnum):
    """The kind of the cause of a wait."""

    PLANNED = "planned"  # a time that somebody chose
    RESOURCE = "resource"  # a service or a free slot
    BLOCKED = "blocked"  # a breaker, or a queue that takes nothing
    TRANSIT = "transit"  # messages on their way
    SILENCE = "silence"  # an agent that sends no heartbeat


class MarkKind(StrEnum):
    """A moment that a row shows."""

    ACCEPTED = "accepted"
    HEARTBEAT = "heartbeat"
    CHECKPOINT = "checkpoint"
    DEADLINE = "deadline"
    END = "end"


class RowKind(StrEnum):
    """The subject of a row."""

    REQUEST = "request"
    WAIT = "wait"
    ATTEMPT = "attempt"
    ATTEMPTS = "attempts"  # the middle ones of many
    VERDICT = "verdict"
    PLAN = "plan"
    CHILD_JOBS = "child_jobs"
    CHILD_JOB = "child_job"


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """One interval. `text` names its cause. `ragged`: its end is not that of what it shows; the length of a
    planned one is then a mere sign."""

    look: BarLook
    start: datetime
    end: datetime
    text: str
    tone: Tone = Tone.SOFT
    group: WaitGroup | None = None
    ragged: bool = False

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    @property
    def is_sign(self) -> bool:
        """True if its length says nothing."""
        return self.look is BarLook.PLANNED and self.ragged


@dataclass(frozen=True, slots=True)
class WaterfallMark:
    """One moment."""

    kind: MarkKind
    at: datetime
    text: str
    tone: Tone = Tone.SOFT


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """One row: a name, words about it, and its bars in order."""

    kind: RowKind
    name: str
    detail: str
    bars: tuple[WaterfallBar, ...] = ()
    marks: tuple[WaterfallMark, ...] = ()
    tone: Tone | None = None
    sign: str = ""
    attempt: int | None = None
    job_id: UUID | None = None

    @property
    def length(self) -> timedelta:
        return sum((bar.length for bar in self.bars if bar.look is not BarLook.PLANNED), timedelta(0))


_LEGEND: tuple[tuple[BarLook, WaitGroup | None, str], ...] = (
    (BarLook.SOLID, None, "runs"),
    (BarLook.HATCHED, WaitGroup.PLANNED, "waits for a time"),
    (BarLook.HATCHED, WaitGroup.RESOURCE, "waits for an agent, a service or a slot"),
    (BarLook.HATCHED, WaitGroup.BLOCKED, "is held back"),
    (BarLook.HATCHED, WaitGroup.TRANSIT, "message on its way"),
    (BarLook.HATCHED, WaitGroup.SILENCE, "no heartbeat"),
    (BarLook.PLANNED, None, "planned"),
)


def legend_of(rows: Iterable[WaterfallRow]) -> list[tuple[BarLook, WaitGroup | None, str]]:
    """The looks that bars of these rows have, each with its meaning."""
    looks = {(bar.look, bar.group) for row in rows for bar in row.bars}
    looks |= {(look, None) for look, _ in looks}
    return [entry for entry in _LEGEND if entry[:2] in looks]


def length_text(row: WaterfallRow) -> str:
    """The time that a row has taken, in words; nothing for a plan."""
    return brief(row.length) if row.bars and row.kind is not RowKind.PLAN else ""
