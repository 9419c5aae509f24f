"""Maps: batches, one a turn, their identity, their ends, and what a map that stops leaves behind."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any
from weakref import ref

import pytest
from pydantic import BaseModel
from services.agent.tests.workflows.turns import JOB_ID, Turns, after

from warrener_agent import Agent, Fail, MapResult, Workflow, WorkflowError
from warrener_agent.testing import run_workflow
from warrener_agent.workflows import maps
from warrener_agent.workflows.calls import MAX_ARGUMENTS
from warrener_agent.workflows.failures import BadCall, CodeChanged
from warrener_contracts.events import Answer, Call, ErrorInfo, ErrorKind, MemberFailure, MembersEnd
from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState

DEAD = ErrorInfo(kind=ErrorKind.ERROR, type="Declined", message="no funds")


class Box(BaseModel):
    number: int


def ended(
    call: Call,
    results: list[Any] | None = None,
    failed: Mapping[int, ErrorInfo | None] | None = None,
    *,
    left: int = 0,
    at: float = 1,
) -> Answer:
    """The end of a batch, of which so many jobs are `left`."""
    failures = [MemberFailure(number=n, state=JobState.DEAD, error=why) for n, why in (failed or {}).items()]
    assert call.size is not None
    members = MembersEnd(
        succeeded=call.size - len(failures) - left,
        failed=len(failures),
        failures=tuple(failures),
        results=None if results is None else tuple(results),
    )
    return Answer(call_id=call.call_id, at=after(at), members=members)


def number_items(count: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(count)]


def mapped(items: Iterable[Any] | Callable[[], Iterable[Any]], **options: Any) -> Callable[[Workflow], Any]:
    async def body(flow: Workflow) -> MapResult[Any]:
        return await flow.map("a.b", items() if callable(items) else items, **options)

    return body


def keys(turns: Turns) -> list[str | None]:
    return [one.key for one in turns.suspended.requests]


def test_a_map_of_nothing_ends_at_once_and_one_item_is_a_batch() -> None:
    assert Turns(mapped([])).value == MapResult[Any](0, 0, (), [])
    turns = Turns(mapped(number_items(1), in_flight=7))
    (call,), (request,) = turns.calls, turns.suspended.requests
    assert (call.kind, call.name, call.size, call.job_id) == ("map", "a.b", 1, None)
    assert request.key == f"{call.call_id}/0"
    assert request.member_of is not None
    assert (request.member_of.call_id, request.member_of.size, request.member_of.in_flight) == (
        call.call_id,
        1,
        7,
    )
    assert f"{request.member_of.map_id}/0" == call.call_id
    assert turns.suspended.suspension.wake_at is None
    turns.go(ended(call, [5]))
    assert turns.value == MapResult[Any](1, 0, (), [5])


class Item(dict[str, int]):
    """An item that can be referred to weakly."""


def test_a_map_holds_no_items_of_recorded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "MAX_MEMBERS", 10)
    items, most = list[ref[Item]](), 0

    def make_items() -> Iterator[Item]:
        nonlocal most
        for number in range(100):
            item = Item(n=number)
            items.append(ref(item))
            most = max(most, sum(one() is not None for one in items))
            yield item

    turns = Turns(mapped(make_items))
    while (timer := turns.suspended.suspension.wake_at) is not None:
        turns.go(Answer(at=timer))
    assert len(turns.calls) == 10
    assert most <= 2 * 10 + 1, "a batch, and that before it"


def test_a_map_requests_one_batch_a_turn_and_reads_no_more_of_a_generator() -> None:
    read = list[int]()

    def items() -> Iterator[dict[str, int]]:
        for number in range(1_200):
            read.append(number)
            yield {"n": number}

    turns = Turns(mapped(items))
    assert len(keys(turns)) == 500
    assert len(read) == 501, "the next item says that there is another batch"
    timer = turns.suspended.suspension.wake_at
    assert timer is not None
    read.clear()
    turns.go(Answer(at=timer))
    assert (keys(turns)[0], len(keys(turns))) == (f"{turns.calls[1].call_id}/0", 500)
    assert turns.suspended.requests[0].arguments == {"n": 500}
    timer = turns.suspended.suspension.wake_at
    assert timer is not None
    turns.go(Answer(at=timer))
    assert len(keys(turns)) == 200
    assert turns.suspended.suspension.wake_at is None
    first, second, third = turns.calls
    turns.go(ended(second, [1] * 500, at=2))
    turns.go(ended(first, [0] * 500, {3: DEAD}, at=3))
    turns.go(ended(third, [2] * 200, {0: None}, at=4))
    assert (turns.value.succeeded, turns.value.failed, turns.value.stopped) == (1_198, 2, False)
    assert [(one.index, one.key) for one in turns.value.failures] == [(3, "3"), (1_000, "1000")]
    failure = turns.value.failures[0]
    assert failure.job_id == child_job_id(JOB_ID, f"{first.call_id}/3")
    assert (failure.state, failure.error) == (JobState.DEAD, DEAD)
    assert turns.value.results[3] is None
    assert turns.value.results[:3] + turns.value.results[499:501] == [0, 0, 0, 0, 1]


def test_a_turn_with_many_answers_requests_one_batch() -> None:
    turns = Turns(mapped(number_items(2_500)))
    turns.go(Answer(at=after(1)))
    first, second = turns.calls
    turns.go(ended(first, [0] * 500, at=2), ended(second, [0] * 500, at=3))
    assert [call.size for call in turns.calls] == [500] * 3
    assert len(keys(turns)) == 500
    for number in (4, 5):
        turns.go(Answer(at=after(number)))
        assert len(keys(turns)) == 500
    turns.go(*(ended(call, [0] * 500, at=9) for call in turns.open_calls))
    assert turns.value.succeeded == 2_500


def test_a_batch_has_as_many_items_as_their_arguments_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "MAX_BATCH", 100)
    turns = Turns(mapped([{"n": "x" * 40}] * 5))
    assert len(keys(turns)) == 3
    monkeypatch.setattr(maps, "MAX_BATCH", 10_000)
    turns.go(Answer(at=after(1)))
    assert [call.size for call in turns.calls] == [3, 2], "a recorded batch stays as it was"
    assert isinstance(Turns(mapped([{"n": "x" * (MAX_ARGUMENTS + 1)}])).error, BadCall)


def test_a_replay_reads_the_ends_of_a_batch_alone() -> None:
    read = list[int]()

    def key(item: Mapping[str, int]) -> str:
        read.append(item["n"])
        return f"item {item['n']}"

    class Number(Mapping[str, int]):
        def __init__(self, n: int) -> None:
            self.n = n

        def __getitem__(self, name: str) -> int:
            seen.add(self.n)
            return self.n

        def __iter__(self) -> Iterator[str]:
            return iter(["n"])

        def __len__(self) -> int:
            return 1

    seen = set[int]()
    turns = Turns(mapped([Number(n) for n in range(400)]))
    assert seen == set(range(400))
    seen.clear()
    turns.go()
    assert seen == {0, 399}
    turns = Turns(mapped(number_items(400), key=key))
    turns.go(ended(turns.calls[0], failed={7: DEAD}))
    assert turns.value.failures[0].key == "item 7"
    with pytest.raises(WorkflowError, match=r"at test_maps\.py:\d+: read them in steps, page by page"):
        _ = turns.value.results


@pytest.mark.parametrize(
    ("items", "key", "what"),
    [
        (number_items(19), None, "with 19 items"),
        ([{"n": n + 1} for n in range(20)], None, "with another first or last item, or key"),
        ([*number_items(19), {"n": 20}], None, "with another first or last item, or key"),
        ([{"n": 0}, *reversed(number_items(19)[1:]), {"n": 19}], itemgetter("n"), "item, or key"),
    ],
)
def test_a_batch_whose_items_have_changed_is_changed_code(items: Any, key: Any, what: str) -> None:
    turns = Turns(mapped(number_items(20), key=key))
    turns.body = mapped(items, key=key)
    error = turns.go()
    assert isinstance(turns.error, CodeChanged), error
    assert what in str(turns.error)


def test_a_result_of_another_type_fails_its_item_alone() -> None:
    async def body(flow: Workflow) -> MapResult[Box]:
        return await flow.options(result=Box).map("a.b", number_items(3))

    turns = Turns(body)
    turns.go(ended(turns.calls[0], [{"number": 4}, {"number": "many"}, None], {2: DEAD}))
    assert turns.value.results == [Box(number=4), None, None]
    assert (turns.value.succeeded, turns.value.failed) == (1, 2)
    assert "number" in str(turns.value.failures[0].error)


def test_a_held_workflow_goes_on_with_a_release_that_maps_the_failed_items_again() -> None:
    items = number_items(4)

    async def body(flow: Workflow) -> None:
        loaded = await flow.map("a.b", items)
        if loaded.failed:
            raise Fail("some are damaged")

    async def mended(flow: Workflow) -> int:
        loaded = await flow.map("a.b", items)
        again = await flow.map("a.b", [items[one.index] for one in loaded.failures])
        return loaded.succeeded + again.succeeded

    turns = Turns(body)
    turns.go(ended(turns.calls[0], failed={1: DEAD, 3: DEAD}))
    assert isinstance(turns.error, Fail)
    turns.body = mended
    turns.go()
    assert [one.arguments for one in turns.suspended.requests] == [{"n": 1}, {"n": 3}]
    turns.go(ended(turns.calls[1]))
    assert turns.value == 4


boxes = Agent()


@boxes.workflow("boxes.weigh")
async def weigh_boxes(flow: Workflow) -> MapResult[int]:
    return await flow.options(result=int).map("boxes.weight", number_items(3))


@boxes.workflow("boxes.lost")
async def lost_boxes(flow: Workflow) -> Any:
    return (await flow.map("boxes.weight", number_items(3))).failures


def test_a_body_may_return_its_map_and_the_failures_alone() -> None:
    def weight(n: int) -> int:
        if n == 1:
            raise Fail("it is gone")
        return 10 * n

    weighed = run_workflow(boxes, "boxes.weigh", jobs={"boxes.weight": weight}).result
    assert (weighed["succeeded"], weighed["failed"], weighed["given"]) == (2, 1, [0, None, 20])
    for failures in (
        weighed["failures"],
        run_workflow(boxes, "boxes.lost", jobs={"boxes.weight": weight}).result,
    ):
        assert [(one["key"], one["state"], one["error"]["message"]) for one in failures] == [
            ("1", "dead", "it is gone")
        ]


def test_after_so_many_failures_a_map_requests_no_more_and_cancels_what_is_left() -> None:
    turns = Turns(mapped(number_items(1_700), stop_after=2))
    pause = turns.suspended.suspension.wake_at
    assert pause is not None
    turns.go(Answer(at=pause))
    first, second = turns.calls
    assert first.stop_after == 2
    assert turns.suspended.requests[0].member_of is not None
    assert turns.suspended.requests[0].member_of.stops
    turns.go(ended(first, [None] * 500, {3: DEAD, 9: DEAD}, at=0), ended(second, left=490, at=0))
    assert turns.suspended.cancels == (second,)
    turns.go(Answer(at=after(1)))
    assert turns.value.stopped
    assert (turns.value.succeeded, turns.value.failed) == (508, 2)
    assert len(turns.calls) == 2


def test_a_timeout_around_a_map_cancels_its_batches() -> None:
    async def body(flow: Workflow) -> str:
        try:
            async with asyncio.timeout(60):
                await flow.map("a.b", number_items(3))
        except TimeoutError:
            await flow.receive("go")
        return "late"

    turns = Turns(body)
    (call,) = turns.calls
    turns.go(Answer(at=after(61)))
    assert turns.suspended.suspension.closed == (call.call_id,)
    assert turns.suspended.cancels == (call,)


agent = Agent()


@agent.job("numbers.invert")
def invert(number: int) -> float:
    if number == 0:
        raise Fail("no number is divided by zero")
    return 1 / number


@agent.workflow("numbers.invert_all")
async def invert_all(flow: Workflow, count: int) -> list[Any]:
    done = await flow.map(invert, range(count))
    return [done.succeeded, [one.key for one in done.failures], done.results[:3]]


def test_the_kit_ends_the_jobs_of_a_map_too() -> None:
    trial = run_workflow(agent, "numbers.invert_all", {"count": 1_100}, jobs={"numbers.invert": invert})
    assert trial.result == [1_099, ["0"], [None, 1.0, 0.5]]
    trial = run_workflow(agent, "numbers.invert_all", {"count": 2})
    assert trial.waits == ("map numbers.invert",)
    trial.end_call("numbers.invert", 3)
    assert trial.result == [2, [], [3.0, 3.0]]
