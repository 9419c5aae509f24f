"""Received messages: several attempts in one, delayed ones, and attempts that may have begun before."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any
from uuid import uuid4

import pytest
from services.agent.tests.stage import WAIT, HandlerRig, LedgerProxy, Stage, dispatched
from services.agent.tests.test_heartbeat import agent_context

from warrener_agent import Agent, JobContext, wiring
from warrener_agent.decisions.intake import arrival_time
from warrener_agent.leases import LeaseKeeper
from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable
from warrener_agent.run_table import DeliveryRef, Run, RunTable
from warrener_agent.settings import AgentSettings
from warrener_contracts.events import AttemptDispatched, AttemptFailed, AttemptStarted, AttemptSucceeded
from warrener_contracts.messages import is_early
from warrener_contracts.topology import DELAY_QUEUES, Topology, delay_level_for, dispatch_queue
from warrener_runtime.clock import SystemClock
from warrener_runtime.lifecycle import Component
from warrener_runtime.lifecycle.crashed_readers import SUSPECT_AFTER
from warrener_runtime.telemetry import NO_CONTEXT
from warrener_runtime.virtual_clock import VirtualClock

# -- attempts that share a message: each is judged alone, and together they take one slot -------------------

WORK = "warrener.queue.default"


async def test_all_of_a_message_run_at_once_in_one_slot(stage: Stage, rig: HandlerRig) -> None:
    await stage.enter(rig.agent, agent_slots=1)
    waiting = [dispatched("wait") for _ in range(3)]
    await stage.dispatch_together(*waiting)
    async with asyncio.timeout(WAIT):
        for _ in waiting:
            await rig.begun.get()
    later = await stage.dispatch("wait")
    assert stage.broker.ready(WORK) == 1, "the three share the slot: the next one waits in its queue"
    rig.go_on.set()
    for event in waiting:
        await stage.wait_for_event(AttemptSucceeded, event.data.job_id)
    await stage.wait_for_event(AttemptSucceeded, later)


async def test_an_agent_killed_between_them_repeats_none_that_has_ended(
    stage: Stage, rig: HandlerRig
) -> None:
    first = await stage.enter(rig.agent, agent_claim_ttl=600.0)
    done, lost = (dispatched("write", {"note": note}) for note in ("quick", "slow"))
    await stage.dispatch_together(done, lost)
    await stage.wait_for_event(AttemptSucceeded, done.data.job_id)
    await asyncio.wait_for(rig.begun.get(), WAIT)
    await stage.leave(first)
    assert stage.broker.ready(WORK) == 1, "one of them has not ended: the message comes again"
    await stage.expire_claims()
    second = await stage.enter(rig.agent, agent_claim_ttl=600.0)
    failed = await stage.wait_for_event(AttemptFailed, lost.data.job_id)
    assert failed.data.error.kind == "lost"
    await stage.wait_for_event(AttemptSucceeded, done.data.job_id, times=2)
    assert await stage.effects() == ["quick"]
    await stage.drain(second)


def run_of(stage: Stage, delivery_ref: DeliveryRef) -> Run:
    data = dispatched("wait").data
    claim = Claim(data.job_id, data.attempt)
    return Run(data, claim, [delivery_ref], datetime.now(UTC), 0.0, inf, NO_CONTEXT)


async def test_a_slot_is_free_when_the_last_of_a_delivery_has_ended(stage: Stage) -> None:
    running, shared = RunTable(2), await stage.delivery(dispatched("wait"), dispatched("wait"))
    one, other = run_of(stage, shared), run_of(stage, shared)
    alone = run_of(stage, DeliveryRef(shared.subscription, shared.delivery, "default", 1, 0.0))
    free = [running.free("default")]
    for run in (one, other, alone):
        running.add(run)
        free.append(running.free("default"))
    other.delivery_refs.clear()  # acknowledged early, as it has run for very long
    for run in (other, alone, one, one):
        running.remove(run)
        free.append(running.free("default"))
    assert free == [2, 1, 1, 0, 0, 1, 2, 2]
    gone = asyncio.get_running_loop().create_future()  # of handlers that cannot be stopped
    for _ in range(2):
        running.add(run := run_of(stage, shared))
        running.abandon(run, gone)
        running.remove(run)
    assert running.free("default") == 1, "two that hang in one slot take one slot"
    gone.set_result(None)
    await asyncio.sleep(0)
    assert running.free("default") == 2


# -- delayed attempts at an agent whose clock is wrong (point 4 of "under strain") --------------------------

SENT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def delayed(seconds: float) -> AttemptDispatched:
    return dispatched("greet", attempt=2, at=SENT, not_before=SENT + timedelta(seconds=seconds))


@pytest.mark.parametrize("wrong", [-3600.0, -60.0, -5.0, 0.0])
@pytest.mark.parametrize("delay", [0.1, 1.0, 6.0, 40.0, 70.0, 600.0])
def test_4_a_wake_up_ends_in_time_whatever_the_clock_of_the_agent_is_behind(
    delay: float, wrong: float
) -> None:
    event, true = delayed(delay), SENT
    for _ in range(12):
        level = (
            delay_level_for(event.data.not_before - (event.time or SENT)) if event.data.not_before else None
        )
        true += level.delay if level else timedelta(0)
        now = arrival_time(event, true + timedelta(seconds=wrong), returned=True)
        if not is_early(event, now):
            break
        event = event.model_copy(update={"time": now})  # as the receiver sends it up again
    else:
        raise AssertionError(f"expected it to begin, got one that circles until {true - SENT}")
    assert -0.3 <= (true - SENT).total_seconds() - delay <= 6.0
    waited_long = arrival_time(delayed(600.0), SENT + timedelta(hours=1), returned=True)
    assert not is_early(delayed(600.0), waited_long), "in its queue, by a clock that is right"


# -- attempts that another process may have begun ------------------------------------------------------------

NEVER = 1000.0


class Left:
    """A job whose handler has begun in one process when that dies; then each further start is noted."""

    def __init__(self) -> None:
        self.agent, self.starts, self.begun = Agent(), list[int](), asyncio.Event()

        @self.agent.job("wait")
        async def wait(job: JobContext) -> int:
            self.starts.append(job.attempt)
            self.begun.set()
            if self.starts == [1]:
                await asyncio.Event().wait()
            return job.attempt

    async def enter(self, stage: Stage, **more: Any) -> Component:
        return await stage.enter(self.agent, agent_claim_ttl=600.0, agent_announce_delay=NEVER, **more)


@pytest.mark.parametrize("restarted", [False, True])
async def test_g2_what_a_process_has_left_behind_is_lost_and_not_run_again_before_the_verdict(
    stage: Stage, *, restarted: bool
) -> None:
    """An agent that is restarted as itself need not wait for the end of the lease."""
    left, name = Left(), {"agent_id": "ada"} if restarted else {}
    first = await left.enter(stage, **name)
    job = await stage.dispatch("wait")
    await asyncio.wait_for(left.begun.wait(), WAIT)
    await stage.leave(first)
    assert not stage.of(AttemptStarted), "it was new: nobody waits for a word about it"
    if not restarted:
        await stage.expire_claims()
    second = await left.enter(stage, **name)
    lost = (await stage.wait_for_event(AttemptFailed, job)).data.error
    assert (lost.kind, lost.message.endswith("has died, or was cut off, while it ran it")) == ("lost", True)
    if restarted:
        assert lost.message.startswith("agent ada has died")
    await stage.dispatch("wait", job_id=job)  # a copy of the message, however late
    await stage.wait_for_event(AttemptFailed, job, times=2)
    assert left.starts == [1]
    await stage.dispatch("wait", job_id=job, attempt=2)  # the verdict: another attempt
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == 2
    await second.drain()


async def test_a_later_attempt_runs_without_a_delay_level_if_the_agent_before_gives_way_at_once(
    stage: Stage, rig: HandlerRig
) -> None:
    clock, job = VirtualClock(datetime.now(UTC)), uuid4()
    first, day = [Claim(job, 1)], timedelta(days=1)
    async with connected_ledger(stage.ledger_url) as ledger:
        await ledger.claim(first, agent_id="cut off", lease=day)
        await stage.enter(rig.agent, clock=clock)
        stage.broker.lose_quorum(DELAY_QUEUES[0].name)  # nothing comes back from there
        await stage.dispatch("greet", {"name": "Ada"}, job_id=job, attempt=2)
        async with asyncio.timeout(WAIT):
            while (await ledger.renew(first, agent_id="cut off", lease=day)).renewed:
                pass
        await ledger.release(first, agent_id="cut off")
        await clock.advance(1.0)  # the agent has claimed it, and claims it once more
        assert (await stage.wait_for_event(AttemptSucceeded, job)).data.attempt == 2


async def test_a_later_attempt_whose_claim_is_still_held_goes_to_a_delay_level(
    stage: Stage, rig: HandlerRig
) -> None:
    job = uuid4()
    async with connected_ledger(stage.ledger_url) as ledger:
        await ledger.claim([Claim(job, 1)], agent_id="cut off", lease=timedelta(days=1))
        await stage.enter(rig.agent)
        await stage.dispatch("greet", {"name": "Ada"}, job_id=job, attempt=2)
        await stage.until(lambda: stage.broker.ready(DELAY_QUEUES[0].name) == 1)
        assert rig.calls == 0


@pytest.mark.parametrize("cut_off", [False, True])
async def test_a_run_that_outlived_a_blocked_loop_keeps_its_claim_though_its_agent_is_cut_off(
    stage: Stage, *, cut_off: bool
) -> None:
    delivery_ref = await stage.delivery()
    settings = AgentSettings(agent_claim_ttl=600.0)
    context = replace(agent_context(stage, VirtualClock()), clock=SystemClock(), settings=settings)
    runs: dict[str, Run] = {}
    for name in ("block", "other"):
        runs[name] = run_of(stage, replace(delivery_ref))
        runs[name].held_after_block = name == "block"
        context.running.add(runs[name])
    claims = [run.claim for run in runs.values()]
    await context.ledger.start()
    try:
        await context.ledger.claim(claims, agent_id=context.holder_id, lease=context.lease)
        later = [Claim(claim.job_id, 2) for claim in claims]
        await context.ledger.claim(later, agent_id="other", lease=context.lease)
        await LeaseKeeper(context, lambda: cut_off).renew()
    finally:
        await context.ledger.close()
    assert {name for name, run in runs.items() if run.stop} == {"other"}


# -- messages that were returned often, and a ledger that goes away while one is read ------------------------


class UnreachableLedger(LedgerProxy):
    """A ledger that is away from the first release on, until the test brings it back."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.away, self.left = asyncio.Event(), False

    def __getattr__(self, name: str) -> Any:
        if name == "release" and not self.left:
            self.away.set()
        if self.away.is_set() and name in {"ping", "claim", "release", "fail_abandoned"}:
            raise LedgerUnavailable("expected a database, got none")
        return super().__getattr__(name)

    def come_back(self) -> None:
        self.left = True
        self.away.clear()


