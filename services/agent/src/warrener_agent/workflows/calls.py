"""The calls of a workflow: their identity, and what the journal knows of them."""

import asyncio
import json
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import to_json, to_jsonable_python

from warrener_agent.context import ChildJobSpec
from warrener_agent.workflows import failures
from warrener_agent.workflows.loop import FlowFuture, FlowLoop, caller_line
from warrener_agent.workflows.targets import lines_of
from warrener_contracts.events import Answer, Call, CallKind, Suspension, UndoRequest
from warrener_contracts.json_safety import find_unsafe_value
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_BODY

R = TypeVar("R")

_log = logging.getLogger("warrener.workflow")

MAX_CALLS = 2_000
MAX_JOURNAL = 1024 * 1024
"""Bytes of JSON: the journal travels with every dispatch of the workflow. A map of 1,900 items with small
results fits."""
MAX_ARGUMENTS = MAX_BODY - 16 * 1024
"""Bytes of JSON of a child job's arguments; the rest is for the request around them."""
_ANSWER_SIZE = 120  # bytes of an answer without its result, and without the id of its call
_MAX_CALL_ID = 200
_MAX_LAST_CALLS = 100  # that are refused at the end of a turn; a body that goes on calling waits from then on
_MAX_REFUSED = 1_000  # and one that does not even wait is ended


@dataclass(frozen=True, kw_only=True)
class CallSpec:
    """A call as the body makes it; `arguments` and `request` are JSON already."""

    kind: CallKind
    name: str
    key: str | None = None
    arguments: Any = None
    decode: Callable[[Any], Any] = lambda value: value
    function: partial[Any] | None = None  # of a step
    write: Callable[[Any], Any] = to_jsonable_python  # its result as JSON
    request: Callable[[str], ChildJobSpec] | None = None  # of a job, by the id of its call
    undo: UndoRequest | None = None
    detached: bool = False


class TurnEnded(asyncio.CancelledError):
    """A body made a call when its turn had ended. Nothing was recorded; the next turn goes on."""


class CallFuture(FlowFuture[R]):
    """The result of a call. To cancel it closes the call, and cancels the child job."""

    def __init__(self, calls: "CallTable", call: Call, spec: CallSpec, turn: int) -> None:
        self._calls, self.call, self.spec, self.turn = calls, call, spec, turn
        super().__init__(calls.loop, call.call_id)

    @property
    def job_id(self) -> UUID:
        """The id of the child job. Raises WorkflowError for another call, which has none."""
        if self.call.job_id is None:
            raise failures.WorkflowError(f"expected the call of a job, got {self.call.kind} {self.call.name}")
        return self.call.job_id

    def reserve(self, count: int) -> None:
        """Raise JournalFull unless the journal has room for so many calls like this one, itself included."""
        self._calls.reserve(self, count)

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self._calls.close(self)
        return True


