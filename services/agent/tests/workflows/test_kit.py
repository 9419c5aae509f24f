"""The test kit, as a user's tests use it, and the declaration of a workflow."""

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from warrener_agent import (
    Agent,
    Backoff,
    ChildJobFailed,
    JobContext,
    JobDefinitionError,
    JobType,
    Transaction,
    Workflow,
)
from warrener_agent.testing import replay, run, run_workflow
from warrener_agent.workflows.calls import CallFuture
from warrener_agent.workflows.failures import BadCall, CodeChanged, StepFailed
from warrener_agent.workflows.maps import MapResult
from warrener_contracts.policy import PolicyOverrides


class ChargeArguments(BaseModel):
    order: int
    currency: str = "EUR"


class Receipt(BaseModel):
    number: str


class Box(BaseModel):
    number: int


Charge = JobType("cards.charge", ChargeArguments, Receipt)
agent = Agent()


@agent.job("stock.reserve")
async def reserve(job: JobContext, order: int) -> datetime:
    return datetime(2026, 1, order, tzinfo=UTC)


@agent.job("stock.release")
def release(order: int) -> None: ...


def read_rate(currency: str) -> float:
    return 1.25


async def read_name(order: int) -> str:
    await asyncio.sleep(0)
    return f"order {order}"


@agent.workflow("orders.fulfil", max_attempts=3)
async def fulfil(flow: Workflow, order: int) -> str:
    reserved = await flow.undo(release, order=order).call(reserve, order=order)
    assert_type(reserved, datetime)
    receipt = (
        await flow.options(queue="cards").undo("cards.refund", {"order": order}).call(Charge, order=order)
    )
    assert_type(receipt, Receipt)
    rate = await flow.step(read_rate, "EUR")
    assert_type(rate, float)
    name = await flow.step(read_name, order)
    assert_type(name, str)
    try:
        async with asyncio.timeout(3 * 86_400):
            box = await flow.receive("packed", Box)
    except TimeoutError:
        return "never packed"
    return f"{name} {receipt.number} {box.number} {rate} {reserved.year}"


@agent.workflow("orders.all")
async def fulfil_all(flow: Workflow, orders: list[int]) -> int:
    done = await flow.map(fulfil, orders, in_flight=2)
    assert_type(done, MapResult[str])
    one = flow.call(fulfil, order=1)
    assert_type(one, CallFuture[str])
    return done.succeeded + len(await one)


def _date(order: int) -> datetime:
    return datetime(2026, 1, order, tzinfo=UTC)


JOBS: dict[str, Any] = {"stock.reserve": _date, "cards.charge": {"number": "R1"}}


def test_a_workflow_runs_in_virtual_time() -> None:
    trial = run_workflow(agent, "orders.fulfil", {"order": 7}, jobs=JOBS)
    assert trial.waits == ("signal packed", "time 2026-01-04T00:00:00+00:00")
    assert [undo.job_type for undo in trial.undos] == ["cards.refund", "stock.release"]
    trial.advance("2d")
    trial.send("packed", Box(number=3))
    assert trial.result == "order 7 R1 3 1.25 2026"
    assert [call.name for call in trial.calls if call.kind == "job"] == ["stock.reserve", "cards.charge"]

    trial = run_workflow(agent, "orders.fulfil", {"order": 7}, jobs=JOBS)
    trial.advance("4d")
    assert trial.result == "never packed"


async def test_it_runs_in_tests_that_have_an_event_loop_and_early_signals_are_stored() -> None:
    trial = run_workflow(agent, "orders.fulfil", {"order": 7})
    assert trial.waits == ("job stock.reserve",)
    trial.send("packed", {"number": 1})
    trial.end_call("stock.reserve", datetime(2025, 1, 1, tzinfo=UTC))
    trial.end_call("cards.charge", ValueError("declined"))
    with pytest.raises(ChildJobFailed, match="declined"):
        _ = trial.result


def test_a_test_may_stand_for_steps() -> None:
    trial = run_workflow(agent, "orders.fulfil", {"order": 7}, jobs=JOBS, steps={"read_rate": 3.5})
    trial.send("packed", {"number": 3})
    assert trial.result == "order 7 R1 3 3.5 2026"
    trial = run_workflow(
        agent, "orders.fulfil", {"order": 7}, jobs=JOBS, steps={"read_rate": OSError("down")}
    )
    with pytest.raises(StepFailed, match="down"):
        _ = trial.result


