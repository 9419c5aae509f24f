"""`explain` beside a whole Warrener: each cause is brought about, and what the command gathers names it.

In virtual time; `tests/acceptance/test_explain.py` has the causes that need a real broker, store or ledger.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.simulation.test_backlog import FULL, QUEUE, ROOM, declare_small
from tests.simulation.test_unknown_types import announcement
from tests.simulation.world import World

from warrener.context import ResolvedEndpoints
from warrener.doctor.inspector import QueueInfo
from warrener.errors import BrokerUnreachable
from warrener.explanations import explain
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation
from warrener.gathering import gather
from warrener_contracts import events
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE, STATUS_QUEUE, Binding, dispatch_queue
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_store.jobs.rows import JobRow

WITHIN = 60
"""Seconds in which a cause must show."""
ENDPOINTS = ResolvedEndpoints("amqp://memory", "sqlite:///state.db", "", from_up=False)
LONG_AGO = """
UPDATE warrener_jobs
SET accepted_at = '2020-01-01T00:00:00.000000Z', finished_at = '2020-01-01T00:00:00.000000Z'
WHERE job_id = ?
"""
HOUR = timedelta(hours=1)
Rule = Mapping[str, Any]
EVERY_SECOND: Rule = {"kind": "interval", "every": 1}
EVERY_HOUR: Rule = {"kind": "interval", "every": 3600}
AFTER_FAILS: Rule = {"kind": "after", "upstreams": [{"job_type": "fails"}]}


class MemoryInspector:
    """What the command queries of a broker, answered by one in memory."""

    broker = "a broker in memory"

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    async def queue(self, name: str) -> QueueInfo | None:
        found = self._broker.backlog(name)
        return QueueInfo(found.waiting, found.consumers) if self._broker.has_queue(name) else None

    async def alarm(self) -> str | None:
        return None


class Stage:
    """A world, a client of it, and the command's explanation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._sent = 0

    async def send(self, kind: type[events.Event[Any]], event_id: str = "", /, **data: Any) -> None:
        """Publish an event as any client does."""
        self._sent += 1
        event = {"id": event_id or f"sent-{self._sent}", "source": "shop", "data": data}
        await self.world.publish(build_message(kind.model_validate(event)))

    async def request(
        self, job_type: str, arguments: Mapping[str, Any] | None = None, event_id: str = "", **fields: Any
    ) -> str:
        wanted = event_id or f"order-{self._sent}"
        await self.send(events.JobRequested, wanted, job_type=job_type, arguments=arguments or {}, **fields)
        await self.world.clock.advance(1)
        return str(job_id_of("shop", wanted))

    async def quick(self, **fields: Any) -> str:
        return await self.request("quick", {"number": 1}, **fields)

    async def slow(self, **fields: Any) -> str:
        return await self.request("slow", {"seconds": 60.0}, **fields)

    async def put(self, name: str, rule: Rule, job_type: str = "quick", **fields: Any) -> str:
        arguments = {"quick": {"number": 1}, "slow": {"seconds": 60.0}}[job_type]
        defined = {"arguments": arguments} | fields
        await self.send(events.SchedulePut, name=name, rule=rule, job_type=job_type, **defined)
        await self.world.clock.advance(1)
        return name

    def row(self, job_id: str) -> JobRow | None:
        return self.world.store.jobs.get(UUID(job_id))

    async def until_state(self, job_id: str, state: JobState, within: float = WITHIN) -> str:
        reached = lambda: (row := self.row(job_id)) is not None and row.state is state  # noqa: E731
        await self.world.clock.run_until(reached, within=within)
        return job_id

    def kill(self, service: str) -> None:
        """End a service, as by kill -9."""
        self.world.process(service).life.dead.set()

    async def freeze(self, service: str, queue: str) -> None:
        """End a service, but let its connection live: it consumes its queue, and does nothing."""
        self.kill(service)
        frozen = MemoryBus(self.world.broker, name=f"frozen {service}")
        await frozen.start()
        await frozen.subscribe(queue, prefetch=1)

    async def explain(self, subject: str) -> Explanation:
        return explain(await gather(self.world.store, ENDPOINTS, subject))


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """One process of each service; the dead ones return after a quarter of an hour."""
    async with World(1, schedulers=1, supervisors=1, agents=1, rests=(900.0,)) as world:
        made = Stage(world)

        @asynccontextmanager
        async def inspector(url: str, _namespace: str = "") -> AsyncGenerator[MemoryInspector]:
            if not world.broker.running.is_set():
                raise BrokerUnreachable(url, "Connection refused")
            yield MemoryInspector(world.broker)

        async def bindings(_: object) -> dict[str, frozenset[Binding]]:
            queues = (REQUESTS_QUEUE, *map(dispatch_queue, ("default", FULL)))
            return {queue.name: frozenset(queue.bindings) for queue in queues}

        monkeypatch.setattr("warrener.doctor.inspector.open_inspector", inspector)
        monkeypatch.setattr("warrener.doctor.management_api.bindings", bindings)
        await world.clock.advance(5)
        yield made


