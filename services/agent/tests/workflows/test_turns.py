"""Turns: what the end of one leaves behind, and what a journal that does not fit is answered with."""

import asyncio
import contextlib
import gc
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from services.agent.tests.workflows.turns import Turns, after, succeeded

from warrener_agent import Workflow
from warrener_agent.decisions.errors import describe_turn_error
from warrener_agent.workflows import turn
from warrener_agent.workflows.failures import CodeChanged, Deadlock, JournalFull
from warrener_contracts.events import Answer, CallKind, ErrorInfo, ErrorKind
from warrener_contracts.retryability import is_unrunnable_here
from warrener_contracts.state_machine import JobState


def test_finally_runs_in_every_turn_and_its_calls_are_in_none() -> None:
    seen = list[bool]()

    async def body(flow: Workflow) -> int:
        try:
            for _ in range(10):
                await flow.call("a.b")
        finally:
            seen.append(flow.leaving)
            await flow.call("clean.up")
        return 7

    turns = Turns(body)
    for number in range(10):
        assert isinstance(turns.end, turn.TurnSuspended)
        assert [call.name for call in turns.calls] == ["a.b"] * (number + 1)
        assert turns.end.last_calls, "the test kit refuses such a body"
        turns.go(succeeded(turns.calls[-1]))
    assert seen == [True] * 10 + [False]
    assert [call.name for call in turns.open_calls] == ["clean.up"], "the true end made it"
    turns.go(succeeded(turns.calls[-1]))
    assert turns.value == 7


async def _swallow_and_call(flow: Workflow) -> None:
    while True:
        try:
            await flow.receive("go")
        except asyncio.CancelledError:
            continue


async def _swallow_and_sleep(flow: Workflow) -> None:
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            continue


async def _swallow_and_spin(flow: Workflow) -> None:
    try:
        await flow.receive("go")
    except asyncio.CancelledError:
        while True:  # noqa: ASYNC110 - a careless body
            await asyncio.sleep(0)


async def _leave_tasks_behind(flow: Workflow) -> None:
    async def forward() -> AsyncGenerator[Any]:
        try:
            yield await flow.receive("go")
        finally:
            await flow.call("clean.up")

    async for _ in forward():
        asyncio.get_running_loop().create_task(flow.sleep(5))


async def _call_for_ever(flow: Workflow) -> None:
    try:
        await flow.receive("go")
    finally:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                flow.call("clean.up")


@pytest.mark.parametrize(
    "body", [_call_for_ever, _swallow_and_call, _swallow_and_sleep, _swallow_and_spin, _leave_tasks_behind]
)
def test_a_body_that_goes_on_when_its_turn_has_ended_is_given_up(
    body: Callable[[Workflow], Awaitable[None]],
) -> None:
    turns = Turns(body)
    again = turns.go()
    assert isinstance(again, turn.TurnSuspended)
    assert not again.suspension.calls
    assert [call.name for call in turns.calls] in (["go"], [])


def test_a_body_that_goes_on_whatever_ends_it_ends_in_its_turn() -> None:
    """Else the collector would run its code later, in any thread."""
    seen = list[int]()

    async def body(flow: Workflow) -> None:
        for _ in range(150):
            try:
                await asyncio.sleep(1)
            except BaseException:  # noqa: BLE001 - as a careless body does
                seen.append(threading.get_ident())

    assert isinstance(Turns(body).end, turn.TurnSuspended)
    assert len(seen) == 150


def test_a_body_that_waits_for_nothing_is_a_deadlock() -> None:
    async def body(flow: Workflow) -> None:
        await flow.call("a.b")
        await asyncio.Event().wait()

    turns = Turns(body)
    turns.go(succeeded(turns.calls[0]))
    assert isinstance(turns.error, Deadlock)
    assert f"test_turns.py:{body.__code__.co_firstlineno + 2}" in str(turns.error)


async def _raise_value_error(flow: Workflow) -> None:
    await flow.call("a.b")
    raise ValueError("boom")


async def _deadlock(flow: Workflow) -> None:
    await asyncio.Event().wait()


async def _spin(flow: Workflow) -> None:
    while not flow.leaving:  # noqa: ASYNC110 - a careless body
        await asyncio.sleep(0)


