"""An explanation as a value: cause, since when, until when, next step, and the checks on the way. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from warrener.explanations.causes import Cause


class StepStatus(StrEnum):
    """The finding of one step of the walk."""

    PASSED = "passed"
    BLOCKED = "blocked"  # the cause: nothing changes until somebody acts
    WAITING = "waiting"  # the cause: time or a service resolves it
    UNKNOWN = "unknown"  # a fact is missing: the walk goes on without it


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

    def __init__(self, subject: str, state: str, now: datetime, since: datetime | None = None) -> None:
        self.subject, self.state = subject, state
        self.now, self._since = now, since or now
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
        step: str,
        cause: Cause,
        sentence: str,
        *suggestions: Suggestion,
        next: str,  # noqa: A002 - the field of the answer
        detail: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        over: bool = False,
        by_itself: bool = False,
    ) -> Explanation:
        """Make the explanation; `step` is where the walk ends.

        `over`: the subject waits for nothing. `by_itself`: it goes on by itself, other than this cause does
        as a rule.
        """
        needs_action = cause.needs_action and not by_itself
        status = StepStatus.BLOCKED if needs_action else StepStatus.WAITING
        self._steps.append(Step(step, StepStatus.PASSED if over else status, ""))
        return Explanation(
            subject=self.subject,
            state=self.state,
            cause=cause,
            needs_action=needs_action,
            sentence=sentence,
            detail=" ".join(detail.split()),
            since=min(since or self._since, self.now),
            until=until,
            next=next,
            suggestions=suggestions,
            steps=tuple(self._steps),
            notes=tuple(self._notes),
        )


def first(*checks: Callable[[], Explanation | None]) -> Explanation | None:
    """Run checks in order until one of them ends the walk."""
    return next((found for check in checks if (found := check()) is not None), None)
