"""Group commit: what comes while a commit runs goes together, and nobody suffers for another."""

import asyncio
from collections.abc import Sequence

import pytest

from warrener_runtime.gather import Gatherer, GathererClosed


class Ledger:
    """A commit that a test holds back, and lets go when it wants to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: BaseException | None = None

    async def commit(self, items: list[int]) -> Sequence[str]:
        self.batches.append(items)
        self.entered.set()
        await self.gate.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return [f"done {item}" for item in items]

    def hold(self) -> None:
        self.gate.clear()
        self.entered.clear()


async def submit_behind(
    ledger: Ledger, gatherer: Gatherer[int, str], items: range
) -> list[asyncio.Task[str]]:
    """One item in a commit that is held, the others waiting behind it."""
    ledger.hold()
    first = asyncio.create_task(gatherer.submit(0))
    await ledger.entered.wait()
    others = [asyncio.create_task(gatherer.submit(item)) for item in items]
    await asyncio.sleep(0)  # one turn: each has handed in its item
    return [first, *others]


async def test_one_item_is_committed_at_once() -> None:
    ledger = Ledger()
    assert await Gatherer(ledger.commit).submit(7) == "done 7"
    assert ledger.batches == [[7]]


async def test_what_comes_while_a_commit_runs_goes_together_in_order() -> None:
    ledger = Ledger()
    gatherer = Gatherer(ledger.commit)
    tasks = await submit_behind(ledger, gatherer, range(1, 101))
    ledger.gate.set()
    assert await asyncio.gather(*tasks) == [f"done {item}" for item in range(101)]
    assert ledger.batches == [[0], list(range(1, 101))]


async def test_a_batch_is_bounded() -> None:
    ledger = Ledger()
    gatherer = Gatherer(ledger.commit, limit=10)
    tasks = await submit_behind(ledger, gatherer, range(1, 26))
    ledger.gate.set()
    await asyncio.gather(*tasks)
    assert [len(batch) for batch in ledger.batches] == [1, 10, 10, 5]


async def test_all_of_a_failed_batch_get_the_error_and_the_next_batch_none() -> None:
    ledger = Ledger()
    gatherer = Gatherer(ledger.commit, limit=2)
    tasks = await submit_behind(ledger, gatherer, range(1, 5))
    ledger.error = OSError("the disk is full")
    ledger.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [OSError, str, str, str, str]


async def test_a_commit_that_was_cancelled_is_no_cancellation_of_the_submitter() -> None:
    """As drivers do when their connection breaks."""
    ledger = Ledger()
    ledger.error = asyncio.CancelledError()
    with pytest.raises(ConnectionError, match="got it cancelled"):
        await Gatherer(ledger.commit).submit(1)


async def test_too_few_results_are_an_error_and_no_silence() -> None:
    async def forgetful(items: list[int]) -> Sequence[str]:
        return []

    with pytest.raises(RuntimeError, match="expected 1 results of the commit, got 0"):
        await Gatherer(forgetful).submit(1)


async def test_a_cancelled_submitter_hurts_nobody() -> None:
    ledger = Ledger()
    gatherer = Gatherer(ledger.commit)
    tasks = await submit_behind(ledger, gatherer, range(1, 4))
    tasks[0].cancel()  # in the commit that runs
    tasks[2].cancel()  # waiting
    ledger.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False, True, False]
    assert ledger.batches == [[0], [1, 3]]


async def test_closing_commits_what_was_submitted_and_takes_nothing_more() -> None:
    ledger = Ledger()
    gatherer = Gatherer(ledger.commit, limit=2)
    tasks = await submit_behind(ledger, gatherer, range(1, 6))
    closing = asyncio.create_task(gatherer.close())
    await asyncio.sleep(0)  # one turn: the closing has begun
    with pytest.raises(GathererClosed):
        await gatherer.submit(99)
    ledger.gate.set()
    await closing
    assert all(task.done() for task in tasks)
    await gatherer.close()


async def test_a_gatherer_that_never_worked_can_be_closed() -> None:
    await Gatherer(Ledger().commit).close()
