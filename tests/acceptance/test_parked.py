"""Parked messages are sent in again once the cause is mended, or dropped."""

import json
from collections import Counter

import pytest
from tests.acceptance.command_line import run_json, start
from tests.acceptance.store_queries import look, rows_of
from tests.acceptance.warren import Warren, until
from tests.broker_access import publish

from warrener_client import JobSpec, RequestRejected, SyncClient
from warrener_contracts.codec import decode
from warrener_contracts.messages import EVENT_TYPE
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS
from warrener_store.parked.rows import ParkedMessage

MODULE = "tests.acceptance.many_handlers"
EARLY = 130
NONSENSE = 230  # more than one event names


def parked(warren: Warren) -> list[ParkedMessage]:
    """All that is parked."""
    return look(warren, lambda store: store.parked(limit=1000))


def counted(warren: Warren) -> Counter[str]:
    """How many events or messages are parked, by reason; many that are alike share a row."""
    found: Counter[str] = Counter()
    for message in parked(warren):
        found[message.reason] += len(decode(message.body, message.content_type))
    return found


def test_what_was_parked_is_sent_in_again_once_the_cause_is_mended(warren: Warren) -> None:
    """Requests that came before any agent had announced their type, and messages that nothing can mend."""
    warren.start("scheduler")
    warren.start("supervisor")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        jobs = client.request_batch([JobSpec("many") for _ in range(EARLY)])
        unreadable = (f"nonsense {number}".encode() for number in range(NONSENSE))
        publish(warren.broker_url, REQUESTS, "many", *unreadable)
        all_of_it = {"unknown_job_type": EARLY, "not_json": NONSENSE}
        until(lambda: counted(warren) == all_of_it, "all to be parked")
        with pytest.raises(RequestRejected):
            jobs[0].result(timeout=30)
        chosen = ("parked", "requeue", "--reason", "unknown_job_type")
        assert run_json(warren, *chosen)["total"]
        assert counted(warren) == all_of_it, "a dry run does nothing"
        with start(warren, *chosen, "--yes", "--json", "--timeout", "100") as command:
            assert json.loads(command.communicate(timeout=150)[0])["details"]["left"] == []
        until(lambda: counted(warren) == all_of_it, "all to be parked again: the cause is not mended")

        warren.start("agent", MODULE)
        warren.wait_ready()  # its announcement requeues them, without a person

    def all_done() -> bool:
        found = rows_of(warren, [job.job_id for job in jobs])
        return len(found) == EARLY and all(row.state is JobState.SUCCEEDED for row in found.values())

    until(all_done, "the jobs to succeed")
    assert counted(warren) == {"not_json": NONSENSE}
    event = {"specversion": "1.0", "type": "job.requested.v1", "source": "shop", "id": "1"}
    no_id = {name: value for name, value in event.items() if name != "id"}
    bad = {
        "unknown_version": json.dumps(event | {"type": "job.requested.v2"}),
        "missing_id": json.dumps(no_id | {"data": {"job_type": "many"}}),
        "bad_arguments": json.dumps(event | {"data": {"job_type": "many", "arguments": {"unlucky": "x"}}}),
        "too_large": json.dumps(event | {"data": {"job_type": "many", "arguments": {"x": "x" * 2**21}}}),
    }
    for body in bad.values():
        publish(warren.broker_url, REQUESTS, "many", body.encode(), content_type=EVENT_TYPE)
    until(
        lambda: bad == {one.reason: one.body.decode() for one in parked(warren) if one.reason in bad},
        "each to be parked as it came",
    )
    gone = run_json(warren, "parked", "drop", "--reason", "not_json", "--yes")
    assert (gone["details"]["done"], counted(warren)) == (NONSENSE, dict.fromkeys(bad, 1))
