"""Steps of workflows: where they run, their answers, and how they are stopped."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from services.agent.tests.stage import Stage, dispatched
from structlog.testing import capture_logs

from warrener_agent import Agent, Backoff, Fail, RetryAfter, Workflow
from warrener_agent.context import AttemptFacts
from warrener_agent.decisions.errors import HandlerEnd, HandlerRaised, HandlerSuspended
from warrener_agent.executors.base import HandlerCall
from warrener_agent.executors.workflow import WorkflowExecutor
from warrener_agent.handler_api import LocalHandlerPort
from warrener_agent.ledger.port import Claim
from warrener_contracts import events
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.retryability import is_unrunnable_here
from warrener_runtime.telemetry import NO_CONTEXT
from warrener_runtime.virtual_clock import VirtualClock


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class Tools:
    """Functions that workflows run as steps, and a workflow for each way to run some."""

    def __init__(self) -> None:
        self.agent, self.begun, self.stopped = Agent(), asyncio.Event(), asyncio.Event()
        self.go_on, self.computing = threading.Event(), threading.Event()
        self.loop = asyncio.get_running_loop()

        @self.agent.workflow("steps")
        async def steps(flow: Workflow) -> list[Any]:
            return list(
                await asyncio.gather(
                    flow.step(self.waits),
                    flow.step(self.computes, 4),
                    flow.step(self.raises, "x"),
                    flow.step(partial(self.raises_later, "y")),
                    flow.step(self.returns, 70_000),
                    return_exceptions=True,
                )
            )

        @self.agent.workflow("hang")
        async def hang(flow: Workflow) -> None:
            await flow.step(self.hangs)

        @self.agent.workflow("compute")
        async def compute(flow: Workflow, where: str) -> None:
            if where == "body":
                self.blocks()
            await flow.step(self.blocks)

        @self.agent.workflow("some")
        async def some(flow: Workflow) -> None:
            await asyncio.gather(flow.step(self.returns, 1), flow.step(self.hangs))

        @self.agent.workflow("connect")
        async def connect(flow: Workflow) -> None:
            await flow.step(self.connects)

        @self.agent.workflow("unreadable")
        async def unreadable(flow: Workflow, where: str) -> None:
            if where == "body":
                raise UnreadableError
            await flow.step(self.unreadable)

        @self.agent.job("unreadable_in_a_thread")
        def unreadable_in_a_thread() -> None:
            raise UnreadableError

        @self.agent.workflow("large")
        async def large(flow: Workflow) -> None:
            await asyncio.gather(*(flow.step(self.returns, 60_000) for _ in range(20)))

        @self.agent.workflow("overload")
        async def overload(flow: Workflow) -> None:
            await flow.call("overload", {"text": "é" * (1 << 19)})

        @self.agent.workflow("miscount")
        async def miscount(flow: Workflow) -> int:
            return "abc"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

        @self.agent.workflow("give_object")
        async def give_object(flow: Workflow) -> Any:
            return object()

    async def waits(self) -> str:
        await self.begun.wait()
        return threading.current_thread().name

    def computes(self, number: int) -> list[Any]:
        return [number * number, threading.current_thread() is threading.main_thread()]

    def raises(self, text: str, depth: int = 99) -> None:
        if depth % 2:  # noqa: SIM114 - a stack is shortened where one line repeats
            self.raises(text, depth - 1)
        elif depth:
            self.raises(text, depth - 1)
        raise ValueError(text)

    def unreadable(self) -> None:
        raise UnreadableError

    async def connects(self) -> None:
        self.client = asyncio.create_task(asyncio.sleep(3600))

    async def raises_later(self, text: str) -> None:
        self.begun.set()
        raise SystemExit(text)

    def returns(self, size: int) -> str:
        return "x" * size

    async def hangs(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()

    def blocks(self) -> None:
        self.loop.call_soon_threadsafe(self.begun.set)
        self.go_on.wait()


@pytest.fixture
async def tools() -> Any:
    one = Tools()
    yield one
    one.go_on.set()


async def turn_of(
    agent: Agent,
    clock: VirtualClock | None = None,
    *,
    lease_ended: bool = False,
    set_off_loop: Callable[[bool], None] = lambda _: None,
    journal: events.Journal | None = None,
) -> HandlerEnd:
    """Run a turn of the workflow "flow", and let an hour go by."""
    clock = clock or VirtualClock()
    port = LocalHandlerPort(
        None,  # type: ignore[arg-type]  # a workflow uses no ledger
        Claim(uuid4(), 1),
        "ada",
        NO_CONTEXT,
        lambda _fraction, _note: None,
        lambda _: None,
        lambda: 1.0,
        lease_check=lambda: lease_ended,
    )
    dispatch = dispatched("flow", requested_at=clock.now(), journal=journal).data
    facts = AttemptFacts(dispatch, clock.now() + timedelta(hours=1))
    executor = WorkflowExecutor(clock, joins_threads=True)
    handler_call = HandlerCall(agent.definitions["flow"], facts, port, set_off_loop=set_off_loop)
    execution = executor.begin(handler_call)
    await clock.advance(3600.0)
    return execution.done.result()


async def suspended(stage: Stage, job_type: str, **fields: Any) -> events.Suspension:
    job = await stage.dispatch(job_type, **fields)
    return (await stage.wait_for_event(events.AttemptSuspended, job)).data.suspension


def free_slots(stage: Stage) -> dict[str, int] | None:
    return stage.of(events.AgentHeartbeat)[-1].data.free_slots


async def test_steps_run_at_once_and_their_answers_stand_in_the_order_in_which_they_ended(
    stage: Stage, tools: Tools
) -> None:
    await stage.enter(tools.agent)
    later = datetime.now(UTC) + timedelta(hours=1)  # by the clock of a supervisor that is ahead
    journal = events.Journal(turns=(events.Turn(attempt=2, answers=(events.Answer(at=later),)),))
    suspension = await suspended(stage, "steps", attempt=2, journal=journal)
    names = {call.call_id: call.name for call in suspension.calls}
    ended = {names[one.call_id or ""].rpartition(".")[2]: one for one in suspension.answers}
    order = list(ended)
    assert order.index("raises_later") < order.index("waits"), "not in the order of the calls"
    assert ended["waits"].result == "MainThread"
    assert ended["computes"].result == [16, False]
    assert all(one.at == later for one in suspension.answers), "never before the last answer"
    found = {name: one.error for name, one in ended.items() if one.error is not None}
    assert {name: (one.type, one.message) for name, one in found.items() if name != "returns"} == {
        "raises": ("ValueError", "x"),
        "raises_later": ("SystemExit", "y"),
    }
    stack = found["raises"].stack or ""
    assert "in raises" in stack
    assert len(stack) == 2_000, "the journal travels with each turn"
    assert "_perform" not in (found["raises_later"].stack or "")
    assert "of at most 65536 bytes of JSON, got 70002" in found["returns"].message


async def test_a_step_is_cancelled_with_its_attempt(stage: Stage, tools: Tools) -> None:
    await stage.enter(tools.agent)
    job = await stage.dispatch("hang")
    await tools.begun.wait()
    await stage.cancel(job)
    cancelled = (await stage.wait_for_event(events.AttemptCancelled, job)).data
    assert cancelled.reason == "enough"
    assert cancelled.flight_record is not None
    assert "in hangs" in (cancelled.flight_record.stacks or "")
    assert tools.stopped.is_set()


async def test_a_step_ends_with_its_agent_and_the_turn_is_given_back(stage: Stage, tools: Tools) -> None:
    one = await stage.enter(tools.agent, shutdown_timeout=0.1)
    job = await stage.dispatch("hang")
    await tools.begun.wait()
    await one.drain()
    await stage.wait_for_event(events.AttemptReleased, job)
    assert tools.stopped.is_set()


async def test_a_turn_has_a_timeout(stage: Stage, tools: Tools) -> None:
    await stage.enter(tools.agent)
    job = await stage.dispatch("hang", timeout=timedelta(milliseconds=50))
    assert (await stage.wait_for_event(events.AttemptFailed, job)).data.error.kind == "timeout"
    assert tools.stopped.is_set()


async def test_steps_that_have_ended_count_when_the_turn_is_stopped(stage: Stage, tools: Tools) -> None:
    one = await stage.enter(tools.agent, shutdown_timeout=0.1)
    late = await suspended(stage, "some", timeout=timedelta(milliseconds=500))
    tools.stopped.clear()
    tools.begun.clear()
    job = await stage.dispatch("some")
    await tools.begun.wait()
    await one.drain()
    drained = (await stage.wait_for_event(events.AttemptSuspended, job)).data.suspension
    for suspension in (late, drained):
        assert [call.name.rpartition(".")[2] for call in suspension.calls] == ["returns", "hangs"]
        assert [one.result for one in suspension.answers] == ["x"]
    assert tools.stopped.is_set()


async def test_a_task_that_a_step_leaves_may_be_meant_to_stay(stage: Stage, tools: Tools) -> None:
    await stage.enter(tools.agent)
    await suspended(stage, "connect")
    assert not tools.client.done()
    tools.client.cancel()


async def test_an_error_whose_text_cannot_be_read_ends_its_attempt_like_another(
    stage: Stage, tools: Tools
) -> None:
    await stage.enter(tools.agent)
    (found,) = (await suspended(stage, "unreadable", arguments={"where": "step"})).answers
    assert found.error is not None
    assert "cannot be read" in found.error.message
    for job_type, arguments in (("unreadable", {"where": "body"}), ("unreadable_in_a_thread", None)):
        assert "SystemExit" in (await stage.fail(job_type, arguments)).error.message


async def test_few_bodies_run_at_once_and_one_that_computes_for_long_is_passed(
    stage: Stage, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.enter(tools.agent, agent_slots=9)
    for patience in (0, 0, 600, 600, 600, 600):
        monkeypatch.setattr("warrener_agent.executors.workflow._BODY_PATIENCE", patience)
        tools.begun.clear()
        await stage.dispatch("compute", {"where": "body"})
        await tools.begun.wait()
    tools.begun.clear()
    queued = await stage.dispatch("hang", guarantee="exclusive")
    await stage.wait_for_event(events.AttemptStarted, queued)
    await stage.cancel(queued)
    await stage.wait_for_event(events.AttemptCancelled, queued)
    assert not tools.begun.is_set()
    tools.go_on.set()
    await suspended(stage, "connect")
    tools.client.cancel()


@pytest.mark.parametrize("where", ["body", "step"])
async def test_a_body_or_a_plain_step_that_computes_is_abandoned_and_keeps_its_slot(
    stage: Stage, tools: Tools, where: str
) -> None:
    await stage.enter(tools.agent, agent_slots=1)
    job = await stage.dispatch("compute", {"where": where})
    await tools.begun.wait()
    with capture_logs() as records:
        await stage.cancel(job)
        cancelled = (await stage.wait_for_event(events.AttemptCancelled, job)).data
        assert cancelled.flight_record is not None
        assert "in blocks" in (cancelled.flight_record.stacks or "")
        await stage.until(lambda: free_slots(stage) == {"default": 0})
    (abandoned,) = [one for one in records if one.get("action") == "agent.abandoned"]
    assert "Move the blocking call into flow.step" in abandoned["event"]
    tools.go_on.set()
    await stage.until(lambda: free_slots(stage) == {"default": 1}, "a free slot")


async def test_a_turn_that_is_too_large_to_be_reported_ends_the_workflow(stage: Stage, tools: Tools) -> None:
    await stage.enter(tools.agent)
    error = (await stage.fail("large")).error
    assert error.message.startswith("expected a turn that adds at most 1032192 bytes to the journal, got 12")
    assert not error.retryable


@pytest.mark.parametrize(
    ("job_type", "message"),
    [
        ("overload", "expected arguments of overload of at most 1032192 bytes of JSON, got 1048587 at "),
        ("miscount", "miscount returned what it did not declare: Input should be a valid integer"),
        ("give_object", "give_object returned what cannot be sent as JSON: "),
    ],
)
async def test_a_release_whose_arguments_or_result_are_wrong_undoes_nothing(
    stage: Stage, tools: Tools, job_type: str, message: str
) -> None:
    await stage.enter(tools.agent)
    error = (await stage.fail(job_type)).error
    assert error.message.startswith(message)
    assert is_unrunnable_here(error)
    assert not stage.of(events.JobRequested)


async def test_in_virtual_time_a_turn_takes_none() -> None:
    """A clock that is set by hand goes on whenever no task is ready: it would not wait for a thread."""
    agent, clock = Agent(), VirtualClock()

    def slow() -> str:
        time.sleep(0.01)  # longer than the clock needs to go on
        return "done"

    @agent.workflow("flow")
    async def flow(flow: Workflow) -> str:
        return await flow.step(slow)

    ended = await turn_of(agent, clock)
    assert isinstance(ended, HandlerSuspended)
    assert [(one.result, one.at) for one in ended.suspension.answers] == [
        ("done", clock.now() - timedelta(hours=1))
    ]


class Flaky:
    """A step that fails some times, and a workflow that tries it up to four times."""

    def __init__(self, failures: int, backoff: Backoff, error: Exception | None = None) -> None:
        self.agent, self.clock, self.tried_at = Agent(), VirtualClock(), list[float]()
        policy = PolicyOverrides(max_attempts=4, backoff=backoff, no_retry_on=("LookupError",))

        async def fetch() -> int:
            self.tried_at.append(self.clock.monotonic())
            if len(self.tried_at) <= failures:
                raise error or ConnectionError("refused")
            return len(self.tried_at)

        @self.agent.workflow("flow")
        async def flow(flow: Workflow) -> int:
            return await flow.options(policy=policy).step(fetch)

    async def turn(self, journal: events.Journal | None = None) -> events.Suspension:
        ended = await turn_of(self.agent, self.clock, journal=journal)
        assert isinstance(ended, HandlerSuspended), ended
        return ended.suspension

    @property
    def pauses(self) -> list[float]:
        return [round(later - one, 3) for one, later in pairwise(self.tried_at)]


async def test_a_step_that_fails_is_tried_again_within_its_turn_if_the_delays_are_short() -> None:
    flaky = Flaky(2, Backoff.exponential("1s", jitter=0))
    (answer,) = (await flaky.turn()).answers
    assert (answer.result, answer.tries, answer.error) == (3, 3, None)
    assert flaky.pauses == [1, 2]


async def test_longer_delays_pass_between_turns_which_count_the_tries() -> None:
    flaky = Flaky(9, Backoff.listed("2s", "1m", jitter=0))
    first = await flaky.turn()
    (retry,) = first.retries
    assert (retry.tries, retry.error, first.answers) == (2, "ConnectionError: refused", ())
    assert (first.wake_at, len(flaky.tried_at)) == (retry.retry_at, 2)
    assert first.timer_line == first.calls[0].line
    journal = events.Journal(turns=(events.Turn(attempt=1, suspension=first), events.Turn(attempt=2)))
    second = await flaky.turn(journal)
    assert [one.tries for one in second.retries] == [3]
    later = events.Turn(attempt=2, suspension=second)
    woken = events.Journal(turns=(journal.turns[0], later, events.Turn(attempt=3)))
    (answer,) = (await flaky.turn(woken)).answers
    assert (answer.tries, answer.error and answer.error.message) == (4, "refused")
    assert len(flaky.tried_at) == 4


async def test_a_step_that_waits_for_its_next_try_does_not_run_in_a_turn_that_comes_before() -> None:
    flaky = Flaky(9, Backoff.fixed("3h", jitter=0))
    first = await flaky.turn()
    journal = events.Journal(turns=(events.Turn(attempt=1, suspension=first), events.Turn(attempt=2)))
    again = await flaky.turn(journal)
    assert (len(flaky.tried_at), again.calls, again.retries, again.wake_at) == (1, (), (), first.wake_at)


@pytest.mark.parametrize("error", [Fail("no such card"), KeyError("card")])
async def test_an_error_that_no_retry_mends_ends_a_step_at_once(error: Exception) -> None:
    flaky = Flaky(9, Backoff.fixed("1s"), error)
    (answer,) = (await flaky.turn()).answers
    assert (answer.tries, answer.error is not None) == (1, True)


async def test_a_step_chooses_its_own_delay() -> None:
    flaky = Flaky(1, Backoff.fixed("1s"), RetryAfter("3s"))
    await flaky.turn()
    assert flaky.pauses == [3]


async def test_a_lease_that_ended_in_a_body_is_no_failure_that_no_retry_mends() -> None:
    """The agent makes nothing of it: another one may have the attempt."""
    agent = Agent()

    @agent.workflow("flow")
    async def flow(flow: Workflow) -> None:
        await flow.call("a.b")

    ended = await turn_of(agent, lease_ended=True)
    assert isinstance(ended, HandlerRaised)
    assert ended.error.retryable
    assert "lease has ended" in ended.error.message


async def test_an_agent_that_can_start_no_thread_fails_the_attempt_and_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()

    @agent.workflow("flow")
    async def flow(flow: Workflow) -> None:
        await flow.step(print)

    start = threading.Thread.start

    def fail_for_steps(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    started = list[threading.Thread]()
    monkeypatch.setattr(threading.Thread, "start", fail_for_steps)
    ended = await turn_of(agent)
    assert isinstance(ended, HandlerRaised)
    assert (ended.error.type, ended.error.retryable) == ("CannotRun", True)


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_a_turn_whose_steps_run_in_the_loop_stands_still_with_it(*, is_coroutine: bool) -> None:
    """Its lease is not renewed from outside then, as that of a body in its thread is."""
    agent, places = Agent(), list[bool]()

    async def wait() -> None: ...

    @agent.workflow("flow")
    async def flow(flow: Workflow) -> None:
        await flow.step(wait if is_coroutine else print)

    await turn_of(agent, set_off_loop=places.append)
    assert places == [not is_coroutine]
