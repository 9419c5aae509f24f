"""Pages of results: maps over the list of a child job, and steps that read what is in no journal."""

import asyncio
from typing import Any

import pytest
from services.agent.tests.workflows.turns import Turns, after, succeeded

from warrener_agent import Agent, ChildJobFailed, Fail, MapResult, ResultPage, Workflow, WorkflowError
from warrener_agent.testing import run_workflow
from warrener_agent.workflows.failures import BadCall, ResultReferred
from warrener_contracts.events import Answer, Call, CallKind, ErrorInfo, ErrorKind, MembersEnd, PageSize
from warrener_contracts.journals import open_calls
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_contracts.state_machine import JobState

shop = Agent()


@shop.job("files.list")
async def list_files(day: str) -> list[str]:
    return [day]


@shop.job("files.load")
async def load(file: str) -> int:
    return len(file)


def add_up(page: ResultPage[int | None]) -> int:
    return sum(number or 0 for number in page.items)


@shop.workflow("files.import")
async def import_files(flow: Workflow, day: str) -> list[int]:
    loaded = await flow.map(load, source=flow.call(list_files, day=day))
    pages = flow.pages(loaded)
    return [loaded.succeeded, loaded.failed, sum([await flow.step(add_up, page) async for page in pages])]


@shop.workflow("files.measure")
async def measure(flow: Workflow, day: str) -> list[list[int]]:
    listed = flow.call(list_files, day=day)
    return [await flow.step(lengths, page) async for page in flow.pages(listed)]


def lengths(page: ResultPage[str]) -> list[int]:
    return [page.first, page.size, sum(map(len, page.items))]


def measure_page(page: ResultPage[Any], _: object = None) -> int:
    return len(page.items)


def sized(call: Call, size: int, total: int, at: float = 0) -> Answer:
    return Answer(
        call_id=call.call_id, at=after(at), state=JobState.SUCCEEDED, page=PageSize(size=size, total=total)
    )


def mapped(flow: Workflow) -> Any:
    return flow.map("a.b", source=flow.call("a.list", {}))


async def map_listed(flow: Workflow) -> MapResult[Any]:
    result: MapResult[Any] = await mapped(flow)
    return result


def test_a_map_over_a_list_makes_a_batch_of_each_page_and_its_journal_has_no_item() -> None:
    turns = Turns(map_listed)
    (listed,) = turns.calls
    assert (listed.kind, listed.by_reference) == (CallKind.JOB, True)
    turns.go(succeeded(listed))
    page = turns.calls[-1]
    assert page.source is not None
    assert (page.kind, page.source.call_id, page.source.job_id) == (
        CallKind.PAGE,
        listed.call_id,
        listed.job_id,
    )
    turns.pages = {page.call_id: [{"n": number} for number in range(2)]}
    turns.go(sized(page, 2, 3, at=1))
    batch, rest = turns.calls[-2:]
    assert (batch.kind, batch.size, rest.source and rest.source.first) == (CallKind.MAP, 2, 2)
    assert [one.arguments for one in turns.suspended.requests] == [{"n": 0}, {"n": 1}]
    turns.pages = {rest.call_id: [{"n": 2}]}
    turns.go(sized(rest, 1, 3, at=2))
    last = turns.calls[-1]
    assert [one.arguments for one in turns.suspended.requests] == [{"n": 2}]
    turns.pages = {}
    ends = [
        Answer(call_id=one.call_id, at=after(3), members=MembersEnd(succeeded=one.size or 0))
        for one in (batch, last)
    ]
    turns.go(*ends)
    assert (turns.value.succeeded, turns.value.failed) == (3, 0)
    assert '"n"' not in "".join(one.model_dump_json() for one in turns.turns)


def test_a_turn_that_is_repeated_makes_the_batch_of_its_page_again() -> None:
    turns = Turns(map_listed)
    turns.go(succeeded(turns.calls[0]))
    page = turns.calls[-1]
    lost = [*turns.turns, turns.turns[-1].model_copy(update={"attempt": 3, "suspension": None})]
    lost[-1] = lost[-1].model_copy(update={"answers": (sized(page, 1, 1),)})
    turns.turns = lost
    turns.pages = {page.call_id: [{"n": 0}]}
    turns.go()  # the fourth attempt begins with no other answers
    assert [one.arguments for one in turns.suspended.requests] == [{"n": 0}]


def test_the_list_of_an_empty_source_is_a_map_of_nothing() -> None:
    trial = run_workflow(shop, "files.import", {"day": "d"}, jobs={"files.list": []})
    assert trial.result == [0, 0, 0]


def test_a_map_over_a_list_of_a_thousand_files_and_the_sum_of_its_results() -> None:
    files = [f"{number:04}" for number in range(1_200)]
    trial = run_workflow(shop, "files.import", {"day": "d"}, jobs={"files.list": files, "files.load": 4})
    assert trial.result == [1_200, 0, 4_800]
    assert [call.size for call in trial.calls if call.kind is CallKind.MAP] == [500, 500, 200]
    assert '"0003"' not in trial.journal.model_dump_json()


def test_the_list_of_a_job_is_read_in_steps() -> None:
    files = ["abc"] * 700
    trial = run_workflow(shop, "files.measure", {"day": "d"}, jobs={"files.list": files})
    assert trial.result == [[0, 500, 1_500], [500, 200, 600]]


def test_a_source_that_fails_raises_its_failure() -> None:
    trial = run_workflow(shop, "files.import", {"day": "d"}, jobs={"files.list": Fail("no disk")})
    with pytest.raises(ChildJobFailed, match="no disk"):
        _ = trial.result


