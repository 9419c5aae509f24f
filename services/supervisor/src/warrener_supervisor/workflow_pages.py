"""Read pages of the results of child jobs. They travel with the dispatch of the turn that reads them, and the
journal has their sizes alone: a repeat of the dispatch reads the same items, since no result ever changes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from warrener_contracts.events import (
    MAX_MEMBERS,
    MAX_PAGE,
    MAX_PAGES,
    Answer,
    ErrorInfo,
    ErrorKind,
    PageSize,
    PageSource,
)
from warrener_contracts.journals import open_calls, read_pages
from warrener_contracts.json_safety import is_array
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_MESSAGE
from warrener_store.encoding import encode
from warrener_store.store import StateStore
from warrener_store.workflows.rows import StoredTurn, TurnRow, member_ids, whole_turns


async def answer_pages(
    store: StateStore, job_id: UUID, turns: Sequence[TurnRow], now: datetime
) -> list[Answer]:
    """Answer the first open pages with their sizes."""
    answers: list[Answer] = []
    waiting = ((call.call_id, call.source) for call in open_calls(turns) if call.source is not None)
    reading = sum(call.page is not None for call in open_calls(turns))  # their pages are sent again
    for call_id, source in islice(waiting, max(MAX_PAGES - reading, 0)):
        answer = Answer(call_id=call_id, at=now, state=JobState.SUCCEEDED)
        try:
            change: Any = {"page": await _measure(store, job_id, source)}
        except ValueError as error:
            kind = ErrorKind.BAD_RESULT
            change = {"error": ErrorInfo(kind=kind, type="NoPages", message=str(error), retryable=False)}
        answers.append(answer.model_copy(update=change))
    return answers


async def load_pages(store: StateStore, job_id: UUID, stored: Sequence[StoredTurn]) -> str | None:
    """The pages that the current turn reads, as JSON; None if it reads none."""
    if not any(turn.may_read_pages for turn in stored):
        return None
    pages = list[str]()
    for call, page in read_pages(whole_turns(job_id, stored)):
        assert call.source is not None, call
        items = await _items(store, job_id, call.source, page.size)
        pages.append(encode({"call_id": call.call_id, "items": items}))
    return f"[{','.join(pages)}]" if pages else None


async def _measure(store: StateStore, job_id: UUID, source: PageSource) -> PageSize:
    """Raises ValueError for the result of a job that is no list."""
    if source.size is None:
        found = await _list_of(store, job_id, source)
        sizes, total = (len(encode(item)) for item in found[source.first :]), len(found)
    else:
        ids, total = member_ids(job_id, source.call_id, source.size, source.first), source.size
        ends = await store.child_ends(await _succeeded(store, ids), 0, MAX_MESSAGE)
        sizes = (ends[each].result_size if each in ends else 0 for each in ids)
    return PageSize(size=_fitting(sizes), total=total)


def _fitting(sizes: Iterable[int]) -> int:
    """Count the first items that a page has room for: one at least, if there is any."""
    room, count = MAX_PAGE, 0
    for count, size in enumerate(islice(sizes, MAX_MEMBERS), 1):
        if (room := room - size) < 0:
            return max(count - 1, 1)
    return count


async def _items(store: StateStore, job_id: UUID, source: PageSource, size: int) -> list[Any]:
    last = source.first + size
    if source.size is None:
        return (await _list_of(store, job_id, source))[source.first : last]
    ids = member_ids(job_id, source.call_id, last, source.first)
    ends = await store.child_ends(await _succeeded(store, ids), MAX_MESSAGE, MAX_MESSAGE)
    return [ends[each].result if each in ends else None for each in ids]


async def _succeeded(store: StateStore, job_ids: Sequence[UUID]) -> list[UUID]:
    """Those of these jobs that have succeeded: an error is not read."""
    found = (await store.child_status(job_ids)).values()
    return [job.job_id for job in found if job.state is JobState.SUCCEEDED]


async def _list_of(store: StateStore, job_id: UUID, source: PageSource) -> list[Any]:
    """The list that a child job of this workflow, and of no other, has returned."""
    assert source.job_id is not None, source
    row = (await store.jobs_by_id([source.job_id])).get(source.job_id)
    if row is None or row.parent_id != job_id or not is_array(row.result):
        got = "no such child job" if row is None or row.parent_id != job_id else type(row.result).__name__
        raise ValueError(
            f"expected a list, not encrypted, as the result of job {source.job_id}, got {got}: return the "
            "items themselves, or map over them in the body"
        )
    return [*row.result]