# -- jobs ----------------------------------------------------------------------------------------------------


async def cancelled(stage: Stage) -> str:
    job_id = await stage.quick(delay=HOUR)
    await stage.send(events.JobCancelRequested, job_id=job_id, reason="wrong file")
    return job_id


async def cancelled_while_its_agent_reports_nothing(stage: Stage) -> str:
    job_id = await stage.until_state(await stage.slow(), JobState.RUNNING)
    stage.kill("agent")
    await stage.send(events.JobCancelRequested, job_id=job_id)
    return job_id


async def dead(stage: Stage) -> str:
    job_id = await stage.request("signals", {"how": "to be dead"})
    return await stage.until_state(job_id, JobState.DEAD)


async def redriven(stage: Stage) -> str:
    job_id = await dead(stage)
    await stage.send(events.JobRedriveRequested, selection={"job_ids": [job_id]}, by="ann")
    return job_id


async def dropped(stage: Stage) -> str:
    job_id = await dead(stage)
    await stage.send(events.JobDropRequested, selection={"job_ids": [job_id]}, by="ann", reason="refunded")
    return job_id


async def retrying(stage: Stage, **fields: Any) -> str:
    policy = {"backoff": {"delays": ["30m"]}}
    return await stage.request("flaky", {"failures": 5}, policy=policy, **fields)


async def behind_a_breaker(stage: Stage) -> str:
    await stage.send(events.BreakerSetRequested, name="job:quick", state="open", open_for=1800)
    await stage.world.clock.advance(5)
    return await stage.quick()


async def of_a_paused_queue(stage: Stage) -> str:
    await stage.send(events.BreakerSetRequested, name="queue:default", state="open")
    await stage.world.clock.advance(5)
    return await stage.quick()


async def behind_four_that_run(stage: Stage) -> str:
    for _ in range(4):
        await stage.slow()
    return await stage.quick()


async def agent_of_four_that_run(stage: Stage) -> str:
    await behind_four_that_run(stage)
    (agent,) = await stage.world.store.agents()
    return f"agent:{agent.agent_id}"


async def behind_a_limit(stage: Stage) -> str:
    work = {"tenant": "a", "seconds": 600.0}
    return [await stage.request("limited", work) for _ in range(3)][-1]


async def of_a_type_that_its_agent_lacks(stage: Stage) -> str:
    await stage.world.publish(build_message(announcement()))
    await stage.world.clock.advance(5)
    return await stage.request("novel", {"number": 1})


async def in_a_full_queue(stage: Stage) -> str:
    await declare_small(stage.world)
    for _ in range(ROOM):
        await stage.quick(queue=FULL)
    return await stage.quick(queue=FULL)


async def repeated_with_other_content(stage: Stage) -> str:
    """The job of the first request stands; its explanation is that of the job."""
    for delay in (HOUR, 2 * HOUR):
        await stage.quick(event_id="order-22", delay=delay)
    return "order-22"


async def rejected(stage: Stage, job_type: str) -> str:
    await stage.request(job_type, event_id="order-17")
    return "order-17"


async def of_an_unknown_version(stage: Stage) -> str:
    data = {"job_type": "quick", "arguments": {"number": 1}}
    event = events.JobRequested.model_validate({"id": "order-20", "source": "shop", "data": data})
    message = build_message(event)
    body = message.body.replace(b"job.requested.v1", b"job.requested.v9")
    await stage.world.publish(message._replace(body=body))
    return "order-20"


async def with_a_fast_clock(stage: Stage) -> str:
    ahead = stage.world.clock.now() + HOUR
    data = {"job_type": "quick", "arguments": {"number": 1}, "not_before": ahead + timedelta(minutes=10)}
    event = {"id": "order-21", "source": "shop", "time": ahead, "data": data}
    await stage.world.publish(build_message(events.JobRequested.model_validate(event)))
    return "order-21"


# -- schedules -----------------------------------------------------------------------------------------------


async def paused(stage: Stage) -> str:
    name = await stage.put("nightly", EVERY_HOUR)
    await stage.send(events.SchedulePauseRequested, name=name)
    return name


async def in_a_circle(stage: Stage) -> str:
    for name, other in (("a", "b"), ("b", "a")):
        await stage.put(name, {"kind": "after", "upstreams": [{"schedule": other}]})
    return "b"


