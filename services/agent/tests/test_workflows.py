"""Workflows: turns that end suspended, with requests, cancels and the journal of the next one."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.agent.tests.stage import WAIT, SlowLedger, Stage
from services.agent.tests.test_outbox import empty, fill

from warrener_agent import Agent, Backoff, Transaction, Workflow
from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, ClaimStatus
from warrener_contracts import events, topology
from warrener_contracts.identity import attempt_span_id, child_job_id
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.retryability import CODE_CHANGED, is_unrunnable_here
from warrener_contracts.state_machine import JobState
from warrener_runtime import log_output
from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import Telemetry, names

SUSPENDED, REQUESTED, CANCELLED = "attempt.suspended.v1", "job.requested.v1", "job.cancel_requested.v1"


class WatchedBus(MemoryBus):
    """A connection that notes what was published and confirmed, and freezes before a type of message."""

    def __init__(self, broker: MemoryBroker, freezes_before: str = "") -> None:
        super().__init__(broker)
        self.published: list[list[str]] = []
        self.frozen, self._freezes_before = asyncio.Event(), freezes_before

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        types = [one.type for one in messages]
        if self._freezes_before in types:
            self.frozen.set()
            await asyncio.Event().wait()
        results = await super().publish(messages, timeout=timeout)
        if {SUSPENDED, REQUESTED, CANCELLED} & {*types}:
            self.published.append(types)
        return results


class Shop:
    """Workflows, and how often their bodies have run."""

    def __init__(self) -> None:
        self.agent, self.turns = Agent(), 0

        @self.agent.workflow("fulfil")
        async def fulfil(flow: Workflow, order: int) -> str:
            self.turns += 1
            flow.log.info("reserving %s", order)
            await flow.options(delay="5s", queue="slow", policy=PolicyOverrides(max_attempts=7)).call(
                "reserve", {"order": order}
            )
            flow.log.info("reserved %s", order)
            shipping = flow.call("ship", {"order": order})
            flow.options(detach=True).call("thank", {"order": order})
            await flow.receive("packed")
            assert not shipping.done()
            flow.options(detach=True).call("bill", {"order": order})
            flow.call("never", {"order": order})
            return "packed"

        @self.agent.workflow("give_up")
        async def give_up(flow: Workflow) -> None:
            try:
                async with asyncio.timeout(60):
                    await flow.call("slow")
            except TimeoutError:
                await flow.receive("more time")

        @self.agent.workflow("fail", max_attempts=5)
        async def fail(flow: Workflow, how: str) -> str:
            if how == "of a job":
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(_result_of(flow))
                return task.result()
            if how == "a timeout":
                async with asyncio.timeout(1):
                    await flow.receive("never")
            raise SystemExit(3) if how == "an exit" else ValueError(how)


async def _result_of(flow: Workflow) -> str:
    return str(await flow.call("reserve"))


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def next_turn(stage: Stage, job_type: str, job: UUID, arguments: Any, *answers: events.Answer) -> None:
    """Dispatch the turn after the last one that was reported, as the supervisor does."""
    turns = list[events.Turn]()
    for number, event in enumerate(stage.of(events.AttemptSuspended, job)):
        given = answers[number - 1 : number] if number else ()
        turns.append(events.Turn(attempt=event.data.attempt, answers=given, suspension=event.data.suspension))
    turns.append(events.Turn(attempt=len(turns) + 1, answers=answers[len(turns) - 1 :]))
    journal = events.Journal(turns=tuple(turns))
    await stage.dispatch(job_type, arguments, job_id=job, attempt=len(turns), journal=journal)


async def first_turn(stage: Stage, job_type: str, arguments: Any = None) -> events.AttemptSuspendedData:
    job = await stage.dispatch(job_type, arguments)
    return (await stage.wait_for_event(events.AttemptSuspended, job)).data


def answer(suspended: events.AttemptSuspendedData, number: int = 0, **values: Any) -> events.Answer:
    call_id = suspended.suspension.calls[number].call_id
    return events.Answer(call_id=call_id, at=suspended.finished_at, **values)


# -- a turn that waits -------------------------------------------------------------------------------------


async def test_a_turn_requests_its_children_and_reports_its_end_once_the_broker_has_them(
    stage: Stage, shop: Shop
) -> None:
    bus, telemetry = WatchedBus(stage.broker), Telemetry.in_memory("agent")
    one = await stage.enter(shop.agent, bus=bus, telemetry=telemetry)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = await stage.dispatch("fulfil", {"order": 7}, trace=trace)
    suspended = (await stage.wait_for_event(events.AttemptSuspended, job)).data
    await stage.drain(one)
    assert bus.published == [[REQUESTED], [SUSPENDED]]
    (call,) = suspended.suspension.calls
    (requested,) = stage.of(events.JobRequested)
    assert requested.id == str(call.job_id) == str(child_job_id(job, call.call_id))
    assert (requested.data.job_type, requested.data.arguments) == ("reserve", {"order": 7})
    assert (requested.data.queue, requested.data.delay) == ("slow", timedelta(seconds=5))
    assert requested.data.policy == PolicyOverrides(max_attempts=7)
    assert requested.data.parent_id == job
    assert requested.source == f"warrener/job/{job}"
    (span,) = [span for span in telemetry.spans() if span.name.startswith("attempt")]
    assert span.attributes is not None
    assert span.attributes[names.OUTCOME] == "suspended"
    span_of_the_turn = attempt_span_id(job, 1, suspended.agent_id)
    assert requested.traceparent == f"00-0af7651916cd43dd8448eb211c80319c-{span_of_the_turn}-01"


@pytest.mark.parametrize(
    ("freezes_before", "cancelled"), [(REQUESTED, False), (SUSPENDED, False), (SUSPENDED, True)]
)
async def test_an_agent_that_dies_before_it_has_reported_a_turn_has_recorded_it_and_the_next_one_reports_it(
    stage: Stage, shop: Shop, freezes_before: str, *, cancelled: bool
) -> None:
    bus = WatchedBus(stage.broker, freezes_before)
    first = await stage.enter(shop.agent, bus=bus)
    job = await stage.dispatch("fulfil", {"order": 7})
    async with asyncio.timeout(WAIT):
        await bus.frozen.wait()
    assert not stage.of(events.AttemptSuspended, job)
    await stage.leave(first)
    if cancelled:  # its child may have begun: the supervisor must learn of it, to undo it
        async with connected_ledger(stage.ledger_url) as ledger:
            await ledger.cancel([job], now=datetime.now(UTC))
    bus = WatchedBus(stage.broker)
    second = await stage.enter(shop.agent, bus=bus)
    suspended = (await stage.wait_for_event(events.AttemptSuspended, job)).data
    await stage.drain(second)
    assert bus.published == [[REQUESTED], [SUSPENDED]], "both, whatever the first one has published"
    assert {one.id for one in stage.of(events.JobRequested)} == {str(suspended.suspension.calls[0].job_id)}
    assert shop.turns == 1


class Bookings:
    """A workflow whose step writes, and how often the step has run."""

    def __init__(self, stage: Stage) -> None:
        self.agent, self.runs, self._stage = Agent(), 0, stage

        async def book(transaction: Transaction, order: int, *, works: bool = True) -> int:
            self.runs += 1
            await transaction.execute("CREATE TABLE IF NOT EXISTS bookings (n INTEGER)")
            await transaction.execute("INSERT INTO bookings VALUES (:n)", {"n": order})
            if not works and self.runs == 1:
                raise ConnectionError("the line is dead")
            return order

        @self.agent.workflow("book")
        async def booked(flow: Workflow, order: int, *, works: bool = True) -> int:
            twice = flow.options(policy=PolicyOverrides(max_attempts=2, backoff=Backoff.fixed("1ms")))
            return await twice.step(book, order, works=works)

    async def all(self) -> list[int]:
        async with connected_ledger(self._stage.ledger_url) as ledger:
            job = Claim(uuid4(), 1)
            await ledger.claim([job], agent_id="reader", lease=timedelta(1))
            async with ledger.transaction(job, agent_id="reader") as transaction:
                return [row["n"] for row in await transaction.execute("SELECT n FROM bookings")]


async def test_a_step_has_written_once_though_its_agent_dies_before_the_turn_is_recorded(
    stage: Stage,
) -> None:
    bookings = Bookings(stage)
    ledger = SlowLedger(open_ledger(stage.ledger_url), "fail")
    first = await stage.enter(bookings.agent, ledger=ledger)
    job = await stage.dispatch("book", {"order": 7})
    async with asyncio.timeout(WAIT):
        await ledger.begun.wait()
    await stage.leave(first)
    await stage.expire_claims()
    await stage.enter(bookings.agent)
    await stage.wait_for_event(events.AttemptFailed, job)  # it is lost, so the supervisor sends the next one
    await stage.dispatch("book", {"order": 7}, job_id=job, attempt=2)
    suspended = (await stage.wait_for_event(events.AttemptSuspended, job)).data.suspension
    assert [one.result for one in suspended.answers] == [7]
    assert (bookings.runs, await bookings.all()) == (1, [7])


async def test_a_step_that_fails_has_written_nothing_and_may_be_tried_again(stage: Stage) -> None:
    bookings = Bookings(stage)
    await stage.enter(bookings.agent)
    suspended = await first_turn(stage, "book", {"order": 7, "works": False})
    (ended,) = suspended.suspension.answers
    assert (ended.result, ended.tries) == (7, 2)
    assert (bookings.runs, await bookings.all()) == (2, [7])


async def test_a_turn_that_comes_again_is_reported_again_and_not_run(stage: Stage, shop: Shop) -> None:
    await stage.enter(shop.agent)
    first = await first_turn(stage, "fulfil", {"order": 7})
    await stage.dispatch("fulfil", {"order": 7}, job_id=first.job_id)
    assert (await stage.wait_for_event(events.AttemptSuspended, first.job_id, times=2)).data == first
    assert shop.turns == 1
    async with connected_ledger(stage.ledger_url) as ledger:
        claims = [Claim(first.job_id, 1), Claim(first.job_id, 2)]
        answers = [
            (await ledger.claim([one], agent_id="other", lease=timedelta(1)))[0].status for one in claims
        ]
    assert answers == [ClaimStatus.FAILED, ClaimStatus.GRANTED], "the next turn replaces the record"


async def test_a_turn_whose_requests_are_refused_is_not_reported_until_the_broker_has_them(
    stage: Stage, shop: Shop
) -> None:
    room = await fill(stage, topology.REQUESTS, "reserve")
    bus = WatchedBus(stage.broker)
    one = await stage.enter(shop.agent, bus=bus)
    job = await stage.dispatch("fulfil", {"order": 7})
    beats = len(stage.of(events.AgentHeartbeat))
    await stage.wait_for_event(events.AgentHeartbeat, times=beats + 3)
    assert not stage.of(events.AttemptSuspended, job)
    await empty(room)
    await stage.wait_for_event(events.AttemptSuspended, job)
    await stage.drain(one)
    await room.close()


async def test_a_child_that_nothing_awaits_any_longer_is_cancelled_with_its_children(
    stage: Stage, shop: Shop
) -> None:
    await stage.receive_from(topology.SUPERVISOR_COMMANDS.name)
    await stage.enter(shop.agent)
    first = await first_turn(stage, "give_up")
    assert first.suspension.wake_at is not None
    await next_turn(stage, "give_up", first.job_id, None, events.Answer(at=first.suspension.wake_at))
    second = (await stage.wait_for_event(events.AttemptSuspended, first.job_id, times=2)).data
    (call,) = first.suspension.calls
    assert second.suspension.closed == (call.call_id,)
    assert [one.name for one in second.suspension.calls] == ["more time"]
    cancelled = await stage.wait_for_event(events.JobCancelRequested)
    assert (cancelled.data.job_id, cancelled.data.tree) == (call.job_id, True)
    assert cancelled.data.reason == "the workflow no longer awaits it"
    await stage.dispatch("give_up", job_id=first.job_id, attempt=2)
    again = await stage.wait_for_event(events.JobCancelRequested, times=2)
    assert (again.id, again.source, again.data) == (cancelled.id, cancelled.source, cancelled.data)


# -- the turns that follow ---------------------------------------------------------------------------------


async def test_a_workflow_goes_on_with_its_journal_and_its_end_cancels_what_is_open(
    stage: Stage, shop: Shop
) -> None:
    await stage.receive_from(topology.SUPERVISOR_COMMANDS.name)
    await stage.enter(shop.agent)
    first = await first_turn(stage, "fulfil", {"order": 7})
    job = first.job_id
    reserved = answer(first, state=JobState.SUCCEEDED, result="r")
    await next_turn(stage, "fulfil", job, {"order": 7}, reserved)
    second = (await stage.wait_for_event(events.AttemptSuspended, job, times=2)).data
    assert [one.name for one in second.suspension.calls] == ["ship", "thank", "packed"]
    packed = answer(second, 2, result={"box": 1}, signal_id="s")
    await next_turn(stage, "fulfil", job, {"order": 7}, reserved, packed)
    done = (await stage.wait_for_event(events.AttemptSucceeded, job)).data
    assert (done.result, done.child_jobs, done.attempt) == ("packed", 1, 3)
    requested = [one.data.job_type for one in stage.of(events.JobRequested)]
    assert requested == ["reserve", "ship", "thank", "bill"], "never one that nobody would await"
    detached = [one.data.job_type for one in stage.of(events.JobRequested) if "/detached/" in one.source]
    assert detached == ["thank", "bill"]
    cancelled = await stage.wait_for_event(events.JobCancelRequested)
    assert cancelled.data.job_id == second.suspension.calls[0].job_id
    await stage.dispatch("fulfil", {"order": 7}, job_id=job, attempt=3)
    again = (await stage.wait_for_event(events.AttemptSucceeded, job, times=2)).data
    assert again == done
    await stage.wait_for_event(events.JobCancelRequested, times=2)
    assert len(stage.of(events.JobRequested)) == 5, "all of it is repeated"


async def test_lines_of_a_body_are_lines_of_the_attempt_that_comes_to_them(stage: Stage, shop: Shop) -> None:
    log_output.configure("warrener-agent", level="info", scope_level="info")
    await stage.receive_from(topology.LOGS_QUEUE.name)
    await stage.enter(shop.agent, agent_log_interval=0.1)
    first = await first_turn(stage, "fulfil", {"order": 7})
    reserved = answer(first, state=JobState.SUCCEEDED)
    await next_turn(stage, "fulfil", first.job_id, {"order": 7}, reserved)
    await stage.wait_for_event(events.AttemptLogged, first.job_id, times=2)
    lines = [
        (one.data.attempt, entry.text)
        for one in stage.of(events.AttemptLogged, first.job_id)
        for entry in one.data.lines
    ]
    assert lines == [(1, "reserving 7"), (2, "reserved 7")]


@pytest.mark.parametrize(
    ("how", "kind", "retryable"),
    [
        ("of a job", "ExceptionGroup", False),
        ("a timeout", "TimeoutError", False),
        ("oops", "ValueError", True),
        ("an exit", "SystemExit", True),
    ],
)
async def test_a_workflow_ends_by_what_it_waited_for_and_is_retried_after_any_other_error(
    stage: Stage, shop: Shop, how: str, kind: str, *, retryable: bool
) -> None:
    await stage.enter(shop.agent)
    job = await stage.dispatch("fail", {"how": how})
    if how in {"of a job", "a timeout"}:
        first = (await stage.wait_for_event(events.AttemptSuspended, job)).data
        wake = first.suspension.wake_at
        given = answer(first, state=JobState.DEAD) if wake is None else events.Answer(at=wake)
        await next_turn(stage, "fail", job, {"how": how}, given)
    error = (await stage.wait_for_event(events.AttemptFailed, job)).data.error
    assert (error.type, error.retryable) == (kind, retryable)
    await first_turn(stage, "fulfil", {"order": 1})


async def test_code_that_does_not_fit_the_journal_is_no_failure_of_the_job(stage: Stage, shop: Shop) -> None:
    """The supervisor gives such an attempt to another agent, as one of an unknown job type."""
    await stage.enter(shop.agent)
    first = await first_turn(stage, "fulfil", {"order": 7})
    reserved = answer(first, state=JobState.SUCCEEDED)
    await next_turn(stage, "fulfil", first.job_id, {"order": 8}, reserved)
    error = (await stage.wait_for_event(events.AttemptFailed, first.job_id)).data.error
    assert (error.type, error.retryable) == (CODE_CHANGED, True)
    assert is_unrunnable_here(error)
    assert "reserve" in error.message


async def test_an_agent_without_the_workflow_gives_its_turn_back(stage: Stage, shop: Shop) -> None:
    one = await stage.enter(shop.agent)
    first = await first_turn(stage, "fulfil", {"order": 7})
    await stage.leave(one)
    await stage.enter(Agent(), agent_queues=("default",))
    await next_turn(stage, "fulfil", first.job_id, {"order": 7}, answer(first, state=JobState.SUCCEEDED))
    error = (await stage.wait_for_event(events.AttemptFailed, first.job_id)).data.error
    assert error.type == "UnknownJobType"


async def test_a_state_of_the_turn_that_returns_is_saved_before_its_result(stage: Stage) -> None:
    agent = Agent()

    @agent.workflow("orders.ship")
    async def ship(flow: Workflow) -> str:
        flow.publish({"stage": "shipped"})
        return "done"

    await stage.enter(agent, agent_announce_delay=600.0)
    job_id = await stage.dispatch("orders.ship")
    assert (await stage.wait_for_event(events.AttemptSucceeded, job_id)).data.result == "done"
    assert [type(event) for event in stage.about(job_id)] == [
        events.AttemptCheckpointed,
        events.AttemptSucceeded,
    ]
    (saved,) = stage.of(events.AttemptCheckpointed)
    assert saved.data.checkpoint.state == {"stage": "shipped"}
