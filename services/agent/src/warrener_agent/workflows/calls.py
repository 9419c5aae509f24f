"""The calls of a workflow: their identity, and what the journal knows of them."""

import asyncio
import json
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, NoReturn, TypeVar, cast
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import to_json, to_jsonable_python

from warrener_agent.context import ChildJobSpec
from warrener_agent.workflows import failures
from warrener_agent.workflows.loop import FlowFuture, FlowLoop, caller_line
from warrener_agent.workflows.targets import lines_of
from warrener_contracts.events import (
    Answer,
    Call,
    CallKind,
    JobSignalRequestedData,
    PageSource,
    Suspension,
    UndoRequest,
)
from warrener_contracts.json_safety import find_unsafe_value
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_BODY

R = TypeVar("R")

_log = logging.getLogger("warrener.workflow")

MAX_CALLS = 2_000
MAX_JOURNAL = 1024 * 1024
"""Bytes of JSON: the journal travels with every dispatch of the workflow."""
MAX_ARGUMENTS = MAX_BODY - 16 * 1024
"""Bytes of JSON of a child job's arguments; the rest is for the request around them."""
_ANSWER_SIZE = 120  # bytes of an answer without its result, and without the id of its call
_MAX_CALL_ID = 200
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_WRITTEN_ALIKE = frozenset({str, int, bool, type(None)})  # by pydantic as by json
_MAX_LAST_CALLS = 100  # that are refused at the end of a turn; a body that goes on calling waits from then on
_MAX_REFUSED = 1_000  # and one that does not even wait is ended


class CallSpec(NamedTuple):
    """A call as the body makes it; `arguments` and `request` are JSON already. `check` raises ValueError for
    a call that cannot be made: one that the journal has is not checked again."""

    kind: CallKind
    name: str
    key: str | None = None
    arguments: Any = None
    decode: Callable[[Any], Any] = lambda value: value
    call_id: str | None = None  # of a batch of a map
    size: int | None = None
    stop_after: int | None = None
    function: partial[Any] | None = None  # of a step
    write: Callable[[Any], Any] = to_jsonable_python  # its result as JSON
    policy: JobPolicy | None = None  # of its retries
    requests: Callable[[str], Iterable[ChildJobSpec]] | None = None  # of jobs, by the id of their call
    signal: JobSignalRequestedData | None = None  # that it sends
    source: PageSource | None = None  # of a page
    takes_transaction: bool = False  # of a step
    page: str | None = None  # that a step reads: the id of its call
    undo: UndoRequest | None = None
    detached: bool = False
    check: Callable[[], object] = lambda: None


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
        self,
        loop: FlowLoop,
        turns: Sequence[Suspension],
        size: int,
        child_id: Callable[[str], UUID],
        *,
        generation: int = 0,
        digest_key: bytes = b"",
        pages: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.loop = loop
        self._prefix = f"{generation}/" if generation else ""  # of all ids, and so of child jobs
        self.turn = 0
        self.last_turn = len(turns)
        self.new: list[CallFuture[Any]] = []
        self.closed: list[CallFuture[Any]] = []  # in the last turn
        self.made: dict[str, CallFuture[Any]] = {}
        self.failure: failures.WorkflowError | None = None  # ends the turn, whatever the body does with it
        self.leaving = False
        self.pages = pages or {}  # items that came with the turn, by the call of their page
        self.readers: dict[str, Callable[[], Sequence[Any]]] = {}  # of these
        self.retries = {one.call_id: one for turn in turns for one in turn.retries}  # the last of each step
        self.published: str | None = None  # JSON, in the last turn
        self.continued: dict[str, Any] | None = None  # the arguments of the next generation
        self.last_calls: list[str] = []  # lines of those that were refused at the end of the turn
        self._size, self._child_id, self._digest_key = size, child_id, digest_key
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
        name = f"{self._prefix}{self.loop.current_place().path}/{what}"
        self._ordinals[name] += 1
        return f"{name}#{self._ordinals[name]}"

    def make(self, spec: CallSpec) -> CallFuture[Any]:
        """Make a call. Raises CodeChanged if the journal says another thing."""
        if self.leaving:
            return self._refuse(caller_line())
        prefix = f"{spec.kind}/{spec.name}"
        is_named = spec.key is not None or spec.call_id is not None
        call_id = spec.call_id or _bounded(
            f"{self._prefix}{prefix}/{spec.key}" if is_named else self.ordinal(prefix)
        )
        if call_id in self.made:
            raise ValueError(f"expected one call of {prefix} with key {spec.key!r}, got it twice")
        mark = "" if spec.kind is CallKind.SIGNAL else digest(spec.arguments, self._digest_key)
        call, turn = self._known.get(call_id, (None, 0))
        if call is None or turn != self.turn or (call.digest, call.size) != (mark, spec.size):
            call = self._new_call(spec, call_id, mark)
        future: CallFuture[Any] = CallFuture(self, call, spec, self.turn)
        if self.turn == self.last_turn:
            self._record(future)
        self.made[call_id] = future
        if spec.kind is CallKind.SIGNAL:
            self._receive(future)
        elif spec.kind is CallKind.SEND:
            future.set_result(None)
        return future

    def _new_call(self, spec: CallSpec, call_id: str, mark: str) -> Call:
        if finding := find_unsafe_value([spec.name, spec.key]):
            raise ValueError(f"expected a name and a key that JSON and PostgreSQL can store, {finding}")
        spec.check()
        line = caller_line()
        call = Call(
            call_id=call_id,
            kind=spec.kind,
            name=spec.name,
            digest=mark,
            line=line,
            job_id=self._child_id(call_id) if spec.kind is CallKind.JOB else None,
            size=spec.size,
            stop_after=spec.stop_after,
            source=spec.source,
            page=spec.page,
            undo=spec.undo,
            detached=spec.detached,
        )
        if difference := self._difference(call):
            raise self.refuse_code(f"{difference}, at {line}")
        if spec.kind is CallKind.JOB:
            self.check_arguments(spec.name, spec.arguments)
        return call

    def refer(self, future: CallFuture[Any]) -> Call:
        """Leave the result of a call out of the journal, if it was made in this turn; return the call."""
        if self.is_live and future.turn == self.turn:
            future.call = future.call.model_copy(update={"by_reference": True})
        return future.call

    def map_id(self, name: str) -> str:
        """A name for the next map of the running task: the ids of its batches begin with it."""
        return _bounded(self.ordinal(f"{CallKind.MAP}/{name}"), _MAX_CALL_ID - 10)

    def recorded_size(self, call_id: str) -> int | None:
        """The number of jobs of a batch that the journal has; None for a new one."""
        call, _ = self._known.get(call_id, (None, 0))
        return None if call is None else call.size

    def member_id(self, call: Call, place: int) -> UUID:
        """The id of one job of a batch."""
        return self._child_id(f"{call.call_id}/{place}")

    def check_arguments(self, name: str, arguments: Any) -> int:
        """The bytes of the arguments of a child job. Raises BadCall for too many."""
        if (size := len(to_json(arguments))) > MAX_ARGUMENTS:
            what = f"expected arguments of {name} of at most {MAX_ARGUMENTS} bytes of JSON, got {size}"
            raise failures.BadCall(f"{what} at {caller_line()}: put the data elsewhere")
        return size

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

    def publish(self, state_text: str) -> None:
        """Publish a state, unless an earlier turn has."""
        if self.is_live and not self.leaving:
            self.published = state_text

    def continue_as(self, arguments: dict[str, Any]) -> NoReturn:
        """End the generation, whatever the body does then."""
        if self.leaving:
            self._refuse(caller_line())
        elif not self.is_live:
            raise self.refuse_code("expected the workflow to wait as its journal says, got flow.continue_as")
        else:
            self.continued = arguments
        raise TurnEnded("the workflow goes on in another generation")

    def unreceived(self, answers: Iterable[Answer]) -> tuple[str, ...]:
        """The calls whose signals nothing has received: of `answers`, which were not given, and those that
        lost their receivers. The next generation receives them."""
        early = (answer for each in self._early.values() for answer in each)
        calls = (one.call_id for one in (*early, *answers) if one.signal_id is not None)
        return tuple(call_id for call_id in calls if call_id is not None)

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
            if (ended := answer.members) and ended.succeeded + ended.failed < (future.call.size or 0):
                self.close(future)  # its map has stopped: the others of its jobs are cancelled

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
            "itself: use flow.now() or flow.random()"
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
        for field in ("kind", "name", "size", "digest"):
            if getattr(known, field) != getattr(call, field):
                what = "other arguments" if field == "digest" else f"another {field}"
                if call.kind is CallKind.MAP:
                    what = "another first or last item, or key" if field == "digest" else f"{call.size} items"
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


