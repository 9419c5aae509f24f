"""A call is the same in every turn, in whatever order its siblings end."""

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from services.agent.tests.workflows.turns import BEGAN_AT, Turns, succeeded

from warrener_agent import Workflow
from warrener_agent.workflows import turn
from warrener_agent.workflows.calls import digest
from warrener_agent.workflows.failures import BadCall
from warrener_agent.workflows.targets import to_plain
from warrener_contracts.events import Answer, Call, CallKind
from warrener_contracts.state_machine import JobState

SIGNALS = 100  # the first signal; smaller numbers are results


def test_calls_are_counted_by_task_kind_and_name() -> None:
    async def deeper(flow: Workflow) -> None:
        await asyncio.gather(flow.call("a.b"), flow.call("a.b"), flow.call("c.d"), flow.receive("a.b"))

    async def body(flow: Workflow) -> None:
        async def outer() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(deeper(flow))
                group.create_task(deeper(flow))

        waiting = asyncio.create_task(outer())
        await asyncio.gather(deeper(flow), flow.options(key="mine").call("a.b"), waiting)

    turns = Turns(body)
    # The keyed call comes first: gather evaluates it before its tasks begin.
    assert [call.call_id for call in turns.calls] == [
        "job/a.b/mine",
        *(
            f"{place}/{what}"
            for place in ("0.2", "0.1.1", "0.1.2")
            for what in ("job/a.b#1", "job/a.b#2", "job/c.d#1", "signal/a.b#1")
        ),
    ]
    assert len({call.job_id for call in turns.calls if call.job_id}) == 10


def test_a_long_key_is_cut_to_a_name_of_its_own() -> None:
    async def body(flow: Workflow) -> None:
        for end in "ab":
            flow.options(key="x" * 300 + end).call("a.b")
        await flow.receive("go")

    first, second, _ = (call.call_id for call in Turns(body).calls)
    assert len(first) == len(second) == 200
    assert first != second


class Order(BaseModel):
    tags: set[str]
    lines: list[int]
    places: dict[str, frozenset[int]]


def test_the_order_of_a_set_is_no_change_of_the_arguments_and_that_of_a_list_is() -> None:
    words = [f"word {number}" for number in range(50)]
    order = Order(tags={*words}, lines=[3, 1, 2], places={"x": frozenset({9, 10, 1})})
    plain = to_plain({"order": order, "both": ({"b", "a"}, ["b", "a"])})
    assert plain == {
        "order": {"tags": sorted(words), "lines": [3, 1, 2], "places": {"x": [1, 10, 9]}},
        "both": [["a", "b"], ["b", "a"]],
    }
    assert digest({"n": [1, 2], "m": 1}) == digest({"m": 1, "n": [1, 2]})
    assert digest({"n": [1, 2]}) != digest({"n": [2, 1]})


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none() | st.floats()))
def test_a_digest_is_that_of_sorted_json_in_each_release(arguments: dict[str, Any]) -> None:
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest(arguments) == blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def test_a_call_that_is_refused_is_refused_in_each_turn_and_leaves_the_others_as_they_are() -> None:
    refused = list[str]()

    async def body(flow: Workflow) -> None:
        for order in ("good", "bad\0", "good"):
            try:
                await flow.call("a.b", {"order": order})
            except BadCall as error:
                refused.append(str(error))

    turns = Turns(body)
    for _ in range(2):
        turns.go(succeeded(turns.open_calls[0]))
    assert turns.value is None
    assert len(refused) == 2
    assert refused[0] == refused[1]


def test_wait_for_is_no_task_of_its_own_on_any_python() -> None:
    async def body(flow: Workflow) -> None:
        async def wait() -> None:
            await flow.call("a.b")

        await asyncio.gather(asyncio.wait_for(wait(), 5), wait())

    assert {call.call_id for call in Turns(body).calls} == {"0.1/job/a.b#1", "0.2/job/a.b#1"}


def test_numbers_of_calls_and_tasks_are_their_own_on_any_python() -> None:
    """Sets of them have the same order, however many futures and timers asyncio makes beside them."""
    orders = list[list[int]]()

    async def body(flow: Workflow) -> None:
        async def wait() -> None:
            await asyncio.sleep(0)

        task: Any = asyncio.create_task(wait())
        if orders:
            await asyncio.wait_for(wait(), 5)
            await asyncio.shield(task)
        orders.append([task.order, flow.call("a.b").order])
        await flow.receive("go")

    Turns(body)
    Turns(body)
    assert orders[0] == orders[1]


