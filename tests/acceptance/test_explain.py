"""`warrener explain` beside a whole Warrener at work: each cause is injected, and the command names it.

Services that are down or frozen stand in `test_explain_outages.py`."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from tests.acceptance.command_line import call_command, run_command
from tests.acceptance.store_queries import agents_of, job_types_of, rows_of, tick_history
from tests.acceptance.test_backlog import LIMIT, SMALL, on_broker
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener.explanations.causes import Cause
from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS, dispatch_queue
from warrener_contracts.triggers import AfterRule, Upstream

MODULE = "tests.acceptance.explain_handlers"
LONG_AGO = """
UPDATE warrener_jobs
SET accepted_at = '2020-01-01T00:00:00.000000Z', finished_at = '2020-01-01T00:00:00.000000Z'
WHERE job_id = ?
"""


class Stage:
    """A warren at work, and its client."""

    def __init__(self, warren: Warren, broker: RabbitMQServer, client: SyncClient) -> None:
        self.warren, self.broker, self.client = warren, broker, client

    def request(self, job_type: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
        """Request a job; its id."""
        return str(self.client.request(job_type, arguments or {}, **options).job_id)

    def explain(self, text: str) -> dict[str, Any]:
        """What the command says."""
        ended = call_command(self.warren, "explain", text, "--json")
        assert ended.stdout, ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def put(self, name: str, rule: Any = None, job_type: str = "quick", **choices: Any) -> str:
        """Put a schedule, by default one that ticks each second; its name."""
        data = SchedulePutData(
            name=name,
            rule=rule or IntervalRule(every=timedelta(seconds=1)),
            job_type=job_type,
            choices=ScheduleChoices.model_validate(choices),
        )
        self.client.put_schedules([data])
        return name

    def publish(self, key: str, event: dict[str, Any]) -> None:
        """Publish an event as any AMQP client does."""
        asyncio.run(self._publish(key, json.dumps(event).encode()))

    async def _publish(self, key: str, body: bytes) -> None:
        async with await aio_pika.connect(self.warren.broker_url) as connection:
            exchange = await (await connection.channel()).get_exchange(REQUESTS)
            message = aio_pika.Message(body, content_type="application/cloudevents+json")
            await exchange.publish(message, key)

    def until_state(self, job_id: str, *states: JobState) -> str:
        """Wait until the job is in one of these states."""

        def reached() -> bool:
            return any(row.state in states for row in rows_of(self.warren, [UUID(job_id)]).values())

        until(reached, f"job {job_id} to be {states}")
        return job_id


@pytest.fixture(scope="module")
def stage(shared_warren: Warren, broker: RabbitMQServer) -> Iterator[Stage]:
    warren = shared_warren
    warren.start("scheduler")
    warren.start("supervisor")
    warren.start("agent", f"{MODULE}:agent")
    warren.start("agent", f"{MODULE}:narrow", "--slots", "1")
    warren.start("agent", f"{MODULE}:old")
    passing = warren.start("agent", f"{MODULE}:new")
    warren.wait_ready()
    until(lambda: set(job_types_of(warren)) >= {"quick", "narrow", "known", "added"}, "all job types")
    passing.end()
    with SyncClient(warren.broker_url) as client:
        yield Stage(warren, broker, client)


# -- injections --------------------------------------------------------------------------------------------


def cancelled(stage: Stage) -> str:
    job_id = stage.request("quick", delay="1h")
    stage.until_state(job_id, JobState.WAITING)
    run_command(stage.warren, "cancel", job_id, "--reason", "wrong file")
    return job_id


def cancelled_and_stubborn(stage: Stage) -> str:
    job_id = stage.until_state(stage.request("stubborn"), JobState.RUNNING)
    run_command(stage.warren, "cancel", job_id)
    return job_id


def redriven(stage: Stage) -> str:
    job_id = stage.until_state(stage.request("dies"), JobState.DEAD)
    run_command(stage.warren, "dead-letters", "redrive", job_id, "--no-wait")
    return job_id


def dropped(stage: Stage) -> str:
    job_id = stage.until_state(stage.request("dies"), JobState.DEAD)
    run_command(stage.warren, "dead-letters", "drop", job_id, "--reason", "refunded", "--yes")
    return job_id


def behind_a_breaker(stage: Stage) -> str:
    run_command(stage.warren, "breaker", "open", "dependency:billing-api", "--for", "30m")
    return stage.request("bill")


def in_a_narrow_queue(stage: Stage) -> str:
    stage.until_state(stage.request("narrow"), JobState.RUNNING)
    return stage.request("narrow")


def of_an_unknown_version(stage: Stage) -> str:
    event = _request("order-20", "quick") | {"type": "job.requested.v9"}
    stage.publish("quick", event)
    return "order-20"


def with_a_fast_clock(stage: Stage) -> str:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    event = _request("order-21", "quick", not_before=(ahead + timedelta(minutes=10)).isoformat())
    stage.publish("quick", event | {"time": ahead.isoformat(), "source": "warrener.client"})
    return "order-21"


def rejected(number: int, job_type: str, arguments: dict[str, Any]) -> Callable[[Stage], str]:
    def inject(stage: Stage) -> str:
        stage.request(job_type, arguments, id=f"order-{number}")
        return f"order-{number}"

    return inject


def repeated_with_other_content(stage: Stage) -> str:
    """The job of the first request stands; its explanation is that of the job."""
    stage.request("quick", id="order-22", delay="1h")
    stage.request("quick", id="order-22", delay="2h")
    return "order-22"


def paused(stage: Stage) -> str:
    name = stage.put("nightly.paused", IntervalRule(every=timedelta(hours=1)))
    run_command(stage.warren, "schedule", "pause", name)
    return name


def in_a_circle(stage: Stage) -> str:
    stage.put("circle.a", AfterRule(upstreams=(Upstream(schedule="circle.b"),)))
    return stage.put("circle.b", AfterRule(upstreams=(Upstream(schedule="circle.a"),)))


def overlapping(stage: Stage) -> str:
    return stage.put("nightly.overlap", job_type="works", overlap=OverlapPolicy.SKIP)


def queueing(stage: Stage) -> str:
    return stage.put("nightly.queueing", job_type="works", overlap=OverlapPolicy.QUEUE_ALL)


def limited(stage: Stage) -> str:
    return stage.put("nightly.limited", max_runs=1)


def triggered_without_its_argument(stage: Stage) -> str:
    """One rejected tick: the next one is due within the hour, and ten in a row would pause the schedule."""
    name = stage.put("nightly.refused", IntervalRule(every=timedelta(hours=1)), job_type="needs")
    run_command(stage.warren, "schedule", "trigger", name)
    return name


def pruned(stage: Stage) -> str:
    """The job of a tick whose successor has succeeded too: a schedule's last success is not pruned."""
    name = stage.put("nightly.pruned", max_runs=2)
    ticks = until(lambda: len(found := tick_history(stage.warren, name)) == 2 and found, "two ticks")
    for tick in ticks:
        stage.until_state(str(tick.job_id), JobState.SUCCEEDED)
    job_id = str(ticks[0].job_id)
    with closing(sqlite3.connect(stage.warren.folder / "state.db", timeout=30)) as store, store:
        store.execute(LONG_AGO, (job_id,))
    run_command(stage.warren, "prune", "--yes")
    return job_id


