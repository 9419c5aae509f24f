"""Maps: many child jobs of one type, in batches of which each is one call of the journal."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from uuid import UUID

from pydantic import ValidationError

from warrener_agent.context import ChildJobSpec
from warrener_agent.workflows.calls import CallFuture, CallSpec, CallTable
from warrener_agent.workflows.failures import BadCall, WorkflowError
from warrener_agent.workflows.loop import caller_line
from warrener_agent.workflows.pages import Paged, paged_result, read_pages, with_items
from warrener_agent.workflows.targets import Target, lines_of
from warrener_contracts.events import (
    MAX_MEMBER_FAILURES,
    MAX_MEMBERS,
    CallKind,
    ErrorInfo,
    ErrorKind,
    MapMember,
    MembersEnd,
    PageSource,
)
from warrener_contracts.state_machine import JobState

R = TypeVar("R")

MAX_BATCH = 1024 * 1024
"""Bytes of the arguments of a batch: the requests of a turn are recorded in the ledger together."""
PAUSE = 1e-6
"""Seconds between two batches: the timer ends the turn, so that each turn requests one batch at most."""
_END: Any = object()


@dataclass(frozen=True)
class MapFailure:
    """An item of a map without a result; `key` is its number as text unless the map has keys. The job of one
    whose result has another type has succeeded. JSON, as the result of a map: a body may return it."""

    index: int
    key: str
    job_id: UUID
    state: JobState
    error: ErrorInfo | None


@dataclass(frozen=True)
class MapResult(Generic[R]):
    """The ends of the jobs of a map; `failures` are the first 100 in the order of items.

    `stopped`: True if `stop_after` has ended it. The jobs that had not ended by then are in neither count.
    """

    succeeded: int
    failed: int
    failures: tuple[MapFailure, ...]
    given: list[R | None] | None  # the results, unless they were too long for the journal
    stopped: bool = False
    paged: ClassVar[tuple[Paged, ...]] = ()  # no field: a body may return the rest

    @property
    def results(self) -> list[R | None]:
        """One for each item, None for one that failed.

        Raises WorkflowError if they are too long for the journal: 32 KiB of a batch of 500, 256 KiB in all.
        """
        if self.given is None:
            raise WorkflowError(
                "expected results of a map of at most 32 KiB for 500 jobs and 256 KiB in all, got more at "
                f"{caller_line()}: read them in steps, page by page, with flow.pages (`given` is None then)"
            )
        return self.given


@dataclass(frozen=True, kw_only=True)
class Map:
    """A map as the body makes it. `decode` reads a result, `read` an item by its number and key, `check`
    checks what was read of a new one; these raise BadCall. `request` makes a job's request by its key."""

    name: str
    decode: Callable[[Any], Any]
    read: Callable[[int, str, Any], Target]
    check: Callable[[int, Target], None]
    request: Callable[[Target, str, MapMember], ChildJobSpec]
    key: Callable[[Any], object] | None
    in_flight: int
    stop_after: int | None
    detached: bool


class _Batch(NamedTuple):
    future: CallFuture[MembersEnd]
    first: int
    keys: Sequence[str] | None


async def run_map(
    calls: CallTable, spec: Map, items: Iterable[Any], source: CallFuture[Any] | None = None
) -> MapResult[Any]:
    """Request the jobs of a map, one batch a turn, and wait for the ends of all. Never raises for a child,
    except for the job that makes the items (`source`)."""
    for what, limit in (("in flight", spec.in_flight), ("failures", spec.stop_after)):
        if limit is not None and limit < 1:
            raise BadCall(f"expected 1 or more {what} of a map, got {limit} at {caller_line()}")
    run = _MapRun(calls, spec, iter(items))
    try:
        if source is not None:
            await run.make_page_batches(await paged_result(calls, source))
        while (item := next(run.items, _END)) is not _END:
            if run.batches:
                # Each answer of a turn moves its time on, and may end a pause.
                while run.batches[-1].future.turn == calls.turn:  # noqa: ASYNC110 - no event ends a turn
                    await asyncio.sleep(PAUSE)
                if run.has_stopped:
                    break
            run.make_batch(item)
        await asyncio.gather(*(batch.future for batch in run.batches))
    except BaseException:
        for batch in run.batches:
            batch.future.cancel()
        raise
    return run.result()


