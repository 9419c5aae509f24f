"""The waits of a workflow: timeouts, signals, several calls at once, and what a loop of its own refuses."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from services.agent.tests.workflows.turns import JOB_ID, Turns, after, succeeded

from warrener_agent import ChildJobFailed, Workflow
from warrener_agent.workflows.failures import ends_workflow
from warrener_agent.workflows.turn import TurnReturned
from warrener_contracts.events import Answer, ErrorInfo, ErrorKind
from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState

DEAD = ErrorInfo(kind=ErrorKind.ERROR, type="Declined", message="no funds")


class Box(BaseModel):
    number: int


def _signal(turns: Turns, name: str, data: Any, *, at: float = 0) -> Answer:
    call = next(one for one in turns.open_calls if one.name == name)
    return Answer(call_id=call.call_id, at=after(at), result=data, signal_id=str(data))


def test_a_timeout_cancels_the_child_and_a_shield_keeps_it() -> None:
    async def body(flow: Workflow) -> str:
        shielded = flow.call("a.shielded")
        for call in (flow.call("a.cancelled"), asyncio.shield(shielded)):
            try:
                async with asyncio.timeout(60):
                    await call
            except TimeoutError:
                continue
        return str(await shielded)

    turns = Turns(body)
    assert turns.suspended.suspension.wake_at == after(60)
    assert turns.suspended.suspension.timer_line == f"test_waits.py:{body.__code__.co_firstlineno + 4}"
    shielded, cancelled = turns.calls
    turns.go(Answer(at=after(61)))
    assert turns.suspended.suspension.closed == (cancelled.call_id,)
    assert [one.job_id for one in turns.suspended.cancels] == [cancelled.job_id]
    turns.go(Answer(at=after(122)))
    assert not turns.suspended.cancels
    assert turns.suspended.suspension.wake_at is None
    turns.go(succeeded(shielded, "shielded", at=130))
    assert turns.value == "shielded"


def test_a_call_that_is_cancelled_before_its_turn_ends_is_never_requested() -> None:
    async def body(flow: Workflow) -> None:
        flow.call("a.b").cancel()
        flow.step(print, "never").cancel()
        await flow.receive("go")

    end = Turns(body).suspended
    assert not end.requests
    assert not end.steps
    assert not end.cancels
    assert end.suspension.closed == ("0/job/a.b#1", "0/step/print#1")


def test_a_sibling_that_fails_cancels_the_others_of_its_group() -> None:
    async def body(flow: Workflow) -> None:
        async with asyncio.TaskGroup() as group:
            for name in ("a.bad", "a.good"):
                group.create_task(_wait(flow, name))

    async def _wait(flow: Workflow, name: str) -> None:
        await flow.call(name)

    turns = Turns(body)
    bad, _ = turns.calls
    turns.go(Answer(call_id=bad.call_id, at=after(1), state=JobState.DEAD, error=DEAD))
    group: Any = turns.error
    assert ends_workflow(group), "no retry can mend it"
    (failed,) = group.exceptions
    assert isinstance(failed, ChildJobFailed)
    assert (failed.state, failed.error, failed.job_id) == (JobState.DEAD, DEAD, bad.job_id)
    assert bad.job_id == child_job_id(JOB_ID, bad.call_id)


def test_the_first_of_several_is_the_same_however_answers_come_together() -> None:
    async def body(flow: Workflow) -> tuple[list[Any], str]:
        calls = [flow.call("a.b") for _ in range(3)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        first = [call.result() for call in done]
        await asyncio.wait(calls)
        return first, await flow.call("c.d")

    turns = Turns(body)
    one, two, three = turns.calls
    turns.go(*(succeeded(call, call.call_id[-1], at=5) for call in (three, one, two)))
    turns.go(succeeded(turns.calls[-1], "end", at=6))
    assert turns.value == (["3"], "end")


def test_the_first_of_several_gathers_is_the_same_in_every_turn() -> None:
    async def body(flow: Workflow) -> list[Any]:
        groups = [asyncio.gather(flow.call("a.b"), flow.call("a.b")) for _ in range(20)]
        done, _ = await asyncio.wait(groups)
        return [group.result() for group in done]

    turns = Turns(body)
    turns.go(*(succeeded(call, number) for number, call in enumerate(turns.calls)))
    values = list[Any]()
    for _ in range(5):
        end = turns.replay(turns.turns)
        values.append(end.value if isinstance(end, TurnReturned) else end)
    assert values == [turns.value] * 5


def test_a_late_signal_goes_to_the_next_receiver() -> None:
    async def body(flow: Workflow) -> list[object]:
        seen = list[object]()
        for _ in range(2):
            try:
                async with asyncio.timeout(60):
                    seen.append(await flow.receive("packed", Box))
            except TimeoutError:
                seen.append("too late")
        await flow.call("a.b")
        return seen

    turns = Turns(body)
    turns.go(_signal(turns, "packed", {"number": 3}, at=61))  # its receiver has just given up
    assert turns.suspended.suspension.closed == ("0/signal/packed#1", "0/signal/packed#2")
    assert [call.name for call in turns.open_calls] == ["a.b"]
    turns.go(succeeded(turns.calls[-1], at=62))
    assert turns.value == ["too late", Box(number=3)]


def test_signals_of_one_name_go_to_their_receivers_in_order() -> None:
    async def body(flow: Workflow) -> list[Any]:
        return await asyncio.gather(*(flow.receive("n") for _ in range(2)), flow.receive("other"))

    turns = Turns(body)
    turns.go(_signal(turns, "n", 1), _signal(turns, "other", 3))
    turns.go(_signal(turns, "n", 2))
    assert turns.value == [1, 2, 3]


def test_a_signal_that_does_not_fit_is_set_aside_and_the_wait_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="warrener.workflow")

    async def body(flow: Workflow) -> int:
        async with asyncio.timeout(60):
            box = await flow.receive("packed", Box)
        await flow.call("a.b")
        return box.number

    turns = Turns(body)
    turns.go(_signal(turns, "packed", {"number": "many"}, at=1))
    assert turns.suspended.suspension.wake_at == after(60), "the wait is the same"
    assert f"test_waits.py:{body.__code__.co_firstlineno + 2}" in caplog.text
    turns.go(_signal(turns, "packed", "{number}", at=2))
    turns.go(_signal(turns, "packed", {"number": 3}, at=3))
    assert [call.call_id for call in turns.calls] == [
        "0/signal/packed#1",
        "0/signal/packed#1~",
        "0/signal/packed#1~~",
        "0/job/a.b#1",
    ]
    turns.go(succeeded(turns.calls[-1]))
    assert turns.value == 3
    assert len(caplog.records) == 2, "a replay repeats no warning"


def test_what_was_set_aside_stays_so_for_a_release_that_could_read_it() -> None:
    shape: list[Any] = [int]

    async def body(flow: Workflow) -> list[Any]:
        return [await flow.receive("n", shape[0]) for _ in range(2)]

    turns = Turns(body)
    turns.go(_signal(turns, "n", "one"))
    shape[0] = Any
    turns.go(_signal(turns, "n", "two"))
    turns.go(_signal(turns, "n", "three"))
    assert turns.value == ["two", "three"]


def test_a_late_signal_that_does_not_fit_the_next_receiver_leaves_it_open() -> None:
    async def body(flow: Workflow) -> int:
        try:
            async with asyncio.timeout(60):
                await flow.receive("n", str)
        except TimeoutError:
            pass
        return await flow.receive("n", int)

    turns = Turns(body)
    turns.go(_signal(turns, "n", "late", at=61))
    assert [call.call_id for call in turns.open_calls] == ["0/signal/n#2"]
    turns.go(_signal(turns, "n", 5, at=62))
    assert turns.value == 5


async def _leave_a_timeout(flow: Workflow) -> None:
    async with asyncio.timeout(60):
        await flow.receive("packed", Box)


def test_a_timeout_that_leaves_the_body_names_its_wait() -> None:
    turns = Turns(_leave_a_timeout)
    turns.go(Answer(at=after(61)))
    line = _leave_a_timeout.__code__.co_firstlineno + 2
    assert str(turns.error) == f"expected signal packed at test_waits.py:{line} to end in time, it had not"


def test_a_time_without_a_zone_is_refused() -> None:
    async def body(flow: Workflow) -> None:
        await flow.until(flow.now().replace(tzinfo=None))

    assert "with its zone" in str(Turns(body).error)


def test_a_workflow_sleeps_for_months() -> None:
    async def body(flow: Workflow) -> str:
        await flow.sleep("90d")
        await flow.until(flow.now() + timedelta(hours=1))
        return flow.now().isoformat()

    turns = Turns(body)
    for _ in range(2):
        turns.go(Answer(at=turns.suspended.suspension.wake_at or after(0)))
    assert turns.value == "2026-05-30T01:00:00+00:00"


async def _connect(flow: Workflow) -> None:
    await asyncio.open_connection("localhost", 1)


async def _use_a_thread(flow: Workflow) -> None:
    await asyncio.to_thread(print)


async def _start_a_process(flow: Workflow) -> None:
    await asyncio.create_subprocess_exec("true")


async def _watch_a_socket(flow: Workflow) -> None:
    with socket.socket() as one:
        asyncio.get_running_loop().add_reader(one, print)


async def _catch_a_signal(flow: Workflow) -> None:
    asyncio.get_running_loop().add_signal_handler(2, print)


async def _order_by_addresses(flow: Workflow) -> None:
    for one in asyncio.as_completed([flow.sleep(1)]):
        await one


async def _call_from_a_thread(flow: Workflow) -> None:
    asyncio.get_running_loop().call_soon_threadsafe(print)


def test_coroutines_that_would_start_in_any_order_are_refused() -> None:
    assert "make tasks of them" in str(Turns(_order_by_addresses).error)


def test_calls_are_taken_as_they_end() -> None:
    async def body(flow: Workflow) -> list[Any]:
        return [await one for one in asyncio.as_completed([flow.call("a.b"), flow.call("a.b")])]

    turns = Turns(body)
    turns.go(*(succeeded(call, call.call_id[-1]) for call in reversed(turns.calls)))
    assert turns.value == ["2", "1"]


@pytest.mark.parametrize(
    "body", [_connect, _use_a_thread, _start_a_process, _watch_a_socket, _catch_a_signal, _call_from_a_thread]
)
def test_a_workflow_that_reaches_outside_is_sent_to_a_step(
    body: Callable[[Workflow], Awaitable[None]],
) -> None:
    assert "flow.step" in str(Turns(body).error)