def too_long(stage: Stage) -> str:
    vhost = unquote(urlsplit(stage.warren.broker_url).path[1:])
    queue = dispatch_queue("tiny").name
    stage.request("quick", queue="tiny")
    stage.broker.evaluate(SMALL.format(vhost=vhost, queue=queue))
    for _ in range(2 * LIMIT):
        stage.request("quick", queue="tiny")
    until(lambda: on_broker(stage.warren, partial(waiting_in, queue=queue)) > LIMIT, "the queue to be full")
    return stage.request("quick", queue="tiny")


async def waiting_in(channel: AbstractChannel, queue: str) -> int:
    """How many messages wait there; none if the queue is missing."""
    try:
        found = await channel.get_queue(queue)
    except aio_pika.exceptions.ChannelNotFoundEntity:
        return 0
    return found.declaration_result.message_count or 0


def agent_of(stage: Stage) -> str:
    return next(f"agent:{agent.agent_id}" for agent in agents_of(stage.warren) if agent.queues == ("narrow",))


def _request(event_id: str, job_type: str, **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": "shop",
        "type": "job.requested.v1",
        "datacontenttype": "application/json",
        "data": {"job_type": job_type, "arguments": {}, **data},
    }


@dataclass(frozen=True, slots=True)
class Injection:
    """A cause, how it is brought about, and words of the explanation."""

    cause: Cause
    inject: Callable[[Stage], str]
    phrase: str = ""


