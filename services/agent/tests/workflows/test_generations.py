"""Workflows that go on with an empty journal, that send signals to others, and that publish their state."""

import asyncio
from typing import Any, NoReturn, assert_type
from uuid import UUID, uuid4

import pytest
from services.agent.tests.workflows.turns import JOB_ID, Turns, succeeded

from warrener_agent import Agent, Workflow
from warrener_agent.testing import replay, run_workflow
from warrener_agent.workflows.failures import BadCall, CodeChanged
from warrener_contracts.events import Answer, Journal, Turn
from warrener_contracts.identity import child_job_id, sent_signal_id

agent = Agent()
OTHER = UUID("0192f0c1-2345-7000-8000-000000000009")


@agent.job("meters.read")
async def read_meter(meter: int) -> int:
    return meter


@agent.workflow("meters.watch")
async def watch(flow: Workflow, total: int, left: int = 2) -> int:
    """Add up what it is sent, two numbers a generation, until it is sent 0."""
    for _ in range(left):
        number = await flow.receive("number", int)
        if number == 0:
            return total
        total += number
    assert_type(await flow.call(read_meter, meter=1), int)
    return flow.continue_as(total=total)


def test_a_workflow_goes_on_with_an_empty_journal_and_new_arguments() -> None:
    trial = run_workflow(agent, "meters.watch", {"total": 1}, jobs={"meters.read": 1})
    assert trial.generations == 1
    trial.send("number", 10)
    trial.send("number", 20)
    assert trial.generations == 2
    assert len(trial.calls) == 1, "it waits for its first signal"
    assert trial.journal.generation == 4
    for number in (30, 40, 0):
        trial.send("number", number)
    assert (trial.result, trial.generations) == (101, 3)


def test_signals_that_come_early_wait_for_the_generation_that_receives_them() -> None:
    trial = run_workflow(agent, "meters.watch", {"total": 0})
    for number in range(1, 6):
        trial.send("number", number)
    trial.end_call("meters.read", 1)
    assert (trial.generations, trial.waits) == (2, ("job meters.read",))
    trial.end_call("meters.read", 1)
    assert (trial.generations, trial.waits) == (3, ("signal number",))
    trial.send("number", 0)
    assert trial.result == 15


async def _hurry(flow: Workflow) -> None:
    """Goes on with the first of its signals, whichever others are there."""
    numbers = [flow.receive("number", int) for _ in range(3)]
    await asyncio.wait(numbers, return_when=asyncio.FIRST_COMPLETED)
    flow.continue_as()


def test_what_a_turn_was_given_and_has_not_received_is_left_to_the_next_generation() -> None:
    one = Turns(_hurry)
    first, second, third = one.calls

    def sent(call_id: str, number: int) -> Answer:
        return Answer(call_id=call_id, at=one.now, result=number, signal_id=str(number))

    one.go(sent(first.call_id, 1), sent(second.call_id, 2), sent(third.call_id, 3))
    assert one.suspended.suspension.continued == {}
    assert one.suspended.suspension.closed == (second.call_id, third.call_id)


async def _leave(flow: Workflow) -> None:
    flow.call("a.waits", {})
    flow.options(detach=True).call("a.detached", {})
    await flow.call("a.ends", {})
    flow.call("a.never", {})
    flow.options(detach=True).call("a.last", {})

    async def go_on() -> NoReturn:
        flow.continue_as(day=2)

    async with asyncio.TaskGroup() as group:
        group.create_task(go_on())
    raise AssertionError("it has ended")


def test_children_that_are_awaited_are_cancelled_and_detached_ones_go_on() -> None:
    one = Turns(_leave)
    waits, _, ends = one.calls
    one.go(succeeded(ends))
    end = one.suspended
    assert end.suspension.continued == {"day": 2}, "from whichever task, whatever the body does then"
    assert (end.suspension.calls, end.steps) == ((), ())
    assert [call.job_id for call in end.cancels] == [waits.job_id]
    assert [one.job_type for one in end.requests] == ["a.last"]


async def _identify(flow: Workflow) -> list[Any]:
    flow.send(OTHER, "hello")
    await flow.call("a.b", {})
    return [flow.uuid(), flow.random()]


def test_ids_derive_from_the_generation_too() -> None:
    found: dict[int, list[Any]] = {}
    for generation in (0, 7):
        one = Turns(_identify, generation=generation)
        key = f"{generation}/0/" if generation else "0/"
        call = one.calls[1]
        assert call.call_id == f"{key}job/a.b#1"
        assert call.job_id == child_job_id(JOB_ID, f"{key}job/a.b#1")
        assert [spec.key for spec in one.suspended.requests] == [f"{key}job/a.b#1"]
        assert [spec.event_id for spec in one.suspended.signals] == [
            sent_signal_id(JOB_ID, f"{key}send/hello#1")
        ]
        one.go(succeeded(call))
        found[generation] = one.value
    assert not {*found[0]} & {*found[7]}


