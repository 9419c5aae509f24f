"""Groups and chains as a client requests them: one message of plain JSON."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from warrener_client import (
    BadRequest,
    ChainStep,
    Client,
    GroupMember,
    GroupResult,
    PolicyOverrides,
    SyncClient,
)
from warrener_client.testing import StandIn
from warrener_contracts.canvas import CHAIN, GROUP, MAX_MEMBERS
from warrener_contracts.events import JsonObject
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus


def count_members(given: JsonObject) -> JsonObject:
    return {"succeeded": len(given["members"]), "failed": 0}


async def test_members_are_models_or_mappings_and_arrive_as_they_were_given() -> None:
    broker = MemoryBroker()
    async with (
        StandIn(MemoryBus(broker), {GROUP: count_members}) as warren,
        Client(bus=MemoryBus(broker)) as client,
    ):
        job = await client.request_group(
            [
                GroupMember(
                    job_type="flights.load",
                    arguments={"path": Path("2013-01-01.csv"), "day": None},
                    policy=PolicyOverrides(max_attempts=2),
                    delay=timedelta(seconds=90),
                ),
                {"job_type": "flights.load", "key": "second", "policy": {"timeout": "30s"}},
            ],
            in_flight=10,
            then={"job_type": "flights.report", "result_argument": "rows"},
            id="the-day",
            queue="slow",
        )
        assert (await job.result(as_=GroupResult, timeout=60)).succeeded == 2
    [request] = warren.requests
    assert (request.id, request.data.queue) == ("the-day", "slow")
    [first, second] = request.data.arguments["members"]
    assert first["arguments"] == {"path": "2013-01-01.csv", "day": None}
    assert (first["policy"]["max_attempts"], first["delay"]) == (2, "PT1M30S")
    assert (second["key"], second["policy"]["timeout"]) == ("second", "PT30S")
    assert "queue" not in first
    assert request.data.arguments["in_flight"] == 10
    assert request.data.arguments["then"]["result_argument"] == "rows"


def test_a_chain_is_requested_without_an_event_loop() -> None:
    broker = MemoryBroker()
    with SyncClient(bus=MemoryBus(broker)) as client:
        warren = StandIn(
            MemoryBus(broker), {CHAIN: lambda given: [one["job_type"] for one in given["steps"]]}
        )
        client._loop.run(warren.__aenter__())
        job = client.request_chain(
            [ChainStep(job_type="flights.load"), {"job_type": "flights.report", "result_argument": "rows"}]
        )
        assert job.result(timeout=60) == ["flights.load", "flights.report"]
        client._loop.run(warren.__aexit__(None, None, None))


LOAD: dict[str, Any] = {"job_type": "flights.load"}
MISTAKES: list[tuple[Callable[[Client], Any], str]] = [
    (lambda client: client.request_group([LOAD, {}]), r"members\.1\.job_type: Field required"),
    (lambda client: client.request_group([LOAD | {"args": [1]}]), r"members\.0\.args: Extra inputs"),
    (
        lambda client: client.request_group([LOAD | {"arguments": [1]}]),
        r"members\.0\.arguments: .* got \[1\]",
    ),
    (
        lambda client: client.request_group([LOAD | {"policy": {"max": 1}}]),
        r"members\.0\.policy: .*, got max",
    ),
    (lambda client: client.request_group([LOAD] * (MAX_MEMBERS + 1)), "members: .*at most 1900"),
    (lambda client: client.request_group([LOAD], in_flight=0), "in_flight: .*, got 0"),
    (
        lambda client: client.request_group([LOAD], then={"job_type": "no type"}),
        r"then\.job_type: .* 'no type'",
    ),
    (lambda client: client.request_group([LOAD | {"arguments": {"x": {1, object()}}}]), "JSON can carry"),
    (lambda client: client.request_chain([LOAD, LOAD | {"key": "x"}]), r"steps\.1\.key: Extra inputs"),
    (lambda client: client.request_chain([]), "steps: .*at least 1"),
]


@pytest.mark.parametrize(("request_it", "named"), MISTAKES)
async def test_a_mistake_is_refused_before_anything_is_sent(
    request_it: Callable[[Client], Any], named: str
) -> None:
    async with Client(bus=MemoryBus(MemoryBroker())) as client:
        with pytest.raises(BadRequest, match=named):
            await request_it(client)