INJECTIONS = (
    Injection(Cause.DELAYED, lambda stage: stage.request("quick", delay="1h"), "its request delays it"),
    Injection(
        Cause.DEADLINE_BEFORE_START,
        lambda stage: stage.request("quick", delay="1h", expires_after="10m"),
        "expires without an attempt",
    ),
    Injection(Cause.RETRY_WAIT, lambda stage: stage.request("fails"), "RuntimeError: not today"),
    Injection(
        Cause.DEADLINE_BEFORE_RETRY,
        lambda stage: stage.request("fails", expires_after="10m"),
        "passes before attempt 2",
    ),
    Injection(Cause.SNOOZED, lambda stage: stage.request("rests"), "put it off"),
    Injection(Cause.DEAD_LETTER, lambda stage: stage.request("dies"), "RuntimeError: never"),
    Injection(Cause.REDRIVEN, redriven, "it was redriven as job"),
    Injection(Cause.DROPPED, dropped, "refunded"),
    Injection(Cause.CANCELLED, cancelled, "wrong file"),
    Injection(Cause.SUCCEEDED, lambda stage: stage.request("quick"), "after its request"),
    Injection(
        Cause.EXPIRED, lambda stage: stage.request("quick", delay="2s", expires_after="1s"), "deadline"
    ),
    Injection(Cause.RUNNING, lambda stage: stage.request("works"), "attempt 1 runs on"),
    Injection(Cause.CANCEL_REQUESTED, cancelled_and_stubborn, "its cancellation was requested"),
    Injection(Cause.SLOTS_FULL, in_a_narrow_queue, "the one slot of agent"),
    Injection(Cause.SLOTS_FULL, lambda _: "queue:narrow", "the one slot of agent"),
    Injection(Cause.SLOTS_FULL, agent_of, "slots of queue narrow are taken"),
    Injection(
        Cause.WRONG_QUEUE, lambda stage: stage.request("quick", queue="defualt"), "belongs to queue default"
    ),
    Injection(
        Cause.TYPE_NOT_KNOWN, lambda stage: stage.request("added"), "no agent of queue shared knows added"
    ),
    Injection(Cause.TYPE_NOT_KNOWN, lambda _: "type:added", "no agent of queue shared knows added"),
    Injection(Cause.BREAKER_OPEN, behind_a_breaker, "held back by dependency:billing-api"),
    Injection(Cause.QUEUE_REFUSES, too_long, "queue tiny refuses messages"),
    Injection(Cause.JOB_TYPE_UNKNOWN, rejected(17, "nonesuch", {}), "'nonesuch'"),
    Injection(Cause.ARGUMENTS_REFUSED, rejected(18, "needs", {}), "expected 'path', got none"),
    Injection(Cause.SCHEMA_UNKNOWN, of_an_unknown_version, "got 'v9'"),
    Injection(Cause.CLOCK_SKEW, with_a_fast_clock, "a clock that is"),
    Injection(Cause.DELAYED, repeated_with_other_content, "its request delays it"),
    Injection(Cause.NEVER_SEEN, lambda _: "order-99", "no scheduler has accepted"),
    Injection(Cause.NEVER_SEEN, lambda _: "schedule:nonesuch", "no schedule of this name"),
    Injection(Cause.PRUNED, pruned, "retention has deleted it"),
    Injection(Cause.SCHEDULE_PAUSED, paused, "it is paused"),
    Injection(Cause.SCHEDULE_REFUSED, in_a_circle, "it was put and refused"),
    Injection(Cause.TICK_SKIPPED, overlapping, "the job of an earlier tick is not over"),
    Injection(Cause.TICK_WAITS, queueing, "the job of an earlier tick is not over"),
    Injection(Cause.SCHEDULE_OVER, limited, "max_runs"),
    Injection(Cause.TICK_REJECTED, triggered_without_its_argument, "expected 'path', got none"),
    Injection(
        Cause.SCHEDULE_PAUSED,
        lambda stage: stage.put("nightly.always-refused", job_type="needs"),
        "its last 10 ticks were rejected: arguments: expected 'path', got none",
    ),
    Injection(
        Cause.NEXT_TICK,
        lambda stage: stage.put("nightly.fine", IntervalRule(every=timedelta(hours=1))),
        "its next tick is due in",
    ),
    Injection(
        Cause.EVENT_AWAITED,
        lambda stage: stage.put("after.fails", AfterRule(upstreams=(Upstream(job_type="fails"),))),
        "waits for an event",
    ),
    Injection(Cause.TYPE_SERVED, lambda _: "type:quick", "free slots"),
)