async def triggered_without_its_argument(stage: Stage) -> str:
    """One rejected tick: ten in a row would pause the schedule."""
    name = await stage.put("nightly", EVERY_HOUR, arguments={})
    await stage.send(events.ScheduleTriggerRequested, name=name)
    return name


async def pruned(stage: Stage) -> str:
    """The job of a tick whose successor has succeeded too: a schedule's last success is not pruned."""
    await stage.put("twice", EVERY_SECOND, choices={"max_runs": 2})
    await stage.world.clock.advance(10)
    _, first = await stage.world.store.ticks_of("twice", 10)
    stage.world.store.connection.execute(LONG_AGO, [str(first.job_id)])
    await stage.world.clock.advance(600)
    assert stage.row(str(first.job_id)) is None
    return str(first.job_id)


# -- outages -------------------------------------------------------------------------------------------------


async def accepted_before_the_broker_stops(stage: Stage) -> str:
    job_id = await stage.slow()
    stage.world.broker.stop()
    return job_id


async def due_while_the_scheduler_is_frozen(stage: Stage) -> str:
    job_id = await stage.quick(delay=5)
    await stage.freeze("scheduler", REQUESTS_QUEUE.name)
    return job_id


async def due_without_a_scheduler(stage: Stage) -> str:
    job_id = await stage.quick(delay=5)
    stage.kill("scheduler")
    return job_id


async def requested_without_a_scheduler(stage: Stage) -> str:
    stage.kill("scheduler")
    await stage.quick(event_id="order-2")
    return "order-2"


async def schedule_without_a_scheduler(stage: Stage) -> str:
    name = await stage.put("nightly", EVERY_HOUR)
    stage.kill("scheduler")
    return name


async def done_without_a_supervisor(stage: Stage) -> str:
    stage.kill("supervisor")
    return await stage.quick()


async def done_with_a_frozen_supervisor(stage: Stage) -> str:
    await stage.freeze("supervisor", STATUS_QUEUE.name)
    await stage.quick()
    job_id = await stage.quick()
    await stage.world.clock.advance(30)
    return job_id


async def queued_for_a_frozen_agent(stage: Stage) -> str:
    await stage.freeze("agent", QUEUE)
    return await stage.quick()


async def queued_for_a_draining_agent(stage: Stage) -> str:
    await stage.until_state(await stage.slow(), JobState.RUNNING)
    stage.world.process("agent").drain_requested.set()
    await stage.world.clock.advance(1)
    return await stage.quick()


async def queued_without_an_agent(stage: Stage) -> str:
    stage.kill("agent")
    job_id = await stage.quick()
    await stage.world.clock.advance(30)
    return job_id


async def of_a_killed_agent(stage: Stage) -> str:
    job_id = await stage.until_state(await stage.slow(), JobState.RUNNING)
    stage.kill("agent")
    return job_id


async def in_a_deleted_queue(stage: Stage) -> str:
    job_id = await queued_without_an_agent(stage)
    stage.kill("supervisor")
    stage.world.broker.delete_queue(QUEUE)
    return job_id


async def nothing(_: Stage) -> str:
    return "the subject is as it is"


# -- the table -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Injection:
    """A cause, and how it is brought about; `heals`: the services return after a quarter of an hour, and the
    job succeeds; `subject`: another one than the job that `inject` names."""

    cause: Cause
    inject: Callable[[Stage], Awaitable[str]]
    heals: bool = False
    subject: str = ""


