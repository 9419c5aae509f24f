"""Workflows with a past, for the tests of their graph: turns, child jobs, and the job itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from tests.store_rows import after, queued_job, running_job

from warrener.operations.masking import Masker
from warrener.operations.workflows import JobCall, calls_of
from warrener.web.charts.workflow_graph import WorkflowGraph, read_graph
from warrener_contracts.events import (
    Answer,
    Call,
    CallKind,
    ErrorInfo,
    ErrorKind,
    MemberFailure,
    MembersEnd,
    Suspension,
)
from warrener_contracts.identity import undo_job_id
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import TurnRow

WORKFLOW_ID = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")
NO_ROOM = ErrorInfo(kind=ErrorKind.ERROR, type="NoRoom", message="all vans are full")


def child_id(call_id: str) -> UUID:
    return uuid5(WORKFLOW_ID, call_id)


@dataclass
class Course:
    """A workflow that was requested at noon. Calls are written `0/job/cards.charge#1`."""

    turns: list[TurnRow] = field(default_factory=list[TurnRow])
    jobs: dict[UUID, JobRow] = field(default_factory=dict[UUID, JobRow])
    undo: Mapping[str, str] = field(default_factory=dict[str, str])

    def turn(
        self,
        seconds: float,
        calls: str | list[str] = "",
        *,
        ended: Mapping[str, float] | None = None,
        died: Mapping[str, float] | None = None,
        steps: Mapping[str, float] | None = None,
        wake: float | None = None,
    ) -> "Course":
        """A turn that began with these ends of calls, by the second of each, made these calls and ended at
        `seconds`; its next timer is due at `wake`. An end of "" is a time that came."""
        ends = [self._answer(one, at, JobState.SUCCEEDED, None) for one, at in (ended or {}).items()]
        ends += [self._answer(one, at, JobState.DEAD, NO_ROOM) for one, at in (died or {}).items()]
        made = [self._call(one) for one in (calls.split() if isinstance(calls, str) else calls)]
        suspension = Suspension.model_validate(
            {
                "calls": made,
                "answers": [{"call_id": one, "at": after(at)} for one, at in (steps or {}).items()],
                "wake_at": None if wake is None else after(wake),
                "timer_line": None if wake is None else "orders.py:50",
            }
        )
        self.turns.append(
            TurnRow(
                job_id=WORKFLOW_ID,
                attempt=len(self.turns) + 1,
                answers=tuple(sorted(ends, key=lambda one: one.at)),
                suspension=suspension,
                suspended_at=after(seconds),
            )
        )
        return self

    def last_turn(self, ended: Mapping[str, float], died: Mapping[str, float] | None = None) -> "Course":
        """The turn that came to the end of the body."""
        self.turn(0, ended=ended, died=died)
        last = self.turns.pop()
        self.turns.append(TurnRow(job_id=last.job_id, attempt=last.attempt, answers=last.answers))
        return self

    def undone(self, call_id: str, state: JobState) -> "Course":
        """The job that undoes a call."""
        job_id = undo_job_id(WORKFLOW_ID, call_id)
        self.jobs[job_id] = running_job(job_id=job_id, parent_id=WORKFLOW_ID, state=state)
        return self

    def row(self, state: JobState = JobState.SUSPENDED, **fields: Any) -> JobRow:
        plain: dict[str, Any] = {"job_id": WORKFLOW_ID, "job_type": "orders.fulfil", "state": state}
        return queued_job(**(plain | {"attempt": len(self.turns), "suspensions": 1} | fields))

    def calls(self, row: JobRow) -> list[JobCall]:
        return calls_of(row, self.turns, self.jobs, Masker(()))

    def graph(self, now: float = 3600, state: JobState = JobState.SUSPENDED, **fields: Any) -> WorkflowGraph:
        row = self.row(state, **fields)
        return read_graph(row, self.calls(row), self.turns, after(now))

    def _call(self, call_id: str) -> dict[str, Any]:
        kind = next(one for one in ("map", "job", "step", "signal") if f"{one}/" in call_id)
        name = call_id.partition(f"{kind}/")[2].partition("#")[0].partition("/")[0]
        call: dict[str, Any] = {"call_id": call_id, "kind": kind, "name": name}
        call["line"] = f"orders.py:{30 + len(name)}"
        if kind == "job":
            call["job_id"] = child_id(call_id)
        if name in self.undo:
            call["undo"] = {"job_type": self.undo[name]}
        return call

    def _answer(self, call_id: str, at: float, state: JobState, error: ErrorInfo | None) -> Answer:
        is_job = "job/" in call_id
        return Answer(
            call_id=call_id or None,
            at=after(at),
            state=state if is_job else None,
            error=error if is_job else None,
        )


def order_that_was_undone() -> Course:
    """An order: a price, stock and a card at once, then a van that has no room; its calls are undone."""
    names = {"stock.reserve": "stock.release", "cards.charge": "cards.refund", "vans.book": "vans.cancel"}
    course = Course(undo=names)
    course.turn(0.4, "0/step/price#1", steps={"0/step/price#1": 0.45})
    course.turn(0.6, "0/job/stock.reserve#1 0/job/cards.charge#1")
    course.turn(2, ended={"0/job/stock.reserve#1": 1.9})
    course.turn(
        5.3, "0/signal/packed#1 0/job/mail.receipt#1", ended={"0/job/cards.charge#1": 5.2}, wake=86_400
    )
    course.turn(9, ended={"0/job/mail.receipt#1": 8})
    course.turn(60, "0/job/vans.book#1", ended={"0/signal/packed#1": 58})
    course.last_turn({}, died={"0/job/vans.book#1": 75})
    course.undone("0/job/cards.charge#1", JobState.SUCCEEDED).undone("0/job/vans.book#1", JobState.DEAD)
    return course.undone("0/job/stock.reserve#1", JobState.RUNNING)


def map_of(items: int, failures: int = 3, in_flight: int = 50) -> Course:
    """A list of files, a map over them, and a report. The last ones of the map die."""
    course = Course().turn(0.2, "0/job/files.list#1")
    calls = [f"job/files.load/0/map#1/{number}" for number in range(items)]
    at, ended = 1.5, {"0/job/files.list#1": 1.5}
    died: dict[str, float] = {}
    for start in range(0, items, in_flight):
        course.turn(at + 0.1, calls[start : start + in_flight], ended=ended, died=died)
        at += 4
        batch = calls[start : start + in_flight]
        dead = [one for one in batch if int(one.rpartition("/")[2]) >= items - failures]
        died = dict.fromkeys(dead, at)
        ended = {one: at - 0.001 * len(one) for one in batch if one not in died}
    return course.turn(at + 0.1, "0/job/files.report#1", ended=ended, died=died)


def batches() -> Course:
    """A map of 1,200 in three batches; one of them has ended, with two failures."""
    calls = tuple(
        Call(
            call_id=f"map/files.load/0/map#1/{n}",
            kind=CallKind.MAP,
            name="files.load",
            line="f.py:7",
            size=size,
        )
        for n, size in enumerate((500, 500, 200))
    )
    failed = MemberFailure(number=7, state=JobState.DEAD, error=NO_ROOM)
    end = MembersEnd(succeeded=498, failed=2, failures=(failed,))
    course = Course()
    for attempt, call in enumerate(calls, 1):
        answers = (Answer(call_id=calls[0].call_id, at=after(2), members=end),) if attempt == 3 else ()
        course.turns.append(
            TurnRow(
                job_id=WORKFLOW_ID,
                attempt=attempt,
                answers=answers,
                suspension=Suspension(calls=(call,)),
                suspended_at=after(attempt),
            )
        )
    return course


def branches(of: int = 4, long: int = 3) -> Course:
    """Tasks that go on by themselves, each at its own pace, and what follows them all."""
    course = Course().turn(0.1, "0/job/branches.plan#1")
    steps = [(6 + place * (3 + branch), branch, place) for branch in range(of) for place in range(long)]
    ended = {"0/job/branches.plan#1": 5.0}
    course.turn(6, " ".join(f"0.{branch}/job/first.part#1" for branch in range(of)), ended=ended)
    for at, branch, place in sorted(steps):
        name, later = ("first", "second", "third")[place % 3], ("second", "third", "")[place % 3]
        call = f"0.{branch}/job/{later}.part#1" if later else ""
        course.turn(at + 3.1, call, ended={f"0.{branch}/job/{name}.part#1": at + 3})
    return course.turn(60, "0/job/branches.join#1", ended={"": 59})
