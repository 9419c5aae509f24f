"""The API of a workflow's body: calls, waits, and what is the same in every turn."""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial, wraps
from random import Random
from typing import Any, Concatenate, Generic, Never, NoReturn, ParamSpec, TypeVar, overload
from uuid import UUID, uuid5

from pydantic import ValidationError

from warrener_agent.context import ChildJobSpec, JobContext, encode_checkpoint
from warrener_agent.ledger.port import Transaction
from warrener_agent.workflows import targets
from warrener_agent.workflows.calls import CallFuture, CallSpec, CallTable
from warrener_agent.workflows.failures import BadCall, WorkflowError
from warrener_agent.workflows.loop import FlowLoop, caller_line
from warrener_agent.workflows.maps import Map, MapResult, run_map
from warrener_agent.workflows.pages import ResultPage, is_page, paged_result, read_pages, with_items
from warrener_agent.workflows.targets import JobType
from warrener_contracts.events import (
    MAX_SIGNAL_NAME,
    CallKind,
    JobRequestedData,
    JobSignalRequestedData,
    MapMember,
    UndoRequest,
)
from warrener_contracts.fields import parse_duration
from warrener_contracts.policy import JobPolicy, PolicyOverrides

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Named = TypeVar("Named")

_POLICY_OF_STEP = {"max_attempts", "backoff", "retry_on", "no_retry_on"}

_log = logging.getLogger("warrener.workflow")


