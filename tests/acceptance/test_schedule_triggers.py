"""Schedules that wait for events and for other jobs: real schedulers, a real broker, plain AMQP clients.

Each event has one job, and each set of ends has one, though schedulers are killed in between and events are
told again.
"""

import asyncio
import json
from collections.abc import Collection, Iterable
from datetime import timedelta
from uuid import UUID

import aiormq
import pytest
from aiormq.abc import ArgumentsType
from pamqp.commands import Basic
from tests.acceptance.store_queries import job_types_of, tick_history
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.schedule_rules import CronRule, Rule
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import AfterRule, Condition, ConditionOperator, EventRule, Upstream
from warrener_store import open_store
from warrener_store.jobs.rows import JobRow

MODULE = "step_jobs"
JOBS = """
from typing import Any

from warrener_agent import Agent

agent = Agent()


@agent.job("load")
async def load(event: dict[str, Any]) -> Any:
    return event["data"]["flight"]


@agent.job("step.a")
async def a() -> None:
    pass


@agent.job("step.b")
async def b() -> None:
    pass


@agent.job("step.c")
async def c() -> None:
    pass
"""
NEVER = CronRule(expression="0 0 29 2 *")
FLIGHTS = 20


@pytest.fixture(scope="module")
def running(shared_warren: Warren) -> Warren:
    """A scheduler, a supervisor and an agent; a second scheduler comes in time."""
    (shared_warren.folder / f"{MODULE}.py").write_text(JOBS, encoding="utf-8")
    shared_warren.start_all(MODULE)
    # One scheduler takes announcements and requests in their order; the second might take a request earlier.
    until(lambda: {"load", "step.a"} <= {*job_types_of(shared_warren)}, "the job types to be announced")
    shared_warren.start("scheduler")
    return shared_warren


def kill_schedulers(warren: Warren) -> None:
    """kill -9 of all of them."""
    for service in warren.services:
        if service.name == "scheduler" and service.process.poll() is None:
            service.kill()


def put(warren: Warren, name: str, rule: Rule, job_type: str) -> None:
    with SyncClient(warren.broker_url) as client:
        client.put_schedules([SchedulePutData(name=name, rule=rule, job_type=job_type)])
    until(lambda: asyncio.run(_is_put(warren, name)), f"schedule {name} to be there")


async def _is_put(warren: Warren, name: str) -> bool:
    """What brings its events is bound before."""
    store = open_store(warren.store_url)
    await store.start()
    try:
        return name in await store.schedules([name])
    finally:
        await store.close()


def trigger(warren: Warren, name: str) -> None:
    with SyncClient(warren.broker_url) as client:
        client.trigger_schedule(name, "the story begins")


def publish(warren: Warren, exchange: str, key: str, flights: Iterable[tuple[int, str]]) -> None:
    """As a client of any language would: JSON with a message id, to an exchange of its own or to ours."""
    asyncio.run(_publish(warren.broker_url, exchange, key, list(flights)))


async def _publish(url: str, exchange: str, key: str, flights: list[tuple[int, str]]) -> None:
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        for flight, country in flights:
            body = json.dumps({"flight": flight, "country": country}).encode()
            properties = Basic.Properties(message_id=f"{exchange}-{key}-{flight}", delivery_mode=2)
            await channel.basic_publish(body, exchange=exchange, routing_key=key, properties=properties)
    finally:
        await connection.close()


async def _declare(url: str, exchange: str) -> None:
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        arguments: ArgumentsType = {}
        await channel.exchange_declare(exchange, exchange_type="topic", durable=True, arguments=arguments)
    finally:
        await connection.close()


def jobs_of(warren: Warren, name: str) -> dict[UUID, JobRow]:
    """The jobs that a schedule has asked for."""
    ids = {tick.job_id for tick in tick_history(warren, name) if tick.job_id is not None}

    async def fetch(ids: Collection[UUID]) -> dict[UUID, JobRow]:
        store = open_store(warren.store_url)
        await store.start()
        try:
            return await store.jobs_by_id(ids)
        finally:
            await store.close()

    return asyncio.run(fetch(ids))


def until_done(warren: Warren, name: str, count: int) -> list[JobRow]:
    """Until so many jobs of a schedule have succeeded: never more."""

    def done() -> list[JobRow] | None:
        rows = list(jobs_of(warren, name).values())
        assert len(rows) <= count, f"{name} has asked for too many"
        return rows if [row.state for row in rows] == [JobState.SUCCEEDED] * count else None

    return until(done, f"{count} jobs of {name}", within=120)