@agent.workflow("rates.read")
async def read_patiently(flow: Workflow) -> float:
    policy = PolicyOverrides(max_attempts=3, backoff=Backoff.fixed("10m"), retry_on=("OSError",))
    rate = await flow.options(policy=policy).step(read_rate, "EUR")
    assert_type(rate, float)
    return rate


async def book(transaction: Transaction, order: int) -> int:
    await transaction.execute("INSERT INTO bookings VALUES (:n)", {"n": order})
    return order


def write(transaction: Transaction) -> None: ...


def test_a_step_that_writes_needs_its_end_of_the_test_and_is_a_coroutine() -> None:
    agent = Agent()

    @agent.workflow("book")
    async def booked(flow: Workflow, order: int) -> int:
        return await flow.step(book, order)

    @agent.workflow("write")
    async def written(flow: Workflow) -> None:
        await flow.step(write)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]

    def end(order: int) -> int:
        return order + 1

    assert run_workflow(agent, "book", {"order": 1}, steps={"book": end}).result == 2
    with pytest.raises(AssertionError, match="`steps`"):
        run_workflow(agent, "book", {"order": 1})
    with pytest.raises(TypeError, match="async def"):
        _ = run_workflow(agent, "write").result


def test_a_step_is_tried_again_as_time_goes_by() -> None:
    failures = [OSError("down")]

    def read(currency: str) -> float:
        if failures:
            raise failures.pop()
        return 1.5

    trial = run_workflow(agent, "rates.read", steps={"read_rate": read})
    assert trial.waits == ("step read_rate", "time 2026-01-01T00:10:00+00:00")
    trial.advance("10m")
    assert trial.result == 1.5

    trial = run_workflow(agent, "rates.read", steps={"read_rate": OSError("down")})
    trial.advance("1h")
    with pytest.raises(StepFailed, match="it raised 3 times, at last OSError: down") as failed:
        _ = trial.result
    assert failed.value.tries == 3
    with pytest.raises(StepFailed, match="it raised ValueError"):
        _ = run_workflow(agent, "rates.read", steps={"read_rate": ValueError("no")}).result


def test_a_step_takes_no_other_part_of_a_policy() -> None:
    other = Agent()

    @other.workflow("flow")
    async def flow(flow: Workflow) -> None:
        await flow.options(policy=PolicyOverrides(timeout=timedelta(seconds=1))).step(read_rate, "EUR")

    with pytest.raises(BadCall, match=r"expected backoff, max_attempts, .* got timeout; at test_kit.py"):
        _ = run_workflow(other, "flow").result


def test_children_may_be_workflows_of_a_map() -> None:
    trial = run_workflow(agent, "orders.all", {"orders": [1, 2, 3]}, jobs={"orders.fulfil": "ok"})
    assert trial.result == 5
    with pytest.raises(ValueError, match="run_workflow"):
        asyncio.run(run(agent, "orders.all"))


def test_a_journal_is_replayed_with_the_code_of_today() -> None:
    trial = run_workflow(agent, "orders.fulfil", {"order": 7}, jobs=JOBS)
    printed = {
        "job_id": "0192f0c1-2345-7000-8000-000000000001",
        "job_type": "orders.fulfil",
        "arguments": {"order": 7},
        "requested_at": "2026-01-01T00:00:00Z",
        **trial.journal.model_dump(mode="json"),
    }
    assert replay(agent, json.dumps(printed)) == trial.waits
    later = Agent()

    @later.workflow("orders.fulfil")
    async def fulfil_otherwise(flow: Workflow, order: int) -> str:
        await flow.call(Charge, order=order)
        return ""

    with pytest.raises(CodeChanged, match=r"cards\.charge"):
        replay(later, printed)


def test_a_body_whose_finally_calls_or_that_rolls_dice_fails_its_test() -> None:
    other = Agent()

    @other.workflow("bad.finally")
    async def call_at_last(flow: Workflow) -> None:
        try:
            await flow.call("a.b")
        finally:
            await flow.call("clean.up")

    @other.workflow("bad.dice")
    async def roll(flow: Workflow) -> None:
        await flow.call("a.b", {"n": random.random()})

    @other.workflow("bad.end")
    async def forget(flow: Workflow) -> None:
        flow.call("a.b")

    for name in ("bad.finally", "bad.end"):
        with pytest.raises(AssertionError, match=r"test_kit\.py"):
            run_workflow(other, name)
    with pytest.raises(AssertionError, match=r"flow\.step"):
        run_workflow(other, "bad.dice")


