"""Schedules that wait for events: real schedulers, a real broker, plain AMQP clients.

Bursts, chains and sets of ends are proved in virtual time, a scheduler struck at each of its calls:
`tests/simulation/test_triggers_crash.py`.
"""

import json
from collections.abc import Iterable

import pytest
from tests import broker_access
from tests.acceptance.store_queries import job_types_of, look, rows_of, tick_history
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import Condition, ConditionOperator, EventRule
from warrener_store.jobs.rows import JobRow

MODULE = "step_jobs"
JOBS = """
from typing import Any

from warrener_agent import Agent

agent = Agent()


@agent.job("load")
async def load(event: dict[str, Any]) -> Any:
    return event["data"]["flight"]
"""
FLIGHTS = 20


@pytest.fixture(scope="module")
def stepping(shared_warren: Warren) -> Warren:
    """A scheduler, a supervisor and an agent; a second scheduler comes in time."""
    (shared_warren.folder / f"{MODULE}.py").write_text(JOBS, encoding="utf-8")
    shared_warren.start_all(MODULE)
    # One scheduler takes announcements and requests in their order; the second might take a request earlier.
    until(lambda: "load" in job_types_of(shared_warren), "the job type to be announced")
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
    # What brings its events is bound before.
    until(lambda: look(warren, lambda store: store.schedules([name])), f"schedule {name} to be there")


def publish(warren: Warren, exchange: str, key: str, flights: Iterable[tuple[int, str]]) -> None:
    """As a client of any language would: JSON with a message id, to an exchange of its own or to ours."""
    for flight, country in flights:
        body = json.dumps({"flight": flight, "country": country}).encode()
        broker_access.publish(warren.broker_url, exchange, key, body, message_id=f"{exchange}-{key}-{flight}")


def until_done(warren: Warren, name: str, count: int) -> list[JobRow]:
    """Until so many jobs of a schedule have succeeded: never more."""

    def done() -> list[JobRow] | None:
        ids = [tick.job_id for tick in tick_history(warren, name) if tick.job_id is not None]
        rows = list(rows_of(warren, ids).values())
        assert len(rows) <= count, f"{name} has asked for too many"
        return rows if [row.state for row in rows] == [JobState.SUCCEEDED] * count else None

    return until(done, f"{count} jobs of {name}", within=120)


@pytest.mark.timeout(300)
def test_each_event_of_a_plain_client_has_one_job_though_schedulers_are_killed(stepping: Warren) -> None:
    broker_access.on_broker(
        stepping.broker_url,
        lambda channel: channel.exchange_declare("airport", exchange_type="topic", durable=True),
    )
    german = (Condition(path="data.country", check=ConditionOperator.ONE_OF, value=["DE", "DDR"]),)
    rule = EventRule(exchange="airport", key="landed.*", where=german, event_argument="event")
    put(stepping, "landings", rule, "load")
    put(stepping, "notices", EventRule(key="notice.#", event_argument="event"), "load")
    flights = [(number, "DE" if number % 2 else "US") for number in range(FLIGHTS)]
    wanted = [number for number, country in flights if country == "DE"]

    publish(stepping, "airport", "landed.jfk", flights[:10])
    kill_schedulers(stepping)
    publish(stepping, "airport", "landed.jfk", flights)  # ten of them again
    publish(stepping, "airport", "started.jfk", flights)
    publish(stepping, "warrener.events", "notice.of.delay", flights[:3] * 2)
    stepping.start("scheduler")
    stepping.start("scheduler")

    done = until_done(stepping, "landings", len(wanted))
    assert sorted(row.arguments["event"]["data"]["flight"] for row in done) == wanted
    until_done(stepping, "notices", 3)
    assert {row.status for row in tick_history(stepping, "landings")} == {"fired"}
    assert len(tick_history(stepping, "landings")) == len(wanted), "a repeat has no tick"
    assert all(row.reason.startswith("event airport-landed") for row in tick_history(stepping, "landings"))
