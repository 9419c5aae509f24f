"""Attempts, from the dispatch queue to their reported end."""

import asyncio
import gc
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from services.agent.tests.stage import WAIT, HandlerRig, HastenedClock, Stage, UnpluggedLedger, dispatched

from warrener_agent import Agent, JobContext
from warrener_agent.attempt import Attempt
from warrener_agent.decisions.outcomes import abandoned_outcome, failure_to_record
from warrener_agent.handler_api import LocalHandlerPort
from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, ClaimStatus
from warrener_agent.run_table import Run
from warrener_contracts import events
from warrener_contracts.identity import child_job_id
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message
from warrener_contracts.topology import DISPATCH
from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import Telemetry

WORK = "warrener.queue.default"


# -- what is said ------------------------------------------------------------------------------------------


async def test_an_agent_announces_what_it_can_and_a_job_succeeds_and_is_acknowledged(
    stage: Stage, rig: HandlerRig
) -> None:
    one = await stage.enter(rig.agent, agent_announce_delay=600.0)
    announced = await stage.wait_for_event(events.AgentAnnounced)
    assert {kind.name for kind in announced.data.job_types} == {"greet", "wait", "write", "fail"}
    assert announced.data.queues == ("default",)
    reported = await stage.succeed("greet", {"name": "Ada"})
    assert (reported.result, reported.attempt, reported.recorded_attempt) == ("Hello, Ada!", 1, 1)
    assert reported.started_at <= reported.finished_at
    await stage.drain(one)
    assert not stage.of(events.AttemptStarted), "a quick attempt is not announced"


async def test_what_is_over_is_freed_at_once_and_not_left_to_the_collector(
    stage: Stage, rig: HandlerRig
) -> None:
    def alive() -> list[object]:
        return [found for found in gc.get_objects() if isinstance(found, (Attempt, LocalHandlerPort, Run))]

    one = await stage.enter(rig.agent, agent_slots=20)
    gc.disable()
    try:
        of_other_tests = set(map(id, earlier := alive()))
        jobs = [await stage.dispatch("greet", {"name": str(number)}) for number in range(40)]
        await stage.until(lambda: len(stage.of(events.AttemptSucceeded)) >= len(jobs), "all to succeed")
        await one.drain()
        left = [found for found in alive() if id(found) not in of_other_tests]
    finally:
        gc.enable()
    assert (len(left), len(of_other_tests)) == (0, len(earlier))


@pytest.mark.parametrize(
    ("how", "kind", "retryable"),
    [
        ("for good", "warrener_agent.failures.Fail", False),
        ("listed", "KeyError", False),
        ("later", "warrener_agent.failures.RetryAfter", True),
        ("exit", "SystemExit", True),
        ("interrupt", "KeyboardInterrupt", True),
        ("cancelled", "asyncio.exceptions.CancelledError", True),
        ("cancels itself", "asyncio.exceptions.CancelledError", True),
        ("oops", "RuntimeError", True),
    ],
)
async def test_whatever_a_handler_raises_is_a_failure_with_its_stack(
    stage: Stage, rig: HandlerRig, how: str, kind: str, *, retryable: bool
) -> None:
    await stage.enter(rig.agent)
    reported = await stage.fail("fail", {"how": how})
    assert (reported.error.type, reported.error.retryable) == (kind, retryable)
    assert reported.error.stack is not None
    assert "in fail" in reported.error.stack
    assert reported.retry_after_seconds == (300 if how == "later" else None)
    await stage.succeed("greet", {"name": "still there"})


async def test_odd_characters_of_errors_and_notes_are_mended_and_lose_no_event(stage: Stage) -> None:
    """An event that tells of a failure must never fail itself; a result of this kind is refused."""
    agent = Agent()

    class OddError(Exception):
        pass

    OddError.__qualname__ = "Odd\0Error"

    @agent.job("odd")
    async def odd(job: JobContext) -> None:
        job.progress(0.5, "h\0lf \ud83d")
        await stage.wait_for_event(events.AttemptProgressed)
        raise OddError("n\0l \ud83d")

    await stage.enter(agent)
    job = await stage.dispatch("odd")
    reported = (await stage.wait_for_event(events.AttemptFailed, job)).data.error
    assert (reported.message, reported.type.rpartition(".")[2]) == ("n\ufffdl \ufffd", "Odd\ufffdError")
    assert "\0" not in (reported.stack or "")
    assert (await stage.wait_for_event(events.AttemptProgressed, job)).data.note == "h\ufffdlf \ufffd"