async def _reach_outside(flow: Workflow) -> None:
    await asyncio.to_thread(print)


async def _repeat_a_key(flow: Workflow) -> None:
    flow.options(key="k").call("a.b")
    await flow.options(key="k").call("a.b")


async def _map_what_does_not_fit(flow: Workflow) -> None:
    await flow.map("a.b", [{"n": 1}, "two"], key=str)


async def _map_a_key_twice(flow: Workflow) -> None:
    await flow.map("a.b", [{"n": 1}, {"n": 1}], key=lambda item: item["n"])


async def _map_what_no_store_takes(flow: Workflow) -> None:
    await flow.map("a.b", [{"n": 1}, {"n": 2, "x": "\0"}])


async def _map_with_no_room(flow: Workflow) -> None:
    await flow.map("a.b", [{"n": 1}], in_flight=0)


async def _sleep_badly(flow: Workflow) -> None:
    await flow.sleep("3 moons")


async def _wait_until_a_naive_time(flow: Workflow) -> None:
    await flow.until(datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake


async def _call_a_bad_name(flow: Workflow) -> None:
    await flow.call("no blanks")


async def _undo_a_step(flow: Workflow) -> None:
    await flow.undo("a.undo").step(print)


async def _undo_a_map(flow: Workflow) -> None:
    await flow.undo("a.undo").map("a.b", [])


async def _step_a_coroutine(flow: Workflow) -> None:
    await flow.step(_deadlock(flow))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_deadlock, "nothing that can come"),
        (_spin, "steps at once"),
        (_reach_outside, "flow.step"),
        (_repeat_a_key, "with key 'k'"),
        (_map_what_does_not_fit, "item 1 (key 'two') of a map, 'two': a.b: expected its arguments"),
        (_map_a_key_twice, "'1' twice"),
        (_map_what_no_store_takes, "item 1"),
        (_map_with_no_room, "expected 1 or more in flight of a map, got 0"),
        (_sleep_badly, "3 moons"),
        (_wait_until_a_naive_time, "with its zone"),
        (_call_a_bad_name, "job_type"),
        (_undo_a_step, "expected no undo for a step"),
        (_undo_a_map, "expected no undo for a map"),
        (_step_a_coroutine, "write flow.step(_deadlock, ...)"),
    ],
)
def test_a_mistake_that_each_attempt_would_repeat_waits_for_another_release(
    body: Callable[..., Awaitable[None]], message: str
) -> None:
    error = Turns(body).error
    raised = describe_turn_error(error)
    assert is_unrunnable_here(raised.error), "uncharged, so nothing is undone"
    assert message in raised.error.message
    assert "test_turns.py:" in raised.error.message, "it names the line"


def test_an_error_of_the_application_is_charged_and_shows_its_line() -> None:
    turns = Turns(_raise_value_error)
    turns.go(succeeded(turns.calls[0]))
    raised = describe_turn_error(turns.error)
    assert not is_unrunnable_here(raised.error)
    assert raised.error.type == "ValueError"
    stack = raised.error.stack or ""
    assert f"line {_raise_value_error.__code__.co_firstlineno + 2}, in _raise_value_error" in stack
    assert "workflows/turn.py" not in stack


def test_a_child_that_failed_is_named_with_its_job_type() -> None:
    async def body(flow: Workflow) -> None:
        await flow.call("shop.charge")

    turns = Turns(body)
    (call,) = turns.calls
    turns.go(Answer(call_id=call.call_id, at=after(1), state=JobState.DEAD))
    raised = describe_turn_error(turns.error)
    assert raised.error.type == "warrener_agent.ChildJobFailed"
    assert raised.error.message == f"expected shop.charge (job {call.job_id}) to succeed, it ended dead"
    assert not raised.error.retryable


