"""The times of heartbeats, and attempts that are held until a supervisor has checked them."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from services.agent.tests.stage import LedgerProxy, Stage, dispatched
from structlog.testing import capture_logs
from tools.reference.golden import golden_events

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.intake import BreakerFilter
from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.heartbeat import ControlHandler, Heartbeater
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable
from warrener_agent.run_table import DeliveryRef, Run, RunTable
from warrener_agent.settings import AgentSettings
from warrener_agent.start_gate import StartGate
from warrener_agent.status_events import EventFactory
from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AttemptsCheckedData, HeartbeatAttempt
from warrener_contracts.messages import build_message
from warrener_runtime.bus import Delivery, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.lifecycle import NotReady
from warrener_runtime.telemetry import NO_CONTEXT
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock


def agent_context(stage: Stage, clock: VirtualClock) -> AgentContext:
    return AgentContext(
        agent_id="ada",
        holder_id="ada/1",
        queues=("default",),
        bus=stage.bus,
        ledger=open_ledger(stage.ledger_url),
        clock=clock,
        entropy=SeededEntropy(1),
        settings=AgentSettings(agent_heartbeat=5.0),
        running=RunTable(1),
        breaker_filter=BreakerFilter({}, []),
        event_factory=EventFactory("ada", SeededEntropy(1)),
    )


async def beat_without_pulse(heartbeater: Heartbeater, clock: VirtualClock) -> list[str]:
    with capture_logs() as records:
        beat = asyncio.create_task(heartbeater.send_heartbeat())
        await clock.advance(5.0)
        await beat
    return [str(record["action"]) for record in records]


async def test_the_first_heartbeat_may_take_its_time_and_later_ones_may_not(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    await heartbeater.send_heartbeat()
    assert not stage.of(AgentHeartbeat), "nothing before all parts have started"
    heartbeater.begin()
    assert not heartbeater.silent
    assert await beat_without_pulse(heartbeater, clock) == [], "the first pulse is on its way"
    assert not stage.of(AgentHeartbeat)
    assert heartbeater.silent
    beat = asyncio.create_task(heartbeater.send_heartbeat())
    await clock.settle()
    heartbeater.note_message()
    await beat
    assert not heartbeater.silent
    await stage.wait_for_event(AgentHeartbeat)
    assert await beat_without_pulse(heartbeater, clock) == ["agent.stalled"]


async def test_without_a_connection_it_is_silent_after_one_interval(stage: Stage) -> None:
    """The bus itself waits for ten seconds."""
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    bus = MemoryBus(broker)
    await bus.start()
    heartbeater = Heartbeater(replace(agent_context(stage, clock), bus=bus), lambda: True)
    heartbeater.begin()
    broker.stop()
    beat = asyncio.create_task(heartbeater.send_heartbeat())
    await clock.advance(4.9)
    assert not heartbeater.silent
    await clock.advance(0.1)
    assert heartbeater.silent
    await beat
    await bus.close()


async def test_an_agent_that_receives_nothing_from_the_start_logs_it_in_the_end(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    heartbeater.begin()
    actions = [await beat_without_pulse(heartbeater, clock) for _ in range(4)]
    assert actions == [[], [], ["agent.stalled"], ["agent.stalled"]]
    assert not stage.of(AgentHeartbeat)


async def test_an_attempt_is_listed_once_its_handler_or_its_report_takes_long(stage: Stage) -> None:
    clock = VirtualClock()
    context = agent_context(stage, clock)
    heartbeater = Heartbeater(context, lambda: True)
    heartbeater.begin()
    both = await stage.delivery()
    works, ended = (run_since_now(stage, clock, both) for _ in range(2))
    context.running.add(works)
    context.running.add(ended)
    await clock.advance(0.4)
    ended.handler_ended, ended.handler_ended_at = True, clock.monotonic()
    listed: list[set[UUID]] = []
    for number in range(1, 4):
        await heartbeater.send_requested_heartbeat()
        beat = await stage.wait_for_event(AgentHeartbeat, times=number)
        listed.append({one.job_id for one in beat.data.running})
        await clock.advance(0.3)
    assert listed == [set(), {works.data.job_id}, {works.data.job_id, ended.data.job_id}]


def run_since_now(stage: Stage, clock: VirtualClock, delivery_ref: DeliveryRef) -> Run:
    data, now = dispatched("wait").data, clock.monotonic()
    return Run(data, Claim(data.job_id, 1), [delivery_ref], clock.now(), now, now + 60, NO_CONTEXT)


async def test_a_heartbeat_lists_types_free_slots_and_trouble(stage: Stage) -> None:
    context, trouble = agent_context(stage, VirtualClock()), list[str]()
    some = Heartbeater(context, lambda: True, ["b", "a"], lambda: next(iter(trouble), None))
    many = Heartbeater(context, lambda: True, [f"type.{number}" for number in range(501)])
    some.begin()
    many.begin()
    await some.send_requested_heartbeat()
    trouble.append("the ledger is locked")
    await some.send_requested_heartbeat()
    await many.send_requested_heartbeat()
    await stage.wait_for_event(AgentHeartbeat, times=3)
    first, second, third = (beat.data for beat in stage.of(AgentHeartbeat))
    assert (first.job_types, first.free_slots, first.trouble) == (("a", "b"), {"default": 1}, None)
    assert second.trouble == "the ledger is locked"
    assert third.job_types is None, "an agent with very many types lists none"


# -- attempts that are held until a supervisor has answered, or some seconds ----------------------------


class FailingLedger(LedgerProxy):
    gone = True

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.cancelled: list[UUID] = []

    async def cancel(self, job_ids: Iterable[UUID], *, now: object) -> None:
        if self.gone:
            raise LedgerUnavailable("expected a database, got none")
        self.cancelled += job_ids


class GateRig:
    def __init__(self, stage: Stage, run: Run, clock: VirtualClock) -> None:
        context = agent_context(stage, clock)
        self.ledger = FailingLedger(context.ledger)
        self.context = replace(context, ledger=cast("Ledger", self.ledger))
        self.run, self.clock = run, clock
        self.context.running.add(run)
        self.epoch: int | None = 1
        self.gate = StartGate(self.context, self.send_heartbeat, lambda: self.epoch)
        self.heartbeats = 0
        self.broken = False
        self._tasks = set[asyncio.Task[None]]()

    async def send_heartbeat(self) -> None:
        self.heartbeats += 1
        if self.broken:
            raise ValueError("a bug of ours")

    def hold(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.gate.wait(self.run, self._spawn))

    def _spawn(self, check: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(check))

    async def answer(self, *, may_start: bool = False, ended: bool = False) -> None:
        """Answer as a supervisor; with neither, it knows of a start elsewhere."""
        job_id, attempt = self.run.claim
        line = HeartbeatAttempt(job_id=job_id, attempt=attempt)
        data = AttemptsCheckedData(
            agent_id="ada", may_start=(line,) if may_start else (), ended=(job_id,) if ended else ()
        )
        await self.gate.apply(data)


@pytest.fixture
async def rig(stage: Stage) -> GateRig:
    clock = VirtualClock()
    await clock.advance(10.0)
    return GateRig(stage, run_since_now(stage, clock, await stage.delivery()), clock)


async def test_an_attempt_whose_job_is_over_stops_though_the_ledger_does_not_answer(rig: GateRig) -> None:
    waiting = rig.hold()
    await rig.clock.advance(1.0)
    with pytest.raises(LedgerUnavailable):  # so that the message comes again
        await rig.answer(ended=True)
    await rig.clock.advance(10.0)
    assert waiting.done()
    assert rig.run.stop is StopCause.CANCELLED
    rig.ledger.gone = False
    await rig.answer(ended=True)  # the message has come again
    assert rig.ledger.cancelled == [rig.run.data.job_id]


@pytest.mark.parametrize(
    ("answers", "silence"),
    [(14, 2.8), (1, 10.5)],
    ids=["supervisors that judge nothing keep nobody for long", "they have fallen silent"],
)
async def test_an_attempt_waits_for_its_verdict_as_long_as_supervisors_answer(
    rig: GateRig, answers: int, silence: float
) -> None:
    """Its start waits in a backlog of theirs."""
    waiting = rig.hold()
    for _ in range(answers):
        await rig.clock.advance(2.0)
        await rig.answer()
    await rig.clock.advance(silence - 1.0)
    assert rig.run.is_held
    await rig.clock.advance(1.0)
    assert waiting.done()


async def test_an_attempt_does_not_start_while_no_answer_can_reach_its_agent(rig: GateRig) -> None:
    """Supervisors may live. It waits for a while, then it is given back for another agent."""
    rig.epoch = None
    waiting = rig.hold()
    await rig.clock.advance(29.0)
    assert rig.run.is_held
    rig.epoch = 2
    await rig.clock.advance(9.0)
    assert rig.run.is_held, "supervisors have ten seconds for their answer"
    rig.epoch = None
    await rig.clock.advance(1.0)
    assert waiting.done()
    assert rig.run.stop is StopCause.DRAINED


async def test_attempts_are_held_again_as_soon_as_a_supervisor_is_back(rig: GateRig) -> None:
    await rig.clock.advance(10.0)  # as if its start took long to announce: it waits all the same
    waiting = rig.hold()
    await rig.clock.advance(9.0)
    assert rig.run.is_held
    assert rig.heartbeats > 1
    await rig.clock.advance(2.0)
    assert waiting.done()
    await rig.hold()  # no supervisor answers: nothing is held for a while
    request = build_message(golden_events()["agent.heartbeat_requested.v1"])
    handler = ControlHandler(rig.context, Heartbeater(rig.context, lambda: True), rig.gate)
    await handler.handle(
        Delivery(
            body=request.body,
            routing_key=request.routing_key,
            exchange=request.exchange,
            redelivered=False,
            tag=1,
            epoch=1,
            content_type=request.content_type,
        )
    )
    waiting = rig.hold()
    await rig.clock.advance(1.0)
    assert rig.run.is_held
    await rig.answer(may_start=True)
    await waiting


async def test_an_error_of_a_heartbeat_keeps_no_attempt(rig: GateRig) -> None:
    rig.broken = True
    waiting = rig.hold()
    with capture_logs() as records:
        await rig.clock.advance(1.0)
        rig.broken = False
        await rig.clock.advance(11.0)
    assert waiting.done()
    assert {record["action"] for record in records} >= {"agent.check_failed"}


async def test_g3_readiness_names_an_exchange_that_carries_no_heartbeats(stage: Stage) -> None:
    clock = VirtualClock()
    heartbeater = Heartbeater(agent_context(stage, clock), lambda: True)
    heartbeater._note(topology.HEARTBEATS, PublishResult.REFUSED)
    await heartbeater.check()  # it may be for a moment
    await clock.advance(60)
    with pytest.raises(NotReady, match=f"expected exchange {topology.HEARTBEATS} to carry"):
        await heartbeater.check()