async def test_wrong_arguments_and_unknown_types_get_their_reason(stage: Stage, rig: HandlerRig) -> None:
    await stage.enter(rig.agent)
    assert (await stage.fail("greet", {"nam": "Ada"})).error.kind == "bad_arguments"
    unknown = await stage.dispatch("unheard.of")
    reported = (await stage.wait_for_event(events.AttemptFailed, unknown)).data.error
    assert reported.type == "UnknownJobType"
    assert "unheard.of" in reported.message
    assert reported.retryable, "an agent that knows it may take it next time"
    async with connected_ledger(stage.ledger_url) as ledger:
        (answer,) = await ledger.claim([Claim(unknown, 1)], agent_id="other", lease=timedelta(days=1))
    assert answer.status is ClaimStatus.GRANTED, "nothing was claimed here, and nothing recorded"


async def test_g7_what_cannot_be_understood_is_parked_with_its_reason(stage: Stage, rig: HandlerRig) -> None:
    one = await stage.enter(rig.agent)
    misplaced = build_message(
        events.JobRequested(id="x", source="test", data=events.JobRequestedData(job_type="greet"))
    )
    strange = b'{"priority": 3, ' + misplaced.body[1:]
    good, bad = dispatched("greet", {"name": "x"}), dispatched("greet", {"nam": "x"})
    runnable = ", ".join(one.model_dump_json(exclude_none=True) for one in (good, bad)).encode()
    batch = b"[17, " + strange + b", " + runnable + b"]"
    bodies = (b"{", b'{"specversion":"1.0"}', misplaced.body, batch)
    for number, body in enumerate(bodies):
        content_type = BATCH_TYPE if body is batch else EVENT_TYPE
        message = Message(DISPATCH, "default.greet", body, content_type, str(number), "x", {})
        await stage.bus.publish([message])
    await stage.until(lambda: len(stage.parked) == 5)
    await stage.wait_for_event(events.AttemptFailed, bad.data.job_id)  # alone
    await stage.wait_for_event(events.AttemptSucceeded, good.data.job_id)
    reasons = ["not_json", "not_an_event", "wrong_queue", "not_an_event", "wrong_queue"]
    assert [one.headers["warrener-reason"] for one in stage.parked] == reasons
    assert [one.body for one in stage.parked] == [*bodies[:3], b"17", strange], "each as it came"
    assert {one.content_type for one in stage.parked} == {EVENT_TYPE}
    await stage.drain(one)


async def test_long_attempts_are_announced_and_exclusive_ones_at_once(stage: Stage, rig: HandlerRig) -> None:
    await stage.enter(rig.agent, agent_announce_delay=0.05)
    job = await stage.dispatch("wait")
    await stage.wait_for_event(events.AttemptStarted, job)
    exclusive = await stage.dispatch("greet", {"name": "x"}, guarantee="exclusive")
    await stage.wait_for_event(events.AttemptSucceeded, exclusive)
    assert [type(event) for event in stage.about(exclusive)] == [
        events.AttemptStarted,
        events.AttemptSucceeded,
    ]


# -- once --------------------------------------------------------------------------------------------------


async def test_g4_effects_result_and_child_jobs_come_together_and_nothing_stays_of_a_failure(
    stage: Stage, rig: HandlerRig
) -> None:
    await stage.enter(rig.agent)
    job = await stage.dispatch("write", {"note": "good"})
    reported = (await stage.wait_for_event(events.AttemptSucceeded, job)).data
    assert reported.child_jobs == 1
    requested = await stage.wait_for_event(events.JobRequested)
    assert requested.id == str(child_job_id(job, "greeting"))
    assert (requested.data.job_type, requested.data.parent_id) == ("greet", job)
    await stage.fail("write", {"note": "bad"})
    assert await stage.effects() == ["good"]
    assert len(stage.of(events.JobRequested)) == 1