def test_time_never_goes_back_however_clocks_differ() -> None:
    async def body(flow: Workflow) -> list[float]:
        began, seen = flow.now(), list[float]()
        for _ in range(3):
            await flow.call("a.b")
            seen.append((flow.now() - began).total_seconds())
        await flow.sleep(10)
        return [*seen, (flow.now() - began).total_seconds()]

    turns = Turns(body)
    turns.now = after(9_999)  # the first turn's time holds
    for at in (50, 20, 60):
        turns.go(succeeded(turns.calls[-1], at=at))
    assert turns.suspended.suspension.wake_at == after(70)
    turns.go(Answer(at=after(65)))
    assert turns.suspended.suspension.wake_at == after(70), "it is too early"
    turns.go(Answer(at=after(70.5)))
    assert turns.value == [50, 50, 60, 70.5]


def test_now_uuid_and_random_are_the_same_in_every_turn() -> None:
    seen = list[tuple[object, ...]]()

    async def body(flow: Workflow) -> None:
        seen.append((flow.now(), flow.uuid(), flow.uuid(), flow.random(), flow.random()))
        await flow.receive("go")

    turns = Turns(body)
    turns.now = after(5)
    turns.go(Answer(at=after(5)))
    assert len(seen) == 2
    assert len(set(seen)) == 1
    assert len(set(seen[0])) == 5


def test_a_job_that_has_waited_in_its_queue_sees_the_time_at_which_it_began_and_sleeps_no_less() -> None:
    seen = list[datetime]()

    async def body(flow: Workflow) -> None:
        seen.append(flow.now())
        await flow.sleep(60)

    turns = Turns(body, now=after(3_600))
    assert turns.suspended.suspension.wake_at == after(3_660)
    turns.go(Answer(at=after(3_660)))
    assert seen == [after(3_600)] * 2


def test_a_retry_of_a_turn_gets_its_answers_with_those_that_came_since() -> None:
    async def body(flow: Workflow) -> list[str]:
        return list(await asyncio.gather(flow.call("a.b"), flow.call("a.b")))

    turns = Turns(body)
    first, second = turns.calls
    turns.turns.append(turns.turns[0].model_copy(update={"attempt": 2, "suspension": None}))
    turns.turns[1] = turns.turns[1].model_copy(update={"answers": (succeeded(first, "one"),)})  # it failed
    turns.go(succeeded(second, "two"))
    assert turns.value == ["one", "two"]


async def _reserve_then_ship(flow: Workflow) -> None:
    await flow.call("reserve", {"order": 1})
    await flow.call("ship")


async def _other_arguments(flow: Workflow) -> None:
    await flow.call("reserve", {"order": 2})


async def _another_call(flow: Workflow) -> None:
    await flow.call("charge")


async def _one_more(flow: Workflow) -> None:
    await asyncio.gather(flow.call("reserve", {"order": 1}), flow.call("charge"))


async def _no_call(flow: Workflow) -> None:
    await flow.receive("go")


async def _none_at_all(flow: Workflow) -> None:
    await flow.sleep(1)


async def _ends(flow: Workflow) -> None:
    return


async def _swallows(flow: Workflow) -> None:
    try:
        await flow.call("reserve", {"order": 2})
    except Exception:  # noqa: BLE001 - as a careless body does
        await flow.receive("go")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_other_arguments, "with other arguments"),
        (_another_call, "got call 0/job/charge#1"),
        (_one_more, "0/job/charge#1"),
        (_no_call, "0/signal/go#1"),
        (_none_at_all, "expected call 0/job/reserve#1 of test_turns.py"),
        (_ends, "got its end"),
        (_swallows, "with other arguments"),
    ],
)
def test_code_that_does_not_fit_the_journal_is_changed_code(body: Any, message: str) -> None:
    turns = Turns(_reserve_then_ship)
    turns.go(succeeded(turns.calls[0]))
    turns.body = body
    turns.go(succeeded(turns.calls[1]))
    assert isinstance(turns.error, CodeChanged)
    assert message in str(turns.error)

    turns.turns.pop()
    turns.body = _reserve_then_ship  # a repaired release
    turns.go(succeeded(turns.calls[1]))
    assert turns.value is None


def test_an_answer_that_no_call_waits_for_is_changed_code() -> None:
    turns = Turns(_reserve_then_ship)
    turns.go(succeeded("0/job/never#1"))
    assert isinstance(turns.error, CodeChanged)
    assert "0/job/never#1" in str(turns.error)