class CallTable:
    """The calls of one run of a body. `turn` is the number of the turn that it goes through: in the last
    one, behind those that are `recorded`, calls may be new."""

    def __init__(
        self, loop: FlowLoop, turns: Sequence[Suspension], size: int, child_id: Callable[[str], UUID]
    ) -> None:
        self.loop = loop
        self.turn = 0
        self.last_turn = len(turns)
        self.new: list[CallFuture[Any]] = []
        self.closed: list[CallFuture[Any]] = []  # in the last turn
        self.made: dict[str, CallFuture[Any]] = {}
        self.failure: failures.WorkflowError | None = None  # ends the turn, whatever the body does with it
        self.leaving = False
        self.last_calls: list[str] = []  # lines of those that were refused at the end of the turn
        self._size, self._child_id = size, child_id
        self._recorded = [one.calls for one in turns]
        self._recorded_closed = [one.closed for one in turns]
        self._known = {call.call_id: (call, turn) for turn, one in enumerate(turns) for call in one.calls}
        self.markers: list[Call] = []  # new ones
        self._changes: dict[str, bool] = {}  # the ways that this run has taken
        self._ordinals: Counter[str] = Counter()
        self._receivers: defaultdict[str, deque[CallFuture[Any]]] = defaultdict(deque)
        self._early: defaultdict[str, deque[Answer]] = defaultdict(deque)  # signals that lost their receiver

    @property
    def is_live(self) -> bool:
        """True in the turn that is not recorded yet."""
        return self.turn == self.last_turn

    def ordinal(self, what: str) -> str:
        """A name for the next `what` of the running task: the same in every turn."""
        name = f"{self.loop.current_place().path}/{what}"
        self._ordinals[name] += 1
        return f"{name}#{self._ordinals[name]}"

    def make(self, spec: CallSpec) -> CallFuture[Any]:
        """Make a call. Raises CodeChanged if the journal says another thing."""
        line = caller_line()
        if self.leaving:
            return self._refuse(line)
        word = f"{spec.kind}/{spec.name}"
        if finding := find_unsafe_value([spec.name, spec.key]):
            raise ValueError(f"expected a name and a key that JSON and PostgreSQL can store, {finding}")
        call_id = _bounded(self.ordinal(word) if spec.key is None else f"{word}/{spec.key}")
        call = Call(
            call_id=call_id,
            kind=spec.kind,
            name=spec.name,
            digest="" if spec.kind is CallKind.SIGNAL else digest(spec.arguments),
            line=line,
            job_id=self._child_id(call_id) if spec.kind is CallKind.JOB else None,
            undo=spec.undo,
            detached=spec.detached,
        )
        if call_id in self.made:
            raise ValueError(f"expected one call of {word} with key {spec.key!r}, got it twice")
        if difference := self._difference(call):
            raise self.refuse_code(f"{difference}, at {line}")
        future: CallFuture[Any] = CallFuture(self, call, spec, self.turn)
        if self.is_live:
            if spec.kind is CallKind.JOB and (size := len(to_json(spec.arguments))) > MAX_ARGUMENTS:
                what = f"expected arguments of {spec.name} of at most {MAX_ARGUMENTS} bytes of JSON"
                self.failure = failures.JournalFull(f"{what}, got {size} at {line}: put the data elsewhere")
                raise self.failure
            self._record(future)
        self.made[call_id] = future
        if spec.kind is CallKind.SIGNAL:
            self._receive(future)
        return future

    def changed(self, name: str) -> bool:
        """True if the journal has the marker of the change, or gets it now, in the turn that is not recorded
        yet. The same throughout the run, so that a loop keeps its way."""
        if name not in self._changes:
            if finding := find_unsafe_value(name):
                raise ValueError(f"expected a name that JSON and PostgreSQL can store, {finding}")
            call_id = _bounded(f"{CallKind.MARKER}/{name}")
            marker = Call(call_id=call_id, kind=CallKind.MARKER, name=name, line=caller_line())
            is_known = marker.call_id in self._known
            self._changes[name] = is_known or self.is_live
            if self.is_live and not is_known and not self.leaving:
                self._size += len(marker.model_dump_json())
                self._bound(marker, len(self.made) + len(self._changes), self._size)
                self.markers.append(marker)
        return self._changes[name]

    def _record(self, future: CallFuture[Any]) -> None:
        self._size += len(to_json(future.call))
        self._bound(future.call, len(self.made) + 1, self._size)
        self.new.append(future)

    def answer(self, answer: Answer) -> None:
        """Resolve the call that the answer names, if any still awaits it."""
        if answer.call_id is None:
            return
        future = self.made.get(answer.call_id)
        if future is None:
            raise self.refuse_code(f"expected call {answer.call_id}, which the journal answers, got none")
        if future.call.kind is CallKind.SIGNAL:
            self._deliver(future, answer)
        elif not future.done():
            _resolve(future, answer)

    def end_turn(self) -> None:
        """Go on to the next recorded turn. Raises CodeChanged if the body made fewer calls than recorded."""
        for call in self._recorded[self.turn]:
            if call.call_id not in self.made and call.kind is not CallKind.MARKER:
                raise self.refuse_code(f"expected {_described(call)}, which the journal has, got none")
        self.turn += 1

    def close(self, future: CallFuture[Any]) -> None:
        """Record that nothing awaits the call any longer."""
        if self.is_live and not self.leaving:
            self.closed.append(future)

    def open_calls(self) -> list[CallFuture[Any]]:
        """The calls that still wait, in their order."""
        return [future for future in self.made.values() if not future.done()]

    def refuse_code(self, what: str) -> failures.CodeChanged:
        """The error for code that does not fit the journal."""
        error = failures.CodeChanged(
            f"{what}: the code has changed since the workflow began: bring the call back, keep both ways by "
            "flow.changed, or cancel the job and request it again; or the body takes a time or random value "
            "itself: use flow.now()"
        )
        self.failure = self.failure or error
        return error

    def _difference(self, call: Call) -> str | None:
        if call.call_id not in self._known:
            if self.is_live:
                return None
            left = (_described(one) for one in self._recorded[self.turn] if one.call_id not in self.made)
            return f"expected {next(left, 'no other calls')} as the journal has, got {_described(call)}"
        known, turn = self._known[call.call_id]
        for field in ("kind", "name", "digest"):
            if getattr(known, field) != getattr(call, field):
                what = "other arguments" if field == "digest" else f"another {field}"
                return f"expected {_described(known)}, got {_described(call)} with {what}"
        if turn != self.turn:
            return f"expected {_described(known)} in turn {turn + 1}, got it in turn {self.turn + 1}"
        return None

    def reserve(self, future: CallFuture[Any], count: int) -> None:
        """Refuse so many calls like this one at once, rather than the last when all others are done."""
        each = len(to_json(future.call)) + len(to_json(future.call.call_id)) + _ANSWER_SIZE
        if self.is_live and not self.leaving:
            self._bound(future.call, len(self.made) + count - 1, self._size + each * count)

    def _bound(self, call: Call, calls: int, size: int) -> None:
        if calls > MAX_CALLS or size > MAX_JOURNAL:
            self.failure = self.failure or failures.JournalFull(
                f"expected at most {MAX_CALLS} calls and {MAX_JOURNAL // 1024} KiB of journal, got {calls} "
                f"and {size // 1024} at {call.line}: give parts of the work to child workflows, each with a "
                "flow.map of its own, and return small results"
            )
            raise self.failure

    def _refuse(self, line: str) -> CallFuture[Any]:
        if len(self.last_calls) >= _MAX_REFUSED:  # no CancelledError, which a body may go on after
            raise failures.WorkflowError(f"the turn has ended: the body went on calling at {line}")
        self.last_calls.append(line)
        if len(self.last_calls) > _MAX_LAST_CALLS:
            return self.loop.create_future()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
        raise TurnEnded(f"the turn has ended: the call at {line} is not made")

    # -- signals -------------------------------------------------------------------------------------------

    def _receive(self, future: CallFuture[Any]) -> None:
        early = self._early[future.call.name]
        while early and not future.done():
            self._hand_on(future, early.popleft())
        if not future.done():
            self._receivers[future.call.name].append(future)

    def _deliver(self, future: CallFuture[Any], answer: Answer) -> None:
        """Give a signal to its call, or to the next receiver: no signal is lost by a timeout."""
        if not future.done():
            # What an earlier turn has set aside stays so, even if the code of today could read it.
            again = future.call.model_copy(update={"call_id": _bounded(f"{future.call.call_id}~")})
            if again.call_id not in self._known and (not self.is_live or self._fits(future, answer)):
                _resolve(future, answer)
                return
            future.call, self.made[again.call_id] = again, future
            if self.is_live:
                self._record(future)
            return
        receivers = self._receivers[future.call.name]
        while receivers:
            if not (other := receivers.popleft()).done():
                if not self._hand_on(other, answer):
                    receivers.appendleft(other)
                return
        self._early[future.call.name].append(answer)

    def _hand_on(self, future: CallFuture[Any], answer: Answer) -> bool:
        """Resolve a call with the signal of another. False if it does not fit, and the call waits on."""
        was_taken = not self.is_live and future.call.call_id in self._recorded_closed[self.turn]
        if not was_taken and not self._fits(future, answer):
            return False
        _resolve(future, answer)
        self.close(future)
        return True

    def _fits(self, future: CallFuture[Any], answer: Answer) -> bool:
        try:
            future.spec.decode(answer.result)
        except ValidationError as error:
            if self.is_live:
                what, line = future.call.name, future.call.line
                _log.warning(
                    "Signal %s at %s does not fit, and is set aside: %s", what, line, lines_of(error)
                )
            return False
        except Exception:  # noqa: BLE001 - whatever a user's validator raises is the call's failure
            return True
        return True


def digest(arguments: Any) -> str:
    """16 hexadecimal digits of arguments; the same for the same JSON."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _bounded(call_id: str) -> str:
    if len(call_id) <= _MAX_CALL_ID:
        return call_id
    tail = blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{call_id[: _MAX_CALL_ID - len(tail) - 1]}~{tail}"


def _described(call: Call) -> str:
    return f"call {call.call_id}" + (f" of {call.line}" if call.line else "")


def _resolve(future: CallFuture[Any], answer: Answer) -> None:
    call = future.call
    if call.kind is CallKind.JOB and (answer.error or answer.state not in {None, JobState.SUCCEEDED}):
        future.set_exception(failures.ChildJobFailed(answer.state, answer.error, call))
    elif answer.error is not None:
        future.set_exception(failures.StepFailed(call.name, answer.error))
    else:
        try:
            future.set_result(future.spec.decode(answer.result))
        except ValidationError as error:
            future.set_exception(
                failures.WorkflowError(
                    f"expected another type at {call.line} from {call.name}: {lines_of(error)}"
                )
            )
        except Exception as error:  # noqa: BLE001 - whatever a user's validator raises is the call's failure
            future.set_exception(error)
