"""Group commit: one costly operation for all that came while the previous one ran."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class GathererClosed(Exception):
    """The gatherer was closed and takes nothing more."""


class Gatherer(Generic[T, R]):
    """Hands items to `commit` in batches of at most `limit`, one batch at a time, in the order of submission.

    There is no timer: an item that comes when nothing runs is committed at once, and what comes meanwhile
    goes together. `commit` returns one result for each item, in order. If it raises, each submitter of that
    batch gets the exception and no other. An item whose submitter was cancelled before its batch began is not
    committed; afterwards the cancellation changes nothing for the batch.
    """

    def __init__(self, commit: Callable[[list[T]], Awaitable[Sequence[R]]], *, limit: int = 500) -> None:
        if limit < 1:
            raise ValueError(f"expected a limit of at least 1, got {limit}")
        self._commit = commit
        self._limit = limit
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, item: T) -> R:
        """The result of this item. Raises what the commit of its batch raised, or GathererClosed."""
        if self._closed:
            raise GathererClosed("expected an open gatherer, got a closed one; submit before close()")
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="gatherer")
        return await future

    async def close(self) -> None:
        """Take nothing more, and wait until all that was submitted is committed. May be called twice."""
        self._closed = True
        if self._runner is not None:
            await asyncio.shield(self._runner)

    async def _run(self) -> None:
        try:
            while batch := self._next_batch():
                await self._commit_batch(batch)
        finally:
            self._runner = None

    def _next_batch(self) -> list[tuple[T, asyncio.Future[R]]]:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        while self._waiting and len(batch) < self._limit:
            item, future = self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        return batch

    async def _commit_batch(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._results([item for item, _ in batch])
        except BaseException as error:  # noqa: BLE001 - whatever it was, it is the submitters' to see
            _give_error(batch, error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def _results(self, items: list[T]) -> Sequence[R]:
        results = await self._commit(items)
        if len(results) != len(items):
            raise RuntimeError(f"expected {len(items)} results of the commit, got {len(results)}")
        return results


def _give_error(batch: list[tuple[T, asyncio.Future[R]]], error: BaseException) -> None:
    for _, future in batch:
        if future.done():
            continue
        if isinstance(
            error, asyncio.CancelledError
        ):  # a cancelled driver must not pass for a cancelled submitter
            future.set_exception(ConnectionError("expected the commit to end, got it cancelled; try again"))
        else:
            future.set_exception(error)