async def test_g3_a_duplicate_of_a_finished_attempt_is_reported_again_and_not_rerun(
    stage: Stage, rig: HandlerRig
) -> None:
    await stage.enter(rig.agent)
    job = await stage.dispatch("write", {"note": "once"})
    first = await stage.wait_for_event(events.AttemptSucceeded, job)
    await stage.dispatch("write", {"note": "once"}, job_id=job)
    again = await stage.wait_for_event(events.AttemptSucceeded, job, times=2)
    await stage.dispatch("write", {"note": "once"}, job_id=job, attempt=3)
    later = await stage.wait_for_event(events.AttemptSucceeded, job, times=3)
    assert again.data == first.data
    assert (later.data.attempt, later.data.recorded_attempt, later.data.result) == (3, 1, "once")
    assert rig.calls == 1
    assert await stage.effects() == ["once"]


async def test_g3_a_duplicate_of_a_running_attempt_is_adopted(stage: Stage, rig: HandlerRig) -> None:
    one = await stage.enter(rig.agent)
    job = await stage.dispatch("wait")
    await rig.begun.get()
    await stage.dispatch("wait", job_id=job)
    stage.broker.drop_connections()  # and the first delivery comes again too
    await stage.wait_for_event(events.AgentHeartbeat, times=len(stage.of(events.AgentHeartbeat)) + 2)
    rig.go_on.set()
    await stage.wait_for_event(events.AttemptSucceeded, job)
    await stage.drain(one)
    assert rig.calls == 1
    assert len(stage.of(events.AttemptSucceeded)) == 1


async def test_g3_a_higher_attempt_stops_the_lower_one_of_the_same_agent(
    stage: Stage, rig: HandlerRig
) -> None:
    await stage.enter(rig.agent)
    job = await stage.dispatch("wait")
    await rig.begun.get()
    await stage.dispatch("wait", job_id=job, attempt=2)
    await rig.begun.get()
    rig.go_on.set()
    assert (await stage.wait_for_event(events.AttemptSucceeded, job)).data.result == 2
    assert [event.data.attempt for event in stage.of(events.AttemptSucceeded)] == [2]