def test_code_may_change_behind_the_end_of_the_journal() -> None:
    turns = Turns(_reserve_then_ship)
    turns.turns[0] = turns.turns[0].model_copy(update={"suspension": turns.suspended.suspension})

    async def reserve_then_charge(flow: Workflow) -> None:
        await flow.call("reserve", {"order": 1})
        await flow.call("charge")

    turns.body = reserve_then_charge
    turns.go(succeeded(turns.calls[0]))
    assert [call.name for call in turns.open_calls] == ["charge"]


def test_more_calls_than_a_journal_holds_end_the_turn() -> None:
    async def body(flow: Workflow) -> None:
        try:
            for number in range(2_500):
                flow.call("a.b", {"n": number})
        except Exception:  # noqa: BLE001 - as a careless body does
            await flow.receive("go")

    error = Turns(body).error
    assert isinstance(error, JournalFull)
    assert "flow.map" in str(error)


def test_steps_run_behind_the_turn_and_answer_in_the_next() -> None:
    def read(path: str) -> int:
        return len(path)

    async def body(flow: Workflow) -> list[int]:
        return [await flow.step(read, "ab"), await flow.step(read, path="abc")]

    turns = Turns(body)
    for _ in range(2):
        (step,) = turns.suspended.steps
        assert step.call.kind is CallKind.STEP
        answer = Answer(call_id=step.call.call_id, at=after(1), result=step.write(step.function()))
        recorded = turns.suspended.suspension.model_copy(update={"answers": (answer,)})
        turns.turns[-1] = turns.turns[-1].model_copy(update={"suspension": recorded})
        turns.go()
    assert turns.value == [2, 3]


def test_the_end_cancels_children_that_are_open_and_spares_detached_ones() -> None:
    async def body(flow: Workflow) -> str:
        flow.call("a.open")
        flow.options(detach=True).call("a.detached")
        given_up = flow.call("a.given_up")
        await flow.call("a.b")
        given_up.cancel()
        flow.call("a.late")
        flow.options(detach=True).call("a.late_detached")
        return "done"

    turns = Turns(body)
    opened, _, given_up, last = turns.calls
    end = turns.go(succeeded(last))
    assert isinstance(end, turn.TurnReturned)
    assert [spec.job_type for spec in end.requests] == ["a.late_detached"]
    assert {one.job_id for one in end.cancels} == {opened.job_id, given_up.job_id}


def test_a_child_that_fails_raises_in_the_body() -> None:
    async def body(flow: Workflow) -> None:
        await flow.call("a.b")

    turns = Turns(body)
    turns.go(Answer(call_id=turns.calls[0].call_id, at=after(1), state=JobState.CANCELLED))
    assert "cancelled" in str(turns.error)

    turns = Turns(body)
    error = ErrorInfo(kind=ErrorKind.ERROR, type="ResultTooLarge", message="9 MiB")
    call_id = turns.calls[0].call_id
    turns.go(Answer(call_id=call_id, at=after(1), state=JobState.SUCCEEDED, error=error))
    assert "expected a result of a.b (job " in str(turns.error)


def test_calls_that_nobody_awaits_are_logged_when_the_body_returns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="warrener.workflow")

    async def body(flow: Workflow) -> None:
        flow.step(print)
        flow.call("a.b")
        flow.options(detach=True).call("a.detached")
        flow.call("a.given_up").cancel()

    end = Turns(body).end
    assert isinstance(end, turn.TurnReturned)
    first = body.__code__.co_firstlineno
    assert end.unmade == (f"test_turns.py:{first + 1}", f"test_turns.py:{first + 2}")
    assert end.unmade[0] in caplog.text


def test_a_generator_that_another_thread_collects_takes_no_step() -> None:
    closed = list[int]()

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            closed.append(threading.get_ident())

    async def body(flow: Workflow) -> None:
        gc.disable()  # in this thread
        cycle: list[Any] = [numbers()]
        await anext(cycle[0])
        cycle.append(cycle)
        del cycle
        collector = threading.Thread(target=gc.collect)
        collector.start()
        collector.join()
        gc.enable()
        await asyncio.sleep(0)
        await flow.receive("go")

    assert Turns(body).suspended.suspension.calls
    assert not closed