def test_arguments_that_do_not_fit_are_refused_at_the_call() -> None:
    other = Agent()
    calls: dict[str, Callable[[Workflow], object]] = {
        "an unknown name": lambda flow: flow.call(reserve, number=1),  # type: ignore[call-overload]
        "another type": lambda flow: flow.call(reserve, order="seven"),  # type: ignore[call-overload]
        "a field that lacks": lambda flow: flow.call(Charge, currency="EUR"),  # type: ignore[call-overload]
        "no job type": lambda flow: flow.call(read_rate, "EUR"),
        "a key that no database can keep": lambda flow: flow.options(key="\0").call(reserve, order=1),
        "a signal without a name": lambda flow: flow.receive(""),
        "a bad name": lambda flow: flow.call("no blanks"),
        "a parameter of a step": lambda flow: flow.step(read_rate, rate=1),  # type: ignore[call-overload]
    }

    @other.workflow("bad.calls")
    async def make(flow: Workflow) -> list[str]:
        refused = list[str]()
        for what, call in calls.items():
            try:
                call(flow)
            except (TypeError, ValueError):
                refused.append(what)
        return refused

    assert run_workflow(other, "bad.calls").result == list(calls)


def test_mistakes_of_a_test_are_named() -> None:
    other = Agent()
    other.job("t.charge")(_charge)

    @other.workflow("bad.call")
    async def call(flow: Workflow) -> None:
        await flow.call("t.charge", {"ordr": 1})

    @other.workflow("bad.undo")
    async def undo(flow: Workflow) -> None:
        await flow.undo("t.charge", {"ordr": 1}).call("t.charge", {"order": 1})

    @other.workflow("bad.dice")
    async def roll(flow: Workflow, sides: int) -> None:
        await flow.call("a.b", {"deep": [{"n": sides}, {"n": random.random()}]})

    for name in ("bad.call", "bad.undo"):
        with pytest.raises(ValueError, match=r"t\.charge takes, at test_kit\.py:\d+.*ordr: Extra"):
            run_workflow(other, name)
    with pytest.raises(AssertionError, match=r"got requests\.0\.arguments\.deep\.1\.n: 0\.\d+, and"):
        run_workflow(other, "bad.dice", {"sides": 6})
    with pytest.raises(ValueError, match=r"bad\.dice takes: sides: Field required$"):
        run_workflow(other, "bad.dice")
    with pytest.raises(ValueError, match=r"workflows \(bad\.call, bad\.undo, bad\.dice\), got bad\.cal"):
        run_workflow(other, "bad.cal")


def _charge(order: int) -> None: ...


def _plain(flow: Workflow) -> None: ...


async def _without(order: int) -> None: ...


async def _good(flow: Workflow) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options", "message"),
    [
        (_plain, {}, "async def"),
        (_without, {}, "annotated with Workflow"),
        (_good, {"limits": None}, "process"),
        (_good, {"heartbeat_timeout": 5}, "heartbeat_timeout"),
        (_good, {"dispatch_batch": 5}, "dispatch_batch"),
        (_good, {"on_failure": "retry"}, "on_failure"),
        (_good, {"deadline": "1h"}, r"max_attempts.*got deadline: .*\(expires_after\)"),
    ],
)
def test_a_workflow_that_cannot_be_served_is_refused(handler: Any, options: Any, message: str) -> None:
    with pytest.raises(JobDefinitionError, match=message):
        Agent().workflow("a.b", **options)(handler)


def test_what_a_workflow_does_on_failure_is_announced_unless_it_is_the_default() -> None:
    held = Agent()
    held.workflow("a.b", on_failure="hold")(_good)
    policies = (
        held.definitions["a.b"].declaration.policy,
        agent.definitions["orders.fulfil"].declaration.policy,
    )
    assert [policy.model_dump(mode="json").get("on_failure") for policy in policies] == ["hold", None]


def test_a_decorator_that_does_not_fit_names_the_one_that_does() -> None:
    with pytest.raises(JobDefinitionError, match=r"got a Workflow: use @agent\.workflow"):
        Agent().job("a.b")(_good)
    without_parentheses: Any = Agent().workflow
    with pytest.raises(JobDefinitionError, match=r'@agent\.workflow\("a\.name"\)'):
        without_parentheses(_good)


@pytest.mark.parametrize("executor", ["workflow", "process", "coroutine"])
def test_no_other_executor_runs_a_workflow(executor: Any) -> None:
    with pytest.raises(JobDefinitionError):
        Agent().job("a.b", executor=executor)(_good)
    assert agent.definitions["orders.fulfil"].executor == "workflow"
