"""An explanation as a value: cause, since when, until when, next step, and the checks on the way. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from warrener.explanations.causes import Cause, StepStatus
from warrener.explanations.facts import SystemFacts

UNIQUE = "unique: "  # the beginning of the note about a job's unique key


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the walk, in the order in which a job meets them."""

    name: str
    status: StepStatus
    detail: str  # empty for the last one, which is the cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A thing to do or to look at: a command, with the form or the link that stands for it on a page."""

    label: str = ""  # of the button or the link
    command: str | None = None  # for a terminal; one alone ends a job: `warrener cancel`
    address: str | None = None  # in the console; None: for a terminal alone
    verb: str | None = None  # of the console: `address` takes a POST of it with `fields`
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something does not go on, or that it does. Its sentences have no full stop."""

    subject: str  # "job 0193…", "queue loading"
    state: str  # of the subject, in a word or two
    cause: Cause
    needs_action: bool  # False: it goes on by itself
    sentence: str  # the cause, without what the other fields say
    detail: str  # the error or the reason behind it, in its own words; may be empty
    since: datetime | None  # always set, and never later than the moment of the facts
    until: datetime | None  # the time of the next step, where that is known
    next: str  # the next step, and what brings it about; empty if nothing follows
    suggestions: tuple[Suggestion, ...]  # to resolve it, or to look further
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()  # beside the cause: facts that could not be read, other troubles

    @property
    def line(self) -> str:
        """The sentence, and the detail behind it."""
        return f"{self.sentence}: {self.detail}" if self.detail else self.sentence

    @property
    def commands(self) -> list[str]:
        """The commands to run; none without a need to act."""
        return [one.command for one in self.suggestions if one.command and self.needs_action]


class Walk:
    """Collects the steps of one walk until its cause is found. `since`: for causes without a time."""

    def __init__(self, system: SystemFacts, subject: str, state: str, since: datetime | None = None) -> None:
        self.system, self.now = system, system.now
        self._subject, self._state, self._since = subject, state, since or system.now
        self._steps: list[Step] = []
        self._notes: list[str] = []

    def passed(self, name: str, detail: str) -> None:
        """Note a step that stands in the way of nothing."""
        self._steps.append(Step(name, StepStatus.PASSED, detail))

    def unknown(self, name: str, detail: str) -> None:
        """Note a step that could not be checked."""
        self._steps.append(Step(name, StepStatus.UNKNOWN, detail))

    def note(self, text: str) -> None:
        """Add a fact beside the cause."""
        self._notes.append(text)

    def end(
        self,
        cause: Cause,
        sentence: str,
        *suggestions: Suggestion,
        detail: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        at: str = "",
        next: str = "",  # noqa: A002 - the field of the answer
        by_itself: bool = False,
        needs_action: bool = False,
    ) -> Explanation:
        """Make the explanation. The walk ends `at` the step of the cause, and `next` is its next one, if none
        is given; `by_itself` and `needs_action`: other than this cause does as a rule."""
        status = StepStatus.WAITING if by_itself else StepStatus.BLOCKED if needs_action else cause.status
        return Explanation(
            subject=self._subject,
            state=self._state,
            cause=cause,
            needs_action=status is StepStatus.BLOCKED,
            sentence=sentence,
            detail=" ".join(detail.split()),
            since=min(since or self._since, self.now),
            until=until,
            next=next or cause.next,
            suggestions=suggestions,
            steps=(*self._steps, Step(at or cause.step, status, "")),
            notes=tuple(self._notes),
        )
