"""However much stands in the messages of a batch, the event loop runs while they are read."""

import asyncio
import json
from typing import NamedTuple

from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, encode


class DeliveredMessage(NamedTuple):
    """A message as a queue delivers it."""

    body: bytes
    content_type: str | None


def request(number: int) -> bytes:
    """A request that is fine."""
    return encode(JobRequested(id=f"r-{number}", source="test", data=JobRequestedData(job_type="a.b")))


GOOD = DeliveredMessage(b"[" + b",".join(request(number) for number in range(1000)) + b"]", BATCH_TYPE)
BAD = DeliveredMessage(json.dumps([{"number": number} for number in range(2000)]).encode(), BATCH_TYPE)


async def test_all_are_read_as_decode_reads_them() -> None:
    messages = [DeliveredMessage(request(0), EVENT_TYPE), GOOD, BAD, DeliveredMessage(b"", None)]
    read = await decode_all(messages)
    assert [message for message, _ in read] == messages
    for message, found in read:
        expected = decode(message.body, message.content_type)
        assert [(type(one), one.body) for one in found] == [(type(one), one.body) for one in expected]


async def test_the_limits_are_those_that_were_given() -> None:
    ((_, found),) = await decode_all([GOOD], max_events=999)
    assert [type(one) for one in found] == [DecodeFailure]
    ((_, found),) = await decode_all([GOOD], limit=len(GOOD.body) - 1)
    assert [type(one) for one in found] == [DecodeFailure]
    ((_, found),) = await decode_all([GOOD])
    assert {type(one) for one in found} == {DecodedEvent}


async def test_the_event_loop_runs_meanwhile() -> None:
    turns = 0
    reading = asyncio.create_task(decode_all([BAD] * 3))
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 3 * 2000 // 250, "at least once in so many elements"