INJECTIONS = (
    Injection(Cause.DELAYED, lambda stage: stage.quick(delay=HOUR)),
    Injection(Cause.DEADLINE_BEFORE_START, lambda stage: stage.quick(delay=HOUR, expires_after=600)),
    Injection(Cause.RETRY_WAIT, retrying),
    Injection(Cause.DEADLINE_BEFORE_RETRY, partial(retrying, expires_after=600)),
    Injection(Cause.SNOOZED, lambda stage: stage.request("signals", {"how": "to come again"})),
    Injection(Cause.DEAD_LETTER, dead),
    Injection(Cause.REDRIVEN, redriven),
    Injection(Cause.DROPPED, dropped),
    Injection(Cause.CANCELLED, cancelled),
    Injection(Cause.SUCCEEDED, Stage.quick),
    Injection(Cause.EXPIRED, lambda stage: stage.quick(delay=2, expires_after=1)),
    Injection(Cause.RUNNING, Stage.slow),
    Injection(Cause.CANCEL_REQUESTED, cancelled_while_its_agent_reports_nothing),
    Injection(Cause.SLOTS_FULL, behind_four_that_run),
    Injection(Cause.SLOTS_FULL, behind_four_that_run, subject="queue:default"),
    Injection(Cause.SLOTS_FULL, agent_of_four_that_run),
    Injection(Cause.LIMIT, behind_a_limit),
    Injection(Cause.WRONG_QUEUE, lambda stage: stage.quick(queue="defualt")),
    Injection(Cause.TYPE_NOT_KNOWN, of_a_type_that_its_agent_lacks),
    Injection(Cause.TYPE_NOT_KNOWN, of_a_type_that_its_agent_lacks, subject="type:novel"),
    Injection(Cause.BREAKER_OPEN, behind_a_breaker),
    Injection(Cause.BREAKER_OPEN, of_a_paused_queue),
    Injection(Cause.BREAKER_OPEN, of_a_paused_queue, subject="queue:default"),
    Injection(Cause.QUEUE_REFUSES, in_a_full_queue),
    Injection(Cause.JOB_TYPE_UNKNOWN, partial(rejected, job_type="nonesuch")),
    Injection(Cause.ARGUMENTS_REFUSED, partial(rejected, job_type="quick")),
    Injection(Cause.SCHEMA_UNKNOWN, of_an_unknown_version),
    Injection(Cause.CLOCK_SKEW, with_a_fast_clock),
    Injection(Cause.DELAYED, repeated_with_other_content),
    Injection(Cause.NEVER_SEEN, nothing, subject="order-99"),
    Injection(Cause.NEVER_SEEN, nothing, subject="schedule:nonesuch"),
    Injection(Cause.PRUNED, pruned),
    Injection(Cause.SCHEDULE_PAUSED, paused),
    Injection(Cause.SCHEDULE_REFUSED, in_a_circle),
    Injection(
        Cause.TICK_SKIPPED,
        lambda stage: stage.put("often", EVERY_SECOND, "slow", choices={"overlap": "skip"}),
    ),
    Injection(
        Cause.TICK_WAITS,
        lambda stage: stage.put("often", EVERY_SECOND, "slow", choices={"overlap": "queue_all"}),
    ),
    Injection(Cause.SCHEDULE_OVER, lambda stage: stage.put("once", EVERY_SECOND, choices={"max_runs": 1})),
    Injection(Cause.TICK_REJECTED, triggered_without_its_argument),
    Injection(Cause.NEXT_TICK, lambda stage: stage.put("nightly", EVERY_HOUR)),
    Injection(Cause.EVENT_AWAITED, lambda stage: stage.put("after", AFTER_FAILS)),
    Injection(Cause.TYPE_SERVED, nothing, subject="type:quick"),
    Injection(Cause.QUEUE_WORKS, nothing, subject="queue:default"),
    Injection(Cause.BROKER_UNREACHABLE, accepted_before_the_broker_stops),
    Injection(Cause.SCHEDULER_LATE, due_while_the_scheduler_is_frozen, heals=True),
    Injection(Cause.SCHEDULER_DOWN, due_without_a_scheduler, heals=True),
    Injection(Cause.SCHEDULER_DOWN, requested_without_a_scheduler),
    Injection(Cause.SCHEDULER_DOWN, schedule_without_a_scheduler),
    Injection(Cause.SUPERVISOR_DOWN, done_without_a_supervisor, heals=True),
    Injection(Cause.SUPERVISOR_STALLED, done_with_a_frozen_supervisor, heals=True),
    Injection(Cause.AGENT_STALLED, queued_for_a_frozen_agent, heals=True),
    Injection(Cause.AGENTS_DRAINING, queued_for_a_draining_agent),
    Injection(Cause.AGENT_GONE, queued_without_an_agent, heals=True),
    Injection(Cause.AGENT_GONE, queued_without_an_agent, subject="queue:default"),
    Injection(Cause.AGENT_LOST, of_a_killed_agent, heals=True),
    Injection(Cause.QUEUE_MISSING, in_a_deleted_queue, heals=True),
)


@pytest.mark.parametrize(
    "injection", INJECTIONS, ids=[f"{each.cause}-{n}" for n, each in enumerate(INJECTIONS)]
)
async def test_an_injected_cause_is_explained(stage: Stage, injection: Injection) -> None:
    job_id = await injection.inject(stage)
    subject = injection.subject or job_id
    found = await stage.explain(subject)
    deadline = stage.world.clock.monotonic() + WITHIN
    while found.cause is not injection.cause and stage.world.clock.monotonic() < deadline:
        await stage.world.clock.advance(1)
        found = await stage.explain(subject)
    assert found.cause is injection.cause, found
    assert found.needs_action is (found.steps[-1].status == "blocked")
    if injection.heals:
        await stage.until_state(subject, JobState.SUCCEEDED, within=1800)
        assert (await stage.explain(subject)).cause is Cause.SUCCEEDED