async def test_an_attempt_that_another_agent_has_found_lost_leaves_its_span_to_the_supervisor(
    stage: Stage, rig: HandlerRig
) -> None:
    telemetry = Telemetry.in_memory("agent")
    one = await stage.enter(rig.agent, telemetry=telemetry, agent_claim_ttl=1.0)
    job = await stage.dispatch("wait", trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    await rig.begun.get()
    now = datetime.now(UTC)
    failures = [failure_to_record(Claim(job, 1), abandoned_outcome(), now, now)]
    async with connected_ledger(stage.ledger_url) as other, asyncio.timeout(WAIT):
        while not await other.fail_abandoned(failures, agent_id="other"):  # renewed in between
            await stage.expire_claims()
    assert (await stage.wait_for_event(events.AttemptFailed, job)).data.error.kind == "lost"
    await one.drain()
    assert not [span.name for span in telemetry.spans() if span.name.startswith("attempt")]


class FrozenBus(MemoryBus):
    """A connection that freezes around the report of a failure, as that of a process about to be killed."""

    def __init__(self, broker: MemoryBroker, *, before: bool) -> None:
        super().__init__(broker)
        self.frozen, self._before = asyncio.Event(), before

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        is_failure = any(message.type == "attempt.failed.v1" for message in messages)
        is_left = is_failure and self._before
        results = [] if is_left else await super().publish(messages, timeout=timeout)
        if is_failure:
            self.frozen.set()
            await asyncio.Event().wait()
        return results


@pytest.mark.parametrize("before", [True, False])
async def test_an_agent_killed_after_a_failure_does_not_run_the_attempt_again(
    stage: Stage, rig: HandlerRig, *, before: bool
) -> None:
    bus = FrozenBus(stage.broker, before=before)
    first = await stage.enter(rig.agent, bus=bus)
    job = await stage.dispatch("write", {"note": "bad"})
    async with asyncio.timeout(WAIT):
        await bus.frozen.wait()
    if not before:
        await stage.wait_for_event(events.AttemptFailed, job)
    count = len(stage.of(events.AttemptFailed))
    await stage.leave(first)
    assert stage.broker.ready(WORK) == 1, "not acknowledged, so it comes again"
    second = await stage.enter(rig.agent)
    reported = await stage.wait_for_event(events.AttemptFailed, job, times=count + 1)
    assert reported.data.error.message == "no good"
    assert rig.calls == 1
    await stage.drain(second)


# -- time, stopping and draining ---------------------------------------------------------------------------


async def test_a_timeout_is_a_failure_that_may_be_retried_and_after_its_deadline_no_job_starts(
    stage: Stage, rig: HandlerRig
) -> None:
    await stage.enter(rig.agent)
    deadline = datetime(2026, 1, 1, tzinfo=UTC)
    error = (await stage.fail("wait", deadline=deadline)).error
    assert "by the deadline of its job, 2026-01-01T00:00:00+00:00" in error.message
    assert not rig.calls
    error = (await stage.fail("wait", timeout=timedelta(milliseconds=50))).error
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "within its timeout of 0.05 s" in error.message, "as declared, not what was left of it"


async def test_while_draining_nothing_new_is_taken_and_what_runs_ends(stage: Stage, rig: HandlerRig) -> None:
    one = await stage.enter(rig.agent)
    job = await stage.dispatch("wait")
    await rig.begun.get()
    draining = asyncio.create_task(one.drain())
    await stage.until(
        lambda: any(event.data.draining for event in stage.of(events.AgentHeartbeat)), "a draining heartbeat"
    )
    late = await stage.dispatch("greet", {"name": "late"})
    rig.go_on.set()
    await draining
    await stage.wait_for_event(events.AttemptSucceeded, job)
    await stage.leave(one)
    assert not stage.of(events.AttemptSucceeded, late)
    assert stage.broker.ready(WORK) == 1


# -- being there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("comes_back", [True, False])
async def test_g3_an_agent_that_cannot_renew_stops_what_runs_and_gives_it_back(
    stage: Stage, rig: HandlerRig, *, comes_back: bool
) -> None:
    """At the latest when the lease has ended: another agent may have a ledger for it."""
    stopped = asyncio.Event()

    @rig.agent.job("stubborn")
    async def stubborn(job: JobContext) -> None:
        rig.begun.put_nowait(job.idempotency_key)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    ledger, clock = UnpluggedLedger(open_ledger(stage.ledger_url)), HastenedClock()
    await stage.enter(rig.agent, ledger=ledger, clock=clock, agent_claim_ttl=600.0)
    job = await stage.dispatch("stubborn", timeout=timedelta(hours=1))
    await rig.begun.get()
    ledger.gone = True
    clock.skip(timedelta(seconds=500))
    async with asyncio.timeout(WAIT):
        await stopped.wait()  # by itself, before its lease is over for the others
    assert not stage.of(events.AttemptReleased), "it says nothing of which the ledger does not know"
    if comes_back:
        ledger.gone = False
    else:
        clock.skip(timedelta(seconds=200))
    await stage.wait_for_event(events.AttemptReleased, job)
    await stage.until(
        lambda: not stage.of(events.AgentHeartbeat)[-1].data.running, "the agent to hold it no longer"
    )


async def test_two_queues_have_slots_of_their_own(stage: Stage, rig: HandlerRig) -> None:
    await stage.enter(rig.agent, agent_queues=("default", "fast"), agent_slots=1)
    slow = await stage.dispatch("wait")
    await rig.begun.get()
    await stage.succeed("greet", {"name": "x"}, queue="fast")
    waiting = await stage.dispatch("greet", {"name": "y"})
    assert not stage.of(events.AttemptSucceeded, waiting)
    rig.go_on.set()
    await stage.wait_for_event(events.AttemptSucceeded, slow)
    await stage.wait_for_event(events.AttemptSucceeded, waiting)