@pytest.mark.parametrize("by_another", [False, True])
async def test_a_message_whose_reader_has_lost_its_ledger_is_read_again_and_not_given_up(
    stage: Stage, rig: HandlerRig, *, by_another: bool
) -> None:
    """The reader ends and comes back as itself, or another agent has the message by then."""
    await stage.bus.declare(Topology((), (dispatch_queue("default"),)))
    job, clock = await stage.dispatch("greet", {"name": "Ada"}), VirtualClock(datetime.now(UTC))
    for _ in range(SUSPECT_AFTER):  # connections that were lost have returned it
        subscription = await stage.bus.subscribe(WORK, prefetch=1)
        await anext(aiter(subscription))
        await subscription.close()
    unreachable = UnreachableLedger(open_ledger(stage.ledger_url))

    async def enter(agent_id: str, **more: Any) -> Component:
        return await stage.enter(rig.agent, agent_id=agent_id, agent_claim_ttl=600.0, **more)

    first = await enter("ada", ledger=unreachable, clock=clock)
    await asyncio.wait_for(unreachable.away.wait(), WAIT)
    if by_another:
        await clock.advance(20.0)  # the message went back
        await enter("bob")
        await stage.until(lambda: stage.broker.ready(WORK) == 0, "the other one to have it")
        unreachable.come_back()
        await clock.advance(20.0)
    else:
        unreachable.come_back()
        await first.drain()
        await stage.leave(first)
        await enter("ada")
    await stage.until(lambda: bool(stage.of(AttemptSucceeded, job) or stage.parked), "an end")
    assert stage.of(AttemptSucceeded, job)
    assert rig.calls == 1


async def test_5_a_starved_agent_leaves_what_it_does_not_take_in_its_queue(
    stage: Stage, rig: HandlerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slots(RunTable):
        """The table of a starved agent: it tells when the consumer asks for room."""

        def room(self, queue: str) -> int:
            resized.set()
            return super().room(queue)

    def slots(_: int) -> RunTable:
        return table

    resized, table = asyncio.Event(), Slots(4)
    monkeypatch.setattr(wiring, "RunTable", slots)
    await stage.enter(rig.agent)
    table.allowed = 1
    async with asyncio.timeout(WAIT):
        await resized.wait()
        jobs = [await stage.dispatch("wait") for _ in range(4)]
        await rig.begun.get()
    assert stage.broker.ready(WORK) == 3
    assert not any(stage.broker.ready(queue.name) for queue in DELAY_QUEUES)
    rig.go_on.set()
    for job in jobs:
        await stage.wait_for_event(AttemptSucceeded, job)