@pytest.mark.parametrize(
    "injection", INJECTIONS, ids=[f"{each.cause}-{n}" for n, each in enumerate(INJECTIONS)]
)
def test_an_injected_cause_is_explained(stage: Stage, injection: Injection) -> None:
    subject = injection.inject(stage)
    seen: list[dict[str, Any]] = []

    def explained() -> dict[str, Any] | None:
        seen.append(stage.explain(subject))
        return seen[-1] if seen[-1]["cause"] == injection.cause else None

    try:
        found = until(explained, f"{subject} to be explained as {injection.cause}")
    except AssertionError:
        pytest.fail(f"expected {injection.cause}, got {json.dumps(seen[-1], indent=1)}")
    assert injection.phrase in found["sentence"]
    assert found["needs_action"] is (found["steps"][-1]["status"] == "blocked")
    assert found["steps"][-1]["detail"] == found["sentence"]


def test_the_job_page_and_the_doctor_agree(stage: Stage) -> None:
    job_id = stage.request("quick", queue="nobody")
    until(lambda: stage.explain(job_id)["cause"] == Cause.WRONG_QUEUE, "it to wait for an agent")
    sentence = stage.explain(job_id)["sentence"]
    page = json.loads(run_command(stage.warren, "job", job_id, "--json"))
    assert page["explanation"]["sentence"] == sentence
    assert page["next"] == page["explanation"]["next"]
    assert sentence in run_command(stage.warren, "job", job_id)
    ended = call_command(stage.warren, "doctor", "--json")
    results = {each["check"]: each for each in json.loads(ended.stdout)}
    assert ended.returncode == 1
    assert "no agent has ever served queue nobody" in results["queue nobody"]["message"]
    assert "no agent of queue shared knows added" in results["type added"]["message"]
    assert results["store writes"]["status"] == "ok"


def test_people_see_the_cause_first_and_the_steps_after_it(stage: Stage) -> None:
    job_id = stage.request("quick", delay="1h")
    until(lambda: stage.explain(job_id)["cause"] == Cause.DELAYED, "it to wait")
    lines = run_command(stage.warren, "explain", job_id).splitlines()
    assert lines[0].startswith(f"job {job_id}")
    assert lines[1].startswith("… its request delays it")
    assert any(line.startswith("✓  request") for line in lines)
