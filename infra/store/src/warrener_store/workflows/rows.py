"""Turns and signals of workflows as frozen values. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from warrener_contracts.events import Answer, ErrorInfo, JobRequestedData, Journal, Suspension, Turn
from warrener_contracts.fields import JsonObject
from warrener_contracts.identity import child_job_id
from warrener_contracts.journals import all_calls, is_retry, replayed_answers
from warrener_contracts.state_machine import JobState
from warrener_store.encoding import decode, encode

_PAST = frozenset({"calls", "answers", "closed", "retries", "wake_at", "timer_line"})
"""The fields of a suspension that later turns do not depend on, if its calls have ended."""
MAX_SIGNALS = 1_000
"""Signals that the store keeps of one job, those that it has received too; and as many of earlier
generations."""


class MemberOf(NamedTuple):
    """The batch of a map of its parent that a job belongs to: `member_of` of its row is `size/call_id`, and
    `size!/call_id` if its failure may end the map."""

    call_id: str
    size: int
    stops: bool

    @classmethod
    def read(cls, text: str) -> "MemberOf":
        size, _, call_id = text.partition("/")
        return cls(call_id, int(size.removesuffix("!")), size.endswith("!"))

    @staticmethod
    def of(data: JobRequestedData) -> str | None:
        """The text of the row that `data` requests."""
        member = data.member_of
        return None if member is None else f"{member.size}{'!' if member.stops else ''}/{member.call_id}"


def member_ids(parent: UUID, call_id: str, size: int, first: int = 0) -> list[UUID]:
    """The ids of the jobs of a batch from number `first` on, in the order of its items."""
    return [child_job_id(parent, f"{call_id}/{number}") for number in range(first, size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn of a workflow: an attempt that began with new answers, or that ended with a suspension."""

    job_id: UUID
    attempt: int
    answers: tuple[Answer, ...] = ()  # with which it began
    began_at: datetime | None = None
    suspension: Suspension | None = None  # None: it waits, runs, or did not end so
    suspended_at: datetime | None = None

    @property
    def continued(self) -> JsonObject | None:
        """The arguments of the generation that it began; None if it began none."""
        return None if self.suspension is None else self.suspension.continued


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow:
    """A signal that was sent to a workflow, which may not exist yet."""

    job_id: UUID
    signal_id: str
    name: str
    data: Any
    received_at: datetime


class WaitKind(StrEnum):
    """Waits of suspended workflows, by their object; of several the first of these."""

    CHILD = "child"
    SIGNAL = "signal"
    TIMER = "timer"  # also the next try of a step
    HELD = "held"  # an operator
    END = "end"  # its child jobs and its undos, then it ends


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRow:
    """The wait of a suspended workflow."""

    job_id: UUID
    kind: WaitKind
    since: datetime


class WaitCount(NamedTuple):
    """How many workflows wait for one kind, up to the bound of the query, and since when the first does."""

    jobs: int
    oldest: datetime | None


class ChildStatus(NamedTuple):
    """How far a job is, without what it holds."""

    job_id: UUID
    state: JobState
    attempt: int
    finished_at: datetime | None
    cancel_requested: bool


class ChildEnd(NamedTuple):
    """How a job has ended. `result_size`: bytes of JSON in the store; a result that is too large is None."""

    job_id: UUID
    state: JobState
    attempt: int
    finished_at: datetime
    error: ErrorInfo | None
    cancel_reason: str | None
    ending_reason: str | None
    result_size: int
    result: Any


def journal_of(turns: Sequence[TurnRow]) -> Journal:
    """The journal that a dispatch carries, as if no call had been requested again. `turns`: those of one
    job's generation, by attempt."""
    generation = 0 if arguments_of(turns) is None else turns[0].attempt
    turns = turns[1:] if generation else turns
    jobs = {call.call_id: call.job_id for call in all_calls(turns)} if any(map(is_retry, turns)) else {}

    def suspension(turn: TurnRow) -> Suspension | None:
        if turn.suspension is None or not jobs:
            return turn.suspension
        calls = (call.model_copy(update={"job_id": jobs.get(call.call_id)}) for call in turn.suspension.calls)
        return None if is_retry(turn) else turn.suspension.model_copy(update={"calls": tuple(calls)})

    return Journal(
        generation=generation,
        turns=tuple(
            Turn(attempt=one.attempt, answers=answers, suspension=suspension(one))
            for one, answers in zip(turns, replayed_answers(turns), strict=True)
        ),
    )


def arguments_of(turns: "Sequence[TurnRow | StoredTurn]") -> JsonObject | None:
    """The arguments of a generation, by the turn that began it; None for the first, which has those of the
    request."""
    return turns[0].continued if turns else None


