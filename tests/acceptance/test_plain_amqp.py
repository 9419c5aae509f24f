"""A request from a plain AMQP tool runs; one that cannot be understood is kept with its reason."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.acceptance.store_queries import job_types_of, parked_in, rows_of
from tests.acceptance.warren import Warren, until
from tests.broker_access import count_messages

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None, reason="amqp-publish is not here: install the package amqp-tools"
)

QUEUES = ("warrener.requests", "warrener.dead", "warrener.unroutable", "warrener.queue.default")
HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("hello.greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"
"""


@pytest.fixture(scope="module")
def greeting(shared_warren: Warren) -> Warren:
    """A warren that can greet, and whose scheduler has received the announcement."""
    (shared_warren.folder / "greeting.py").write_text(HANDLERS)
    shared_warren.start_all("greeting")
    until(lambda: "hello.greet" in job_types_of(shared_warren), "the job type to be announced")
    return shared_warren


def test_a_request_from_a_plain_tool_runs_once_though_it_comes_twice(greeting: Warren) -> None:
    for _ in range(2):
        publish(greeting, "hello.greet", request("order-17", name="Grace"))
    publish(greeting, "hello.greet", request("order-18", name="Ada"))
    finished(greeting, job_id_of("shop", "order-18"))
    job = finished(greeting, job_id_of("shop", "order-17"))
    assert (job.state, job.result, job.attempt) == (JobState.SUCCEEDED, "Hello, Grace!", 1)


def test_what_is_unreadable_is_parked_with_the_reason_and_stops_nothing(greeting: Warren) -> None:
    bad: dict[str, tuple[str, bytes]] = {
        "not_json": ("hello.greet", b'{"specversion": "1.0", '),
        "unknown_version": ("hello.greet", request("v2", kind="job.requested.v2", name="x")),
        "missing_id": ("hello.greet", request(None, name="x")),
        "bad_arguments": ("hello.greet", request("bad", name=7)),
        "unknown_job_type": ("hello.shout", request("shout", job_type="hello.shout", name="x")),
        "too_large": ("hello.greet", request("big", name="x" * 2 * 1024 * 1024)),
    }
    for key, body in bad.values():
        publish(greeting, key, body)
    publish(greeting, "hello.greet", request("after", name="Ada"))

    assert finished(greeting, job_id_of("shop", "after")).result == "Hello, Ada!"
    parked = until(lambda: len(found := parked_in(greeting)) >= len(bad) and found, "all to be parked")
    assert {message.reason: message.body for message in parked} == {
        reason: body for reason, (_, body) in bad.items()
    }, "kept as they came"
    assert all(message.detail for message in parked)
    until(
        lambda: not any(count_messages(greeting.broker_url, *QUEUES)), "no queue to hold a message that loops"
    )


def request(
    event_id: str | None, *, kind: str = "job.requested.v1", job_type: str = "hello.greet", **arguments: Any
) -> bytes:
    """The body that a person would type."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "source": "shop",
        "type": kind,
        "data": {"job_type": job_type, "arguments": arguments},
    }
    return json.dumps(event if event_id is None else {**event, "id": event_id}).encode()


def publish(warren: Warren, key: str, body: bytes) -> None:
    """By Debian's amqp-publish, which knows nothing of us."""
    file = Path(warren.folder, "body.json")
    file.write_bytes(body)
    where = ["--url", warren.broker_url, "--exchange", "warrener.requests", "--routing-key", key]
    command = ["amqp-publish", *where, "--persistent", "--content-type", "application/cloudevents+json"]
    with file.open("rb") as source:
        subprocess.run(command, stdin=source, check=True, timeout=30)


def finished(warren: Warren, job_id: UUID) -> JobRow:
    """The job once it is over."""

    def over() -> JobRow | None:
        job = rows_of(warren, [job_id]).get(job_id)
        return job if job and job.state.terminal else None

    return until(over, f"job {job_id} to finish")