class _MapRun:
    def __init__(self, calls: CallTable, spec: Map, items: Iterator[Any]) -> None:
        self.items = items
        self.batches: list[_Batch] = []
        self._calls, self._spec = calls, spec
        self._map_id = calls.map_id(spec.name)
        self._count = 0  # of items in batches
        self._seen: set[str] = set()

    @property
    def has_stopped(self) -> bool:
        """True if so many jobs of batches that have ended did not succeed as end the map."""
        limit = self._spec.stop_after
        ended = (batch.future.result().failed for batch in self.batches if batch.future.done())
        return limit is not None and sum(ended) >= limit

    def make_batch(self, item: Any) -> None:
        """Make the call of the batch that begins with `item`. One that is recorded has as many items as it
        had: the first and the last are read, for the comparison, and no request is made."""
        calls, spec, taken, reads = self._calls, self._spec, [item], list[Target]()
        known = calls.recorded_size(f"{self._map_id}/{len(self.batches)}")
        if known is not None:
            taken += islice(self.items, known - 1)
            ends = [self._read(place, taken[place]) for place in (0, len(taken) - 1)]
        else:
            size = 0
            for place in count():
                reads.append(self._read(place, taken[place]))
                size += calls.check_arguments(spec.name, reads[-1].arguments)
                if len(taken) == MAX_MEMBERS or size >= MAX_BATCH:
                    break
                if (one := next(self.items, _END)) is _END:
                    break
                taken.append(one)
            ends = [reads[0], reads[-1]]
        keys = self._keys(taken)
        self._add(len(taken), reads, [*(one.arguments for one in ends), keys], keys)

    async def make_page_batches(self, source: Paged) -> None:
        """Make the call of a batch of each page, in the turn with which its items come."""
        async for page in read_pages(self._calls, [source]):
            if self.has_stopped:
                return
            reads = list[Target]()
            if self._calls.recorded_size(f"{self._map_id}/{len(self.batches)}") is None:
                items = with_items(self._calls, page).items
                reads = [self._read(place, item) for place, item in enumerate(items)]
            for one in reads:
                self._calls.check_arguments(self._spec.name, one.arguments)
            self._add(page.size, reads, page.call_id)

    def _add(
        self, number: int, reads: Sequence[Target], given: Any, keys: Sequence[str] | None = None
    ) -> None:
        """Make the call of a batch, and of a new one the requests. Items are not held: there may be a
        million."""
        calls, spec, call_id = self._calls, self._spec, f"{self._map_id}/{len(self.batches)}"
        for place, one in enumerate(reads):
            spec.check(self._count + place, one)

        def make_requests(call_id: str) -> Iterator[ChildJobSpec]:
            member = MapMember(
                call_id=call_id,
                size=number,
                map_id=call_id.rpartition("/")[0],
                in_flight=spec.in_flight,
                stops=spec.stop_after is not None,
            )
            return (spec.request(one, f"{call_id}/{place}", member) for place, one in enumerate(reads))

        future: CallFuture[MembersEnd] = calls.make(
            CallSpec(
                kind=CallKind.MAP,
                name=spec.name,
                call_id=call_id,
                arguments=given,
                size=number,
                stop_after=spec.stop_after,
                requests=make_requests,
                detached=spec.detached,
            )
        )
        self.batches.append(_Batch(future, self._count, keys))
        self._count += number

    def result(self) -> MapResult[Any]:
        """The result of a map of which all batches have ended."""
        succeeded = failed = 0
        failures, results = list[MapFailure](), list[Any]()
        stopped, is_whole = self.has_stopped, True
        for batch in self.batches:
            end = batch.future.result()
            succeeded, failed = succeeded + end.succeeded, failed + end.failed
            is_left = end.succeeded + end.failed < (batch.future.call.size or 0)
            stopped = stopped or is_left
            failures += [self._failure(batch, one.number, one.state, one.error) for one in end.failures]
            if end.results is None:
                is_whole = False
                continue
            named = {one.number for one in end.failures}
            has_more = is_left or end.failed > len(named)  # of the others some have no result either
            for place, result in enumerate(end.results):
                value = None
                if place not in named and not (result is None and has_more):
                    try:
                        value = self._spec.decode(result)
                    except Exception as error:  # noqa: BLE001 - whatever a user's validator raises fails its item
                        failures.append(self._failure(batch, place, JobState.SUCCEEDED, _describe(error)))
                        succeeded, failed = succeeded - 1, failed + 1
                results.append(value)
        failures.sort(key=lambda one: one.index)
        first = tuple(failures[:MAX_MEMBER_FAILURES])
        made = MapResult[Any](succeeded, failed, first, results if is_whole else None, stopped)
        object.__setattr__(made, "paged", tuple(map(self._paged, self.batches)))
        return made

    def _paged(self, batch: _Batch) -> Paged:
        call, decode = batch.future.call, self._spec.decode

        def read(results: list[Any]) -> list[Any]:
            return [None if one is None else decode(one) for one in results]

        return Paged(PageSource(call_id=call.call_id, size=call.size), call.name, read, batch.first)

    def _read(self, place: int, item: Any) -> Target:
        return self._spec.read(self._count + place, self._key(place, item), item)

    def _key(self, place: int, item: Any) -> str:
        key = self._spec.key
        return str(self._count + place if key is None else key(item))

    def _keys(self, items: Sequence[Any]) -> list[str] | None:
        if self._spec.key is None:
            return None
        keys = [self._key(place, item) for place, item in enumerate(items)]
        for key in keys:
            if key in self._seen:
                raise BadCall(f"expected a key for each item of a map, got {key!r} twice at {caller_line()}")
            self._seen.add(key)
        return keys

    def _failure(self, batch: _Batch, place: int, state: JobState, error: ErrorInfo | None) -> MapFailure:
        key = str(batch.first + place) if batch.keys is None else batch.keys[place]
        job_id = self._calls.member_id(batch.future.call, place)
        return MapFailure(batch.first + place, key, job_id, state, error)


def _describe(error: Exception) -> ErrorInfo:
    message = lines_of(error) if isinstance(error, ValidationError) else str(error)
    return ErrorInfo(kind=ErrorKind.ERROR, type=type(error).__qualname__, message=message)
