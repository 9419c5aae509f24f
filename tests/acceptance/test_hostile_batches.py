"""What one message may cost is bounded: ten batches of half a million wrong elements hold nobody up."""

import json

from tests.acceptance.store_queries import parked_in, rows_of
from tests.acceptance.warren import Warren, until
from tests.broker_access import publish

from warrener_client import JobSpec, SyncClient
from warrener_contracts.messages import BATCH_TYPE
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS

MODULE = "tests.acceptance.many_handlers"
ELEMENTS = 524_000
BATCHES = 10
JOBS = 100


def test_ten_batches_of_half_a_million_wrong_elements_are_ten_parked_messages(warren: Warren) -> None:
    warren.start_all(MODULE)
    scheduler = warren.services[0]

    with SyncClient(warren.broker_url) as client:
        batches = [batch(number) for number in range(BATCHES)]
        publish(warren.broker_url, REQUESTS, "many", *batches, content_type=BATCH_TYPE)
        requested = [one.job_id for one in client.request_many(JobSpec("many") for _ in range(JOBS))]
        until(
            lambda: [row.state for row in rows_of(warren, requested).values()] == [JobState.SUCCEEDED] * JOBS,
            "the good jobs to succeed",
        )

    parked = until(lambda: len(found := parked_in(warren)) >= BATCHES and found, "the batches to be parked")
    assert [(one.queue, one.reason) for one in parked] == [("warrener.requests", "too_large")] * BATCHES
    assert sorted(one.body for one in parked) == batches
    assert len(scheduler.log.read_text().splitlines()) < 100, "a line for a batch, none for an element"


def batch(digit: int) -> bytes:
    """Ten of these differ, so each is a row of its own."""
    return json.dumps([digit] * ELEMENTS, separators=(",", ":")).encode()