def _refusing(method: Callable[P, R]) -> Callable[P, R]:
    """Make BadCall, with the line of the body, of the errors that a method has for its arguments."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except WorkflowError:
            raise
        except (TypeError, ValueError) as error:
            raise BadCall(f"{error}; at {caller_line()}") from error

    return call


@dataclass(frozen=True)
class _Options:
    key: str | None = None
    queue: str | None = None
    delay: timedelta | None = None
    policy: PolicyOverrides | None = None
    detach: bool = False
    result: Any = Any
    undo: UndoRequest | None = None


class Caller(Generic[Named]):
    """Makes calls under some options. `Named` is the result of a job that is called by its name."""

    def __init__(self, calls: CallTable, options: _Options) -> None:
        self._calls, self._options = calls, options

    @overload
    def call(
        self, target: Callable[Concatenate[JobContext, P], Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> CallFuture[R]: ...
    @overload
    def call(
        self, target: "Callable[Concatenate[Workflow, P], Awaitable[R]]", *args: P.args, **kwargs: P.kwargs
    ) -> CallFuture[R]: ...
    @overload
    def call(self, target: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> CallFuture[R]: ...
    @overload
    def call(
        self, target: Callable[Concatenate[JobContext, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> CallFuture[R]: ...
    @overload
    def call(self, target: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> CallFuture[R]: ...
    @overload
    def call(self, target: JobType[P, R], *args: P.args, **kwargs: P.kwargs) -> CallFuture[R]: ...
    @overload
    def call(self, target: str, arguments: Mapping[str, Any] = ..., /) -> CallFuture[Named]: ...

    @_refusing
    def call(self, target: Any, *args: Any, **kwargs: Any) -> CallFuture[Any]:
        """Call a child job: a handler of this code base, a JobType, or a job type by its name.

        Returns at once; the job is requested when the turn ends. To await it returns the job's result, or
        raises ChildJobFailed. A cancelled call cancels its job.

        Raises BadCall for arguments that do not fit.
        """
        return self._call(targets.read_target(target, args, kwargs, self._options.result), self._options)

    @overload
    def step(
        self, function: Callable[Concatenate[Transaction, P], Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> CallFuture[R]: ...
    @overload
    def step(
        self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> CallFuture[R]: ...
    @overload
    def step(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> CallFuture[R]: ...

    @_refusing
    def step(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> CallFuture[Any]:
        """Run a function outside of the workflow: the only way to a socket, a file or another thread.

        A coroutine runs in the agent's event loop, a plain function in a thread, when the turn ends. Its
        result is recorded, and read from the journal from then on. Raises StepFailed if it raised, or, under
        options(policy=PolicyOverrides(max_attempts=5)), if it did so in each of its tries.

        A coroutine function whose first parameter is annotated as a Transaction receives the ledger's: its
        writes commit together with the record of its result, once, whatever dies.
        """
        self._refuse_options("a step", "queue", "delay", "detach", "result", "undo")
        policy = self._options.policy
        if policy is not None and (wrong := policy.model_fields_set - _POLICY_OF_STEP):
            raise ValueError(
                f"expected {', '.join(sorted(_POLICY_OF_STEP))} of a step, got {', '.join(sorted(wrong))}"
            )
        in_transaction = targets.takes_transaction(function)
        if in_transaction and not inspect.iscoroutinefunction(function):
            raise ValueError(
                f"expected `async def` of a step with a transaction: {targets.name_of(function)}"
            )
        targets.check_parameters(function, (None, *args) if in_transaction else args, kwargs)
        write, decode = targets.step_types(function)
        pages = [one.call_id for one in (*args, *kwargs.values()) if is_page(one)]

        def check() -> None:
            if len(pages) > 1 or not self._calls.readers.keys() >= {*pages}:
                raise ValueError("expected a step of one page, called before anything else is awaited")

        fill = partial(with_items, self._calls)
        return self._calls.make(
            CallSpec(
                kind=CallKind.STEP,
                name=targets.name_of(function),
                key=self._options.key,
                arguments=targets.to_plain([args, kwargs], fallback=lambda value: type(value).__qualname__),
                decode=decode,
                function=partial(function, *map(fill, args), **{name: fill(kwargs[name]) for name in kwargs}),
                takes_transaction=in_transaction,
                page=pages[0] if pages else None,
                check=check,
                write=write,
                policy=None if policy is None else policy.apply_to(JobPolicy()),
            )
        )

    @overload
    async def map(
        self,
        target: Callable[..., Awaitable[R]],
        items: Iterable[T] | None = ...,
        *,
        source: CallFuture[Any] | None = ...,
        key: Callable[[T], object] | None = ...,
        in_flight: int = ...,
        stop_after: int | None = ...,
    ) -> MapResult[R]: ...
    @overload
    async def map(
        self,
        target: Callable[..., R] | JobType[..., R],
        items: Iterable[T] | None = ...,
        *,
        source: CallFuture[Any] | None = ...,
        key: Callable[[T], object] | None = ...,
        in_flight: int = ...,
        stop_after: int | None = ...,
    ) -> MapResult[R]: ...
    @overload
    async def map(
        self,
        target: str,
        items: Iterable[T] | None = ...,
        *,
        source: CallFuture[Any] | None = ...,
        key: Callable[[T], object] | None = ...,
        in_flight: int = ...,
        stop_after: int | None = ...,
    ) -> MapResult[Named]: ...

    async def map(
        self,
        target: Any,
        items: Iterable[Any] | None = None,
        *,
        source: CallFuture[Any] | None = None,
        key: Callable[[Any], object] | None = None,
        in_flight: int = 50,
        stop_after: int | None = None,
    ) -> MapResult[Any]:
        """Call a job for each of any number of items, `in_flight` at once, and wait for the ends of all.

        An item is the arguments of its job (a mapping), or the value of the only parameter. `key` names an
        item in the failures. After `stop_after` failures no further jobs are requested, and those that have
        not ended are cancelled. Never raises for a child: its result of another type is a failure too.

        In place of items, `source` is the call of a job that returns a list of them, which stays out of the
        journal: flow.map(load, source=flow.call(list_files)). Raises ChildJobFailed if that job fails.

        The jobs are requested in batches of up to 500, one in each turn. Raises BadCall for an item that does
        not fit and for a key that two items have, before the first job of its batch.
        """
        self._refuse_options("a map", "key", "undo")
        if (items is None) == (source is None) or (source is not None and key is not None):
            raise BadCall(f"expected items, perhaps with a key, or the source of a map; at {caller_line()}")
        options = self._options

        @_refusing
        def read(number: int, name: str, item: Any) -> targets.Target:
            try:
                args, kwargs = targets.spread(target, item)
                return targets.read_target(target, args, kwargs, options.result)
            except (TypeError, ValueError) as error:
                raise ValueError(f"item {number} (key {name!r}) of a map, {item!r:.200}: {error}") from error

        def check(number: int, one: targets.Target) -> None:
            try:
                one.check()
                _request(one, options, "")
            except ValueError as error:
                raise ValueError(f"item {number} of a map: {error}") from error

        spec = Map(
            name=_refusing(targets.job_type_of)(target),
            decode=_refusing(targets.result_reader)(target, options.result),
            read=read,
            check=_refusing(check),
            request=lambda one, key, member: _request(one, options, key, member),
            key=key,
            in_flight=in_flight,
            stop_after=stop_after,
            detached=options.detach,
        )
        return await run_map(self._calls, spec, () if items is None else items, source)

    @overload
    def pages(self, results: MapResult[R]) -> AsyncGenerator[ResultPage[R | None]]: ...
    @overload
    def pages(self, results: CallFuture[list[R]]) -> AsyncGenerator[ResultPage[R]]: ...

    async def pages(self, results: MapResult[Any] | CallFuture[list[Any]]) -> AsyncGenerator[ResultPage[Any]]:
        """Go through the results of a map, or the list that a job returned, however long: 500 of them, or
        256 KiB, at a time. Steps read the items, each before the next page; the journal has none.

        async for page in flow.pages(loaded):
            total += await flow.step(add_up, page)
        """
        if isinstance(results, MapResult):
            paged = results.paged
        else:
            paged = (await paged_result(self._calls, results),)
        async for page in read_pages(self._calls, paged):
            yield page

    @overload
    def options(
        self,
        *,
        key: str | None = ...,
        queue: str | None = ...,
        delay: timedelta | float | str | None = ...,
        policy: PolicyOverrides | None = ...,
        detach: bool | None = ...,
        result: type[T],
    ) -> "Caller[T]": ...
    @overload
    def options(
        self,
        *,
        key: str | None = ...,
        queue: str | None = ...,
        delay: timedelta | float | str | None = ...,
        policy: PolicyOverrides | None = ...,
        detach: bool | None = ...,
    ) -> "Caller[Named]": ...

    @_refusing
    def options(
        self,
        *,
        key: str | None = None,
        queue: str | None = None,
        delay: timedelta | float | str | None = None,
        policy: PolicyOverrides | None = None,
        detach: bool | None = None,
        result: Any = None,
    ) -> "Caller[Any]":
        """Set options of the call that follows: flow.options(key="first", queue="slow").call(...).

        - `key`: identifies the call, in whichever task it is made. Else its task and order do.
        - `queue`, `delay`, `policy`: as in a request. Of the policy a step takes `max_attempts`, `backoff`,
          `retry_on` and `no_retry_on`.
        - `detach`: the child job goes on when the workflow ends (default: it is cancelled then).
        - `result`: the type of the result of a job that is called by its name.
        """
        before = self._options
        return Caller(
            self._calls,
            replace(
                before,
                key=before.key if key is None else key,
                queue=before.queue if queue is None else queue,
                delay=before.delay if delay is None else parse_duration(delay),
                policy=before.policy if policy is None else policy,
                detach=before.detach if detach is None else detach,
                result=before.result if result is None else result,
            ),
        )

    @overload
    def undo(
        self, target: Callable[Concatenate[JobContext, P], object], *args: P.args, **kwargs: P.kwargs
    ) -> "Caller[Named]": ...
    @overload
    def undo(self, target: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> "Caller[Named]": ...
    @overload
    def undo(self, target: JobType[P, Any], *args: P.args, **kwargs: P.kwargs) -> "Caller[Named]": ...
    @overload
    def undo(self, target: str, arguments: Mapping[str, Any] = ..., /) -> "Caller[Named]": ...

    @_refusing
    def undo(self, target: Any, *args: Any, **kwargs: Any) -> "Caller[Any]":
        """Set the job that undoes the call that follows: flow.undo(release, order=1).call(reserve, order=1).

        If the workflow raises, is cancelled or expires, the undos of its calls run, the newest call first.
        """
        read = targets.read_target(target, args, kwargs)
        read.check()
        undo = UndoRequest(job_type=read.job_type, arguments=read.arguments)
        return Caller(self._calls, replace(self._options, undo=undo))

    def _refuse_options(self, what: str, *names: str) -> None:
        """Raise BadCall for options that would have no effect."""
        before = _Options()
        if given := [name for name in names if getattr(self._options, name) != getattr(before, name)]:
            raise BadCall(f"expected no {', '.join(given)} for {what}, got it at {caller_line()}")

    def _call(self, target: targets.Target, options: _Options) -> CallFuture[Any]:
        requests: list[ChildJobSpec] = []  # of a new call: another is not checked, and not requested

        def check() -> None:
            target.check()
            requests.append(_request(target, options, ""))

        def named(call_id: str) -> list[ChildJobSpec]:
            return [replace(one, key=call_id) for one in requests]

        return self._calls.make(
            CallSpec(
                kind=CallKind.JOB,
                name=target.job_type,
                key=options.key,
                arguments=target.arguments,
                decode=target.decode,
                requests=named,
                undo=options.undo,
                detached=options.detach,
                check=check,
            )
        )


def _request(
    target: targets.Target, options: _Options, key: str, member_of: MapMember | None = None
) -> ChildJobSpec:
    try:
        data = JobRequestedData(
            job_type=target.job_type,
            arguments=target.arguments,
            queue=options.queue,
            delay=options.delay,
            policy=options.policy,
        )
    except ValidationError as error:
        raise ValueError(f"expected a request that can be made: {targets.lines_of(error)}") from error
    return ChildJobSpec(
        data.job_type,
        data.arguments,
        key,
        data.queue,
        None if data.delay is None else data.delay.total_seconds(),
        data.policy,
        options.detach,
        member_of,
    )


class Workflow(Caller[Any]):
    """The running workflow; the parameter of its body that is annotated with this class receives it.

    The body runs again in every turn, from its beginning through the answers that its calls were given. So it
    does nothing outside but by calls, and `finally` blocks run in every turn (`leaving` is True then).
    """

    def __init__(
        self,
        loop: FlowLoop,
        calls: CallTable,
        job_id: UUID,
        deadline: datetime | None,
        check: Callable[[dict[str, Any]], object],
    ) -> None:
        super().__init__(calls, _Options())
        self._loop, self._job_id, self._deadline = loop, job_id, deadline
        self._check = check
        self.log = _FlowLog(self)
        """Log lines that are left out when the body only repeats what it has done."""

    @property
    def job_id(self) -> UUID:
        return self._job_id

    @property
    def deadline(self) -> datetime | None:
        """When the job expires; None if never."""
        return self._deadline

    @property
    def is_replaying(self) -> bool:
        """True if the body repeats what an earlier turn has done."""
        return not self._calls.is_live

    @property
    def leaving(self) -> bool:
        """True if the turn is over: the body is not, it goes on in the next one."""
        return self._calls.leaving

    @_refusing
    def changed(self, name: str) -> bool:
        """True if this job takes the new way of a change, False if it came past here before the change.

        if flow.changed("weigh first"): the new way; else: the old one. So a release reaches running jobs. The
        answer holds for the name in all of the body, in this turn and in each later one.
        """
        if not 1 <= len(name) <= MAX_SIGNAL_NAME:
            raise ValueError(f"expected a name of 1 to {MAX_SIGNAL_NAME} characters, got {name!r:.300}")
        return self._calls.changed(name)

    def now(self) -> datetime:
        """The time of the answer that the body was given last; before the first one, that at which its first
        turn began. Another attempt of the first turn begins later."""
        return self._loop.now

    def uuid(self) -> UUID:
        """A UUID: the same in every turn, another one in each call."""
        return uuid5(self._job_id, self._calls.ordinal("uuid"))

    def random(self) -> float:
        """A number in [0, 1): the same in every turn, another one in each call."""
        return Random(f"{self._job_id}/{self._calls.ordinal('random')}").random()  # noqa: S311 - no secret

    async def sleep(self, duration: timedelta | float | str) -> None:
        """Wait for seconds, a timedelta, or such as "90s", "3d". It may last for months."""
        await asyncio.sleep(_refusing(parse_duration)(duration).total_seconds())

    async def until(self, moment: datetime) -> None:
        """Wait until a time. Raises BadCall for one without a zone."""
        if getattr(moment, "tzinfo", None) is None:
            raise BadCall(f"expected a time with its zone, got {moment!r} at {caller_line()}")
        await asyncio.sleep((moment - self._loop.now).total_seconds())

    @overload
    def receive(self, name: str) -> CallFuture[Any]: ...
    @overload
    def receive(self, name: str, type: type[T]) -> CallFuture[T]: ...

    @_refusing
    def receive(self, name: str, type: Any = Any) -> CallFuture[Any]:  # noqa: A002 - reads best
        """Receive the next signal of a name. One that comes early is stored; a timeout loses none. One that
        does not fit `type` is set aside with a warning, and the wait goes on."""
        if not 1 <= len(name) <= MAX_SIGNAL_NAME:
            raise ValueError(f"expected a name of 1 to {MAX_SIGNAL_NAME} characters, got {name!r:.200}")
        return self._calls.make(CallSpec(kind=CallKind.SIGNAL, name=name, decode=targets.reader(type)))

    @_refusing
    def send(self, job_id: UUID | str, name: str, data: Any = None) -> None:
        """Send a signal to another workflow, once, when the turn ends without an error. Nothing waits for it:
        one that has ended refuses it, and the sender does not learn of it. `data`: JSON, or a model."""
        try:
            to, plain = UUID(str(job_id)), targets.to_plain(data)
        except ValueError as error:
            raise ValueError(f"expected the id of a job, got {job_id!r:.100}") from error
        signal = JobSignalRequestedData.model_construct(job_id=to, name=name, data=plain)
        check = partial(targets.check_signal, to, name, plain)
        given = [str(to), name, plain]
        self._calls.make(CallSpec(kind=CallKind.SEND, name=name, arguments=given, signal=signal, check=check))

    @_refusing
    def publish(self, state: Any) -> None:
        """Publish a small state, which `warrener job`, the API and the page of the job show: the last one of
        a turn, when it ends. JSON of at most 16 KiB."""
        self._calls.publish(encode_checkpoint(state, "a state"))

    @_refusing
    def continue_as(self, *positional: Never, **arguments: Any) -> NoReturn:
        """Go on with these arguments and an empty journal, for a workflow that never ends.

        The body begins again, in another generation. Children that are still awaited are cancelled, detached
        ones go on; what has succeeded is no longer undone; signals that were not received wait for the next
        generation.
        """
        if positional:
            raise TypeError(f"expected the arguments of flow.continue_as by name, got {positional!r:.100}")
        plain: dict[str, Any] = targets.to_plain(arguments)
        self._check(plain)
        self._calls.continue_as(plain)


class _FlowLog(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, flow: Workflow) -> None:
        super().__init__(_log, {})
        self._flow = flow

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's
        silent = self._flow.is_replaying or self._flow.leaving
        return not silent and super().isEnabledFor(level)