@pytest.mark.timeout(300)
def test_each_event_of_a_plain_client_has_one_job_though_schedulers_are_killed(running: Warren) -> None:
    asyncio.run(_declare(running.broker_url, "airport"))
    german = (Condition(path="data.country", check=ConditionOperator.ONE_OF, value=["DE", "DDR"]),)
    rule = EventRule(exchange="airport", key="landed.*", where=german, event_argument="event")
    put(running, "landings", rule, "load")
    put(running, "notices", EventRule(key="notice.#", event_argument="event"), "load")
    flights = [(number, "DE" if number % 2 else "US") for number in range(FLIGHTS)]
    wanted = [number for number, country in flights if country == "DE"]

    publish(running, "airport", "landed.jfk", flights[:10])
    kill_schedulers(running)
    publish(running, "airport", "landed.jfk", flights)  # ten of them again
    publish(running, "airport", "started.jfk", flights)
    publish(running, "warrener.events", "notice.of.delay", flights[:3] * 2)
    running.start("scheduler")
    running.start("scheduler")

    done = until_done(running, "landings", len(wanted))
    assert sorted(row.arguments["event"]["data"]["flight"] for row in done) == wanted
    until_done(running, "notices", 3)
    assert {row.status for row in tick_history(running, "landings")} == {"fired"}
    assert len(tick_history(running, "landings")) == len(wanted), "a repeat has no tick"
    assert all(row.reason.startswith("event airport-landed") for row in tick_history(running, "landings"))


@pytest.mark.timeout(300)
def test_a_burst_has_one_job_though_the_schedulers_are_killed_within(running: Warren) -> None:
    rule = EventRule(key="burst", debounce=timedelta(seconds=15), event_argument="event")
    put(running, "burst", rule, "load")
    publish(running, "warrener.events", "burst", [(number, "DE") for number in range(3)])
    until(lambda: asyncio.run(_has_pending_events(running, "burst")), "the burst to be heard")
    kill_schedulers(running)
    publish(running, "warrener.events", "burst", [(number, "DE") for number in range(5)])
    running.start("scheduler")
    until(
        lambda: len(tick_history(running, "burst")) == 5,
        "each event to stand in the tick history",
        within=120,
    )
    ticks = tick_history(running, "burst")
    fired = [tick for tick in ticks if tick.status is TickStatus.FIRED]
    assert 1 <= len(fired) <= 2, "two where those away were away for longer than a burst"
    assert {tick.status for tick in ticks if tick not in fired} == {TickStatus.COALESCED}
    assert [tick for tick in ticks if tick.job_id is not None] == fired
    until_done(running, "burst", len(fired))  # a tick is stored before its request is published


async def _has_pending_events(warren: Warren, name: str) -> bool:
    store = open_store(warren.store_url)
    await store.start()
    try:
        return bool(await store.triggers.arrivals_of(name)) or bool(await store.ticks_of(name))
    finally:
        await store.close()


@pytest.mark.timeout(300)
def test_a_chain_and_one_after_all_of_several_have_one_job_each_though_schedulers_are_killed(
    running: Warren,
) -> None:
    both = (Upstream(schedule="chain.b"), Upstream(job_type="step.c"))
    put(running, "chain.a", NEVER, "step.a")
    put(running, "chain.b", AfterRule(upstreams=(Upstream(schedule="chain.a"),)), "step.b")
    put(running, "chain.c", AfterRule(upstreams=(Upstream(job_type="step.b"),)), "step.c")
    put(running, "chain.all", AfterRule(upstreams=both, within=timedelta(minutes=10)), "step.a")

    trigger(running, "chain.a")
    until_done(running, "chain.a", 1)
    kill_schedulers(running)
    running.start("scheduler")
    running.start("scheduler")
    until_done(running, "chain.b", 1)
    kill_schedulers(running)
    running.start("scheduler")
    until_done(running, "chain.c", 1)
    until_done(running, "chain.all", 1)
    (tick,) = tick_history(running, "chain.all")
    assert tick.reason == "after schedule:chain.b, step.c"
    assert [len(tick_history(running, f"chain.{name}")) for name in ("a", "b", "c")] == [1, 1, 1]
