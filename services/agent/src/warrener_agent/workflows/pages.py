"""Pages of results that are too many for the journal: they come with one turn, and steps read them."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar, cast

from warrener_agent.workflows.calls import CallFuture, CallSpec, CallTable
from warrener_agent.workflows.failures import BadCall, ChildJobFailed, ResultReferred, WorkflowError
from warrener_agent.workflows.loop import caller_line
from warrener_contracts.events import CallKind, PageSize, PageSource
from warrener_contracts.state_machine import JobState

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class ResultPage(Generic[R_co]):
    """Some of the results of a map, or of the list that a job returned; `first` is the index of the first.

    The body gives it to a step, whose function reads `items`.
    """

    call_id: str
    first: int
    size: int
    read: Callable[[], Sequence[R_co]] | None = field(default=None, repr=False, compare=False)

    @property
    def items(self) -> Sequence[R_co]:
        """The results; None for a job that failed. Raises WorkflowError outside of a step."""
        if self.read is None:
            raise WorkflowError("expected the items of a page to be read in a step: they are in no journal")
        return self.read()


class Paged(NamedTuple):
    """Results that can be read in pages. `decode` reads some of them; the first of all has the index
    `offset`."""

    source: PageSource
    name: str
    decode: Callable[[list[Any]], list[Any]]
    offset: int = 0


async def paged_result(calls: CallTable, handle: object) -> Paged:
    """Wait for the job of a handle. Its result stays out of the journal, if the call is new.

    Raises ChildJobFailed unless it succeeds, and BadCall for what is no call of a job.
    """
    is_call = isinstance(handle, CallFuture)
    handle = cast("CallFuture[Any]", handle)
    if not is_call or handle.call.kind is not CallKind.JOB:
        raise BadCall(f"expected the call of a job as the source, got {handle!r:.100} at {caller_line()}")
    call = calls.refer(handle)
    try:
        await handle
    except ResultReferred:
        pass
    except ChildJobFailed as error:
        if error.state is not JobState.SUCCEEDED:  # else its result is too large for the journal
            raise
    return Paged(PageSource(call_id=call.call_id, job_id=call.job_id), call.name, handle.spec.decode)


async def read_pages(calls: CallTable, results: Iterable[Paged]) -> AsyncGenerator[ResultPage[Any]]:
    """Yield one page after another, each in the turn with which its items come."""
    for one in results:
        first, total = 0, 1
        while first < total:
            source = one.source.model_copy(update={"first": first})
            given = source.model_dump(mode="json")
            page: CallFuture[PageSize] = calls.make(
                CallSpec(kind=CallKind.PAGE, name=one.name, arguments=given, source=source)
            )
            found = await page
            size, total = found.size, found.total
            call_id = page.call.call_id
            if call_id in calls.pages:
                calls.readers[call_id] = partial(one.decode, list(calls.pages[call_id]))
            if not size:
                break
            yield ResultPage(call_id, one.offset + first, size)
            first += size


def is_page(value: object) -> TypeGuard[ResultPage[Any]]:
    return isinstance(value, ResultPage)


def with_items(calls: CallTable, given: object) -> Any:
    """An argument of a step: a page has its items then."""
    return replace(given, read=calls.readers.get(given.call_id)) if is_page(given) else given