def test_a_result_that_is_no_list_fails_the_map_with_the_reason() -> None:
    turns = Turns(map_listed)
    turns.go(succeeded(turns.calls[0]))
    why = ErrorInfo(kind=ErrorKind.BAD_RESULT, type="NoPages", message="expected a list")
    page = turns.calls[-1]
    turns.go(Answer(call_id=page.call_id, at=after(1), state=JobState.SUCCEEDED, error=why))
    assert isinstance(turns.error, ChildJobFailed)
    assert "expected a list" in str(turns.error)


def test_a_map_that_stops_reads_no_further_page() -> None:
    async def body(flow: Workflow) -> MapResult[Any]:
        return await flow.map("a.b", source=flow.call("a.list", {}), stop_after=1)

    turns = Turns(body)
    turns.go(succeeded(turns.calls[0]))
    page = turns.calls[-1]
    turns.pages = {page.call_id: [{}]}
    turns.go(sized(page, 1, 9, at=1))
    batch, rest = turns.calls[-2:]
    failed = MembersEnd(succeeded=0, failed=1)
    turns.go(Answer(call_id=batch.call_id, at=after(2), members=failed), sized(rest, 1, 9, at=3))
    assert (turns.value.failed, turns.value.stopped) == (1, True)


def test_a_cancelled_map_cancels_the_job_that_makes_its_items() -> None:
    async def body(flow: Workflow) -> str:
        try:
            async with asyncio.timeout(5):
                await mapped(flow)
        except TimeoutError:
            return "late"
        return "in time"

    turns = Turns(body)
    turns.go(Answer(at=after(5)))
    assert turns.value == "late"
    assert [call.call_id for call in turns.end.cancels] == [turns.calls[0].call_id]  # type: ignore[union-attr]


def test_a_result_that_was_left_out_cannot_be_awaited() -> None:
    async def body(flow: Workflow) -> Any:
        listed = flow.call("a.list", {})
        await flow.map("a.b", source=listed)
        return await listed

    turns = Turns(body)
    turns.go(succeeded(turns.calls[0]))
    turns.go(sized(turns.calls[-1], 0, 0, at=1))
    assert isinstance(turns.error, ResultReferred)


def test_a_result_too_large_for_the_journal_is_a_source_all_the_same() -> None:
    async def body(flow: Workflow) -> MapResult[Any]:
        listed = flow.call("a.list", {})
        await flow.sleep(1)
        return await flow.map("a.b", source=listed)

    turns = Turns(body)
    assert not turns.calls[0].by_reference, "it was made in an earlier turn"
    error = ErrorInfo(kind=ErrorKind.BAD_RESULT, type="ResultTooLarge", message="too large")
    answer = Answer(call_id=turns.calls[0].call_id, at=after(1), state=JobState.SUCCEEDED, error=error)
    turns.go(answer)
    assert turns.calls[-1].kind is CallKind.PAGE


def test_items_are_refused_outside_of_a_step_and_a_step_of_a_page_that_has_gone() -> None:
    async def read(flow: Workflow) -> Any:
        return [page.items async for page in flow.pages(flow.call("a.list", {}))]

    turns = Turns(read)
    turns.go(succeeded(turns.calls[0]))
    turns.pages = {turns.calls[-1].call_id: [1]}
    turns.go(sized(turns.calls[-1], 1, 1))
    assert isinstance(turns.error, WorkflowError)
    assert "in a step" in str(turns.error)

    async def keep(flow: Workflow) -> Any:
        pages = [page async for page in flow.pages(flow.call("a.list", {}))]
        return await flow.step(measure_page, pages[0])

    turns = Turns(keep)
    turns.go(succeeded(turns.calls[0]))
    for number in range(2):
        turns.pages = {turns.calls[-1].call_id: [1]}
        turns.go(sized(turns.calls[-1], 1, 2, at=number))
    assert isinstance(turns.error, BadCall)


def test_a_step_that_is_tried_again_an_hour_later_reads_its_page_again() -> None:
    tries = list[list[str]]()
    patient = PolicyOverrides(max_attempts=2, backoff=Backoff.fixed("1h", jitter=0))
    agent = Agent()
    agent.include(shop)

    def shaky(page: ResultPage[str]) -> int:
        tries.append([*page.items])
        if len(tries) == 1:
            raise ConnectionError
        return page.size

    @agent.workflow("files.count")
    async def count_files(flow: Workflow) -> int:
        listed, step = flow.call(list_files, day="d"), flow.options(policy=patient)
        return sum([await step.step(shaky, page) async for page in flow.pages(listed)])

    trial = run_workflow(agent, "files.count", {}, jobs={"files.list": ["a", "b"]})
    trial.advance("2h")
    assert (trial.result, tries) == (2, [["a", "b"]] * 2)
    assert not open_calls(trial.journal.turns)


@pytest.mark.parametrize(
    "options", [{}, {"items": [], "source": None}, {"source": "a.list"}], ids=["neither", "items", "no call"]
)
def test_a_map_has_items_or_a_source(options: dict[str, Any]) -> None:
    async def body(flow: Workflow) -> Any:
        given: Any = flow
        return await given.map("a.b", **options)

    turns = Turns(body)
    if "items" in options:
        assert turns.value.succeeded == 0
    else:
        assert isinstance(turns.error, BadCall)


def test_a_step_reads_one_page() -> None:
    async def body(flow: Workflow) -> Any:
        async for page in flow.pages(flow.call("a.list", {})):
            await flow.step(measure_page, page, page)

    turns = Turns(body)
    turns.go(succeeded(turns.calls[0]))
    turns.pages = {turns.calls[-1].call_id: [1]}
    turns.go(sized(turns.calls[-1], 1, 1))
    assert isinstance(turns.error, BadCall)
