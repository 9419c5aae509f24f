"""Pages of results: the journal has their sizes, and each dispatch of the turn that reads them the items."""

from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import stage
from services.supervisor.tests.test_maps import batch, member
from services.supervisor.tests.test_workflow_turns import answers, done, last

from warrener_contracts import events
from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState

LISTED = stage.call("list", by_reference=True)
LONG = "x" * 100_000


def page(of: events.Call, first: int = 0, job_id: UUID | None = None) -> events.Call:
    source = events.PageSource(call_id=of.call_id, job_id=job_id or of.job_id, size=of.size, first=first)
    return events.Call(call_id=f"page/{first}", kind=events.CallKind.PAGE, name=of.name, source=source)


def pages(harness: stage.SupervisorHarness) -> list[tuple[str, list[Any]]]:
    """The pages that the last dispatch carries."""
    return [(one.call_id, [*one.items]) for one in last(harness).data.pages]


def sizes(harness: stage.SupervisorHarness) -> list[tuple[int, int]]:
    return [(one.page.size, one.page.total) for one in answers(harness) if one.page is not None]


async def test_a_list_is_read_in_pages_of_500_items_and_the_journal_has_none() -> None:
    async with stage.opened(stage.running_row(), stage.child("list")) as harness:
        await harness.publish(stage.suspended(1, LISTED))
        await harness.publish(done("list", list(range(501))))
        assert [(one.result, one.error) for one in answers(harness)] == [(None, None)]
        await harness.publish(stage.started(2), stage.suspended(2, page(LISTED)))
        assert (pages(harness), sizes(harness)) == ([("page/0", list(range(500)))], [(500, 501)])
        await harness.publish(stage.started(3), stage.suspended(3, page(LISTED, 500)))
        assert (pages(harness), sizes(harness)) == ([("page/500", [500])], [(1, 501)])
        assert "499" not in str(await harness.store.turns_of([stage.JOB]))


async def test_a_page_ends_before_256_kib_but_has_an_item() -> None:
    async with stage.opened(stage.running_row(), stage.child("list")) as harness:
        await harness.publish(stage.suspended(1, LISTED))
        await harness.publish(done("list", [LONG, LONG, LONG, 4 * LONG]))
        for attempt, first in enumerate((0, 2, 3), 2):
            await harness.publish(stage.started(attempt), stage.suspended(attempt, page(LISTED, first)))
            assert sizes(harness) == [({0: 2, 2: 1, 3: 1}[first], 4)]


@pytest.mark.parametrize("result", [{"items": [1]}, None, "[1]"])
async def test_a_result_that_is_no_list_is_refused(result: Any) -> None:
    async with stage.opened(stage.running_row(), stage.child("list")) as harness:
        await harness.publish(stage.suspended(1, LISTED))
        await harness.publish(done("list", result))
        await harness.publish(stage.started(2), stage.suspended(2, page(LISTED)))
        (answer,) = answers(harness)
        assert answer.error is not None
        assert (answer.error.type, answer.page, pages(harness)) == ("NoPages", None, [])


async def test_the_result_of_a_job_of_others_is_not_read() -> None:
    other = stage.child("other", JobState.SUCCEEDED, parent_id=None, result=["secret"])
    async with stage.opened(stage.running_row(), other) as harness:
        await harness.publish(stage.suspended(1, page(LISTED, job_id=other.job_id)))
        (answer,) = answers(harness)
        assert answer.error is not None
        assert ("no such child job" in answer.error.message, pages(harness)) == (True, [])


async def test_results_of_a_batch_have_none_for_each_job_that_failed() -> None:
    call = batch(size=3)
    rows = [
        member(call, 0, JobState.SUCCEEDED, result=LONG),
        member(call, 1, JobState.DEAD, error=stage.BOOM),
        member(call, 2, JobState.SUCCEEDED, result=2 * LONG),
    ]
    async with stage.opened(stage.running_row(), *rows) as harness:
        await harness.publish(stage.suspended(1, call))
        await harness.publish(stage.started(2), stage.suspended(2, page(call)))
        assert (pages(harness), sizes(harness)) == ([("page/0", [LONG, None])], [(2, 3)])
        await harness.publish(stage.started(3), stage.suspended(3, page(call, 2)))
        assert (pages(harness), sizes(harness)) == ([("page/2", [2 * LONG])], [(1, 3)])


async def test_a_turn_that_failed_is_repeated_with_its_page_and_later_ones_are_without() -> None:
    async with stage.opened(stage.running_row(), stage.child("list")) as harness:
        await harness.publish(stage.suspended(1, LISTED))
        await harness.publish(done("list", [1, 2]))
        await harness.publish(stage.started(2), stage.suspended(2, page(LISTED)))
        await harness.publish(stage.started(3), stage.failed(3), then=300)
        assert (last(harness).data.attempt, pages(harness)) == (4, [("page/0", [1, 2])])
        step = events.Call(call_id="step/a", kind=events.CallKind.STEP, name="a", page="page/0")
        await harness.publish(stage.started(4), stage.suspended(4, step, wake_at=stage.NOW))
        assert pages(harness) == [("page/0", [1, 2])], "its step has not ended"
        answer = events.Answer(call_id="step/a", at=stage.NOW)
        await harness.publish(stage.started(5), stage.suspended(5, answers=[answer]))
        assert (last(harness).data.attempt, pages(harness)) == (6, [])


async def test_four_pages_come_with_one_turn_and_the_others_with_the_next() -> None:
    calls = [batch(number, 1) for number in range(6)]
    rows = [member(call, 0, JobState.SUCCEEDED, result=number) for number, call in enumerate(calls)]
    async with stage.opened(stage.running_row(), *rows) as harness:
        await harness.publish(stage.suspended(1, *calls))
        reads = [
            page(call).model_copy(update={"call_id": f"page/{number}"}) for number, call in enumerate(calls)
        ]
        await harness.publish(stage.started(2), stage.suspended(2, *reads))
        assert [items for _, items in pages(harness)] == [[0], [1], [2], [3]]
        await harness.publish(stage.started(3), stage.suspended(3))
        assert [items for _, items in pages(harness)] == [[4], [5]]
    assert child_job_id(stage.JOB, "list") == LISTED.job_id
