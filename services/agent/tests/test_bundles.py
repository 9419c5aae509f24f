"""How outcomes are bundled into messages."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from warrener_agent.bundles import bundled
from warrener_contracts.codec import Readable, decode
from warrener_contracts.events import (
    AttemptReleased,
    AttemptReleasedData,
    AttemptSucceeded,
    AttemptSucceededData,
    Event,
)
from warrener_contracts.topology import MAX_BODY

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def succeeded(result: str, job_type: str = "a.b") -> AttemptSucceeded:
    data = AttemptSucceededData(
        job_id=uuid4(),
        attempt=1,
        job_type=job_type,
        agent_id="ada",
        started_at=NOW,
        finished_at=NOW,
        result=result,
        recorded_attempt=1,
    )
    return AttemptSucceeded(id=str(uuid4()), source="test", data=data)


def released() -> AttemptReleased:
    data = AttemptReleasedData(job_id=uuid4(), attempt=1, job_type="a.b", agent_id="ada", reason="drained")
    return AttemptReleased(id=str(uuid4()), source="test", data=data)


def test_events_of_one_routing_key_go_together_in_order_and_each_goes_once() -> None:
    told: list[Event[Any]] = [
        succeeded("1"),
        released(),
        succeeded("2"),
        succeeded("3", "c.d"),
        succeeded("4"),
    ]
    letters = bundled(told)
    keys = {letter.routing_key: _events(letter.body, letter.content_type) for letter in letters}
    assert keys == {
        "attempt.released.a.b": [told[1]],
        "attempt.succeeded.a.b": [told[0], told[2], told[4]],
        "attempt.succeeded.c.d": [told[3]],
    }
    assert bundled([]) == []


def test_no_bundle_is_larger_than_a_body_may_be() -> None:
    told = [*(succeeded("x" * 300_000) for _ in range(7)), succeeded("y" * (MAX_BODY - 1000))]
    letters = bundled(told)
    assert all(len(letter.body) <= MAX_BODY for letter in letters)
    assert [one for letter in letters for one in _events(letter.body, letter.content_type)] == told
    assert len(letters) < len(told)


def _events(body: bytes, content_type: str) -> list[Event[Any]]:
    return [found.event for found in decode(body, content_type) if isinstance(found, Readable)]