def test_arguments_that_the_workflow_does_not_take_are_refused_at_the_call() -> None:
    wrong = Agent()

    @wrong.workflow("a.wrong")
    async def body(flow: Workflow, day: int) -> None:
        flow.continue_as(day="Monday")

    with pytest.raises(BadCall, match=r"expected other arguments: day: .*; at test_generations.py"):
        _ = run_workflow(wrong, "a.wrong", {"day": 1}).result


def test_generations_that_never_wait_fail_their_test() -> None:
    wild = Agent()

    @wild.workflow("a.wild")
    async def body(flow: Workflow, day: int) -> None:
        flow.continue_as(day=day + 1)

    with pytest.raises(AssertionError, match="expected a generation to wait"):
        run_workflow(wild, "a.wild", {"day": 1})


def test_code_that_goes_on_where_its_journal_has_it_wait_has_changed() -> None:
    async def waits(flow: Workflow) -> None:
        await flow.call("a.b", {})
        await flow.call("a.c", {})

    one = Turns(waits)
    one.go(succeeded(one.calls[0]))

    async def goes_on(flow: Workflow) -> None:
        await flow.call("a.b", {})
        flow.continue_as()

    one.body = goes_on
    one.go(succeeded(one.calls[1]))
    assert isinstance(one.error, CodeChanged)
    assert "flow.continue_as" in str(one.error)


def test_a_generation_is_replayed_from_its_journal() -> None:
    trial = run_workflow(agent, "meters.watch", {"total": 0}, jobs={"meters.read": 1})
    trial.send("number", 10)
    trial.send("number", 20)
    printed = {
        "job_id": str(uuid4()),
        "job_type": "meters.watch",
        "arguments": {"total": 30},
        "requested_at": trial.now.isoformat(),
        **trial.journal.model_dump(mode="json"),
    }
    assert printed["generation"] == 4
    assert Journal(generation=4, turns=(Turn(attempt=5),)).generation == 4
    assert replay(agent, printed) == ("signal number",)


# -- signals and states ------------------------------------------------------------------------------------


@agent.workflow("meters.report")
async def report(flow: Workflow, to: UUID) -> str:
    flow.publish({"stage": "begun"})
    flow.send(to, "begun", {"by": flow.job_id})
    await flow.sleep("1m")
    flow.publish({"stage": "half"})
    flow.publish({"stage": "nearly"})
    await flow.sleep("1m")
    flow.publish({"stage": "over"})
    flow.send(str(to), "ended")
    return "done"


def test_a_signal_to_another_workflow_is_sent_once() -> None:
    trial = run_workflow(agent, "meters.report", {"to": str(OTHER)})
    assert [(one.job_id, one.name) for one in trial.sent] == [(OTHER, "begun")]
    assert trial.waits == ("time 2026-01-01T00:01:00+00:00",), "nothing waits for a signal that was sent"
    trial.advance("1h")
    assert trial.result == "done"
    assert [one.name for one in trial.sent] == ["begun", "ended"]
    assert trial.calls == ()


def test_what_a_workflow_publishes_is_seen_at_the_end_of_its_turn() -> None:
    trial = run_workflow(agent, "meters.report", {"to": str(OTHER)})
    assert trial.published == {"stage": "begun"}
    trial.advance("1m")
    assert trial.published == {"stage": "nearly"}
    trial.advance("1m")
    assert (trial.result, trial.published) == ("done", {"stage": "over"})


def test_a_mistake_of_the_body_is_named_with_what_it_gave() -> None:
    async def to_nobody(flow: Workflow) -> None:
        flow.send("nosuch", "n")

    async def by_place(flow: Workflow) -> None:
        flow.continue_as({"day": 2})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    async def another_type(flow: Workflow) -> None:
        given: Any = "x"
        await flow.call(read_meter, meter=given)

    for body, message in (
        (to_nobody, "expected the id of a job, got 'nosuch'; at test_generations.py:"),
        (
            by_place,
            "expected the arguments of flow.continue_as by name, got ({'day': 2},); at test_generations",
        ),
        (another_type, "meters.read: expected other arguments: meter: Input should be a valid integer, "),
        (another_type, ", got str; at test_generations.py:"),
    ):
        assert message in str(Turns(body).error)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("", None, "expected a signal that can be sent: name"),
        ("n", "x" * 70_000, "n: expected data of at most 65536 bytes of JSON, got 70002"),
        ("n", "\ud800", "PostgreSQL can store"),
        ("state", "x" * 20_000, "expected a state of at most 16384 bytes of JSON, got 20002"),
    ],
)
def test_a_signal_or_a_state_that_nobody_could_keep_is_refused(name: str, data: Any, message: str) -> None:
    async def body(flow: Workflow) -> None:
        if name == "state":
            flow.publish(data)
        flow.send(OTHER, name, data)

    one = Turns(body)
    assert isinstance(one.error, BadCall)
    assert message in str(one.error)