def test_a_task_that_starts_at_once_knows_its_place() -> None:
    """Eager tasks, from Python 3.12 on, run before their creator goes on."""

    async def body(flow: Workflow) -> None:
        async def wait() -> None:
            await flow.call("a.b")

        loop: Any = asyncio.get_running_loop()
        eager = {"eager_start": True} if sys.version_info >= (3, 14) else {}
        tasks = [loop.create_task(wait(), **eager), loop.create_task(wait())]
        await asyncio.gather(flow.call("a.b"), *tasks)

    assert sorted(call.call_id for call in Turns(body).calls) == [
        "0.1/job/a.b#1",
        "0.2/job/a.b#1",
        "0/job/a.b#1",
    ]


def test_a_thousand_random_orders_of_ends_replay_to_the_same_journal() -> None:
    """The defect of dbos-transact-py#688: calls were counted in the order in which the loop ran them."""
    seen = set[tuple[str, ...]]()
    for seed in range(1000):
        chance = random.Random(seed)
        turns = Turns(_tree(chance.randrange(1 << 30)))
        now, sent = BEGAN_AT, list[int]()
        while isinstance(turns.end, turn.TurnSuspended):
            now += timedelta(seconds=chance.randrange(4))
            ended = chance.sample(turns.open_calls, min(chance.randint(0, 3), len(turns.open_calls)))
            answers = [_answer(call, sent, chance.randrange(5), now) for call in ended]
            if not answers:
                now = max(now, turns.end.suspension.wake_at or now)
            turns.go(*(answers or [Answer(at=now)]))
            assert not isinstance(turns.end, turn.TurnRaised), f"seed {seed}: {turns.end}"
        value = turns.value
        received = [one for one in value if one >= SIGNALS]
        assert received == sent[: len(received)], f"seed {seed}: signals come in order, and none is lost"
        if seed % 10 == 0:
            for number, one in enumerate(turns.turns[:-1], start=1):
                again = turns.replay(
                    [*turns.turns[: number - 1], one.model_copy(update={"suspension": None})]
                )
                assert isinstance(again, turn.TurnSuspended)
                assert again.suspension == one.suspension, f"seed {seed}, turn {number}"
            end = turns.replay(turns.turns)
            assert isinstance(end, turn.TurnReturned)
            assert end.value == value
        seen.add(tuple(call.call_id for call in turns.calls))
    assert len(seen) > 100


def _answer(call: Call, sent: list[int], result: int, at: datetime) -> Answer:
    if call.kind is not CallKind.SIGNAL:
        return Answer(call_id=call.call_id, at=at, state=JobState.SUCCEEDED, result=result)
    sent.append(SIGNALS + len(sent))
    return Answer(call_id=call.call_id, at=at, result=sent[-1], signal_id=str(len(sent)))


def _tree(seed: int) -> Callable[..., Any]:
    """A body of nested tasks that share a lock and a queue, wait for the first of several or for signals,
    and give up."""

    async def body(flow: Workflow) -> list[int]:
        shape = random.Random(seed)
        lock, queue, seen = asyncio.Lock(), asyncio.Queue[int](), list[int]()

        async def worker(depth: int) -> None:
            match shape.randrange(5):
                case 0:
                    async with lock:
                        seen.append(await flow.call("a.b"))
                case 1:
                    queue.put_nowait(await flow.call("a.b"))
                    seen.append(await queue.get())
                case 2:
                    calls = [flow.call("c.d", {"n": number}) for number in range(3)]
                    done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                    seen.extend(call.result() for call in done)
                    for call in pending:
                        call.cancel()
                case 3:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(shape.randrange(1, 9)):
                            seen.append(await flow.receive("n"))
                case _:
                    seen.append(await flow.call("a.b") + await flow.call("a.b"))
            if depth:
                async with asyncio.TaskGroup() as group:
                    for _ in range(2):
                        group.create_task(worker(depth - 1))

        await asyncio.gather(*(worker(1) for _ in range(2)))
        return seen

    return body