class StoredTurn(NamedTuple):
    """A turn as it is stored: its answers and its suspension are JSON."""

    attempt: int
    answers: str
    suspension: str | None
    suspended_at: datetime | None = None

    @property
    def may_retry(self) -> bool:
        """True if calls may have been requested again. Cheap; False is certain."""
        return self.suspension is not None and '"retry_of"' in self.suspension

    @property
    def may_read_pages(self) -> bool:
        """True if its calls may be pages of results. Cheap; False is certain."""
        return self.suspension is not None and '"source"' in self.suspension

    @property
    def continued(self) -> JsonObject | None:
        """The arguments of the generation that it began; None if it began none."""
        if self.suspension is None or '"continued"' not in self.suspension:
            return None
        found: JsonObject | None = decode(self.suspension).get("continued")
        return found


def journal_json(turns: Sequence[StoredTurn]) -> str:
    """The same as JSON, of turns that are only read if calls were requested again; of a step that is tried
    again with its last failure alone."""
    turns = _with_last_failures(turns)
    if any(turn.may_retry for turn in turns):
        rows = [_read_turn(UUID(int=0), turn) for turn in decode(_join(turns))]
        return encode(journal_of(rows).model_dump(mode="json", exclude_none=True))
    is_later = arguments_of(turns) is not None
    generation = f'"generation":{turns[0].attempt},' if is_later else ""
    joined = _join(turns[1:] if is_later else turns)
    return f'{{{generation}"turns":{joined},"size":{len(joined.encode("utf-8", "surrogatepass"))}}}'


def _with_last_failures(turns: Sequence[StoredTurn]) -> list[StoredTurn]:
    """Leave out the failures of steps that later ones follow: a step may be tried a thousand times."""
    found, later = list(turns), set[str]()
    for place in range(len(found) - 1, -1, -1):
        if '"retries"' in (text := found[place].suspension or ""):
            suspension = decode(text)
            retries = suspension.pop("retries", [])
            if left := [one for one in retries if one["call_id"] not in later]:
                suspension["retries"] = left
            later.update(one["call_id"] for one in retries)
            if len(left) < len(retries):
                found[place] = found[place]._replace(suspension=encode(suspension))
    return found


def _join(turns: Iterable[StoredTurn]) -> str:
    parts = (
        f'{{"attempt":{attempt}'
        + (f',"answers":{answers}' if answers != "[]" else "")
        + (f',"suspension":{suspension}}}' if suspension is not None else "}")
        for attempt, answers, suspension, _ in turns
    )
    return f"[{','.join(parts)}]"


def open_turns(job_id: UUID, stored: Sequence[StoredTurn], *, since: int) -> list[TurnRow]:
    """Read of the turns of a job those on which its next turn depends, without the calls that have ended.

    Left out are the turns before attempt `since` that only made such calls and gave their answers, except
    signals and the latest answer: to validate each twice is a third of what the last of a thousand steps
    costs.
    """
    stored = _with_last_failures(stored)
    if any(turn.may_retry for turn in stored):
        return whole_turns(job_id, stored)
    turns: list[dict[str, Any]] = decode(_join(stored))
    suspensions: list[dict[str, Any]] = [turn.get("suspension") or {} for turn in turns]
    answers = [
        turn.get("answers", []) + one.get("answers", []) for turn, one in zip(turns, suspensions, strict=True)
    ]
    ended = {answer.get("call_id") for some in answers for answer in some}
    ended.update(call_id for one in suspensions for call_id in one.get("closed", ()))
    moments = [answer["at"] for some in answers for answer in some]
    latest = max(moments, key=datetime.fromisoformat, default=None)
    found: list[TurnRow] = []
    for turn, suspension, given, one in zip(turns, suspensions, answers, stored, strict=True):
        for name in ("calls", "retries"):
            suspension[name] = [each for each in suspension.get(name, ()) if each["call_id"] not in ended]
        is_open = suspension["calls"] or suspension["retries"]
        is_past = turn["attempt"] < since and not is_open and suspension.keys() <= _PAST
        if not is_past or any("signal_id" in each or each["at"] == latest for each in given):
            found.append(_read_turn(job_id, turn, one.suspended_at))
    return found


def whole_turns(job_id: UUID, stored: Sequence[StoredTurn]) -> list[TurnRow]:
    """Read all turns of a job."""
    turns: list[dict[str, Any]] = decode(_join(stored))
    return [_read_turn(job_id, turn, one.suspended_at) for turn, one in zip(turns, stored, strict=True)]


def _read_turn(job_id: UUID, turn: dict[str, Any], suspended_at: datetime | None = None) -> TurnRow:
    read = Turn.model_validate(turn)
    return TurnRow(
        job_id=job_id,
        attempt=read.attempt,
        answers=read.answers,
        suspension=read.suspension,
        suspended_at=suspended_at,
    )