def digest(arguments: Any, key: bytes = b"") -> str:
    """16 hexadecimal digits of arguments, the same for the same JSON; with a key, nobody can guess them."""
    text: bytes | None = None
    named = cast("dict[str, Any]", arguments) if type(arguments) is dict else None
    if named is not None and {*map(type, named.values())} <= _WRITTEN_ALIKE:
        with suppress(ValueError):  # a lone surrogate; else the same bytes, in a quarter of the time
            text = to_json(dict(sorted(named.items())))
    if text is None:
        text = _SORTED.encode(arguments).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8, key=key).hexdigest()


def _bounded(call_id: str, limit: int = _MAX_CALL_ID) -> str:
    if len(call_id) <= limit:
        return call_id
    tail = blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{call_id[: limit - len(tail) - 1]}~{tail}"


def _described(call: Call) -> str:
    return f"call {call.call_id}" + (f" of {call.line}" if call.line else "")


def _resolve(future: CallFuture[Any], answer: Answer) -> None:
    call = future.call
    is_job = call.kind in {CallKind.JOB, CallKind.PAGE}
    if is_job and (answer.error or answer.state not in {None, JobState.SUCCEEDED}):
        future.set_exception(failures.ChildJobFailed(answer.state, answer.error, call))
    elif answer.error is not None:
        future.set_exception(failures.StepFailed(call.name, answer.error, answer.tries))
    elif call.kind in {CallKind.MAP, CallKind.PAGE}:
        future.set_result(answer.members or answer.page)
    elif call.by_reference:
        what = f"expected the result of {call.name} to be read in pages, as flow.map and flow.pages do"
        future.set_exception(failures.ResultReferred(f"{what}, got an await of it; call it at {call.line}"))
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
