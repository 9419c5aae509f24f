"""Point 6 of supervision, on real processes and a real broker: progress, as often as an eye can follow."""

from pathlib import Path

import pytest
from tests.acceptance.event_tap import EventTap
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import Warren, until
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_client import SyncClient
from warrener_contracts import topology
from warrener_contracts.events import AttemptProgressed

MODULE = "tests.acceptance.steered_handlers"


@pytest.mark.parametrize("where", ["coroutine", "thread", "process"])
def test_6_progress_is_published_as_an_eye_can_follow_and_the_last_value_arrives(
    running: Warren, where: str
) -> None:
    gate = Path(running.folder, f"gate-{where}")
    make_gate(gate)
    tap = EventTap(running.broker_url, topology.STATUS, "attempt.progressed.#")
    with SyncClient(running.broker_url) as client:
        job = client.request(f"talks.{where}", {"gate": str(gate)})

        def last_progress() -> bool:
            row = rows_of(running, [job.job_id]).get(job.job_id)
            return row is not None and (row.progress, row.progress_note) == (0.8, "the last word")

        until(last_progress, "the last of 20,000 reports to be in the store")
        shown = CliRunner().invoke(app, ["job", str(job.job_id), "--store", running.store_url])
        assert "80% the last word" in shown.stdout
        open_gate(gate)
        job.result(timeout=60)

    events = tap.received(AttemptProgressed)
    assert {event.data.job_id for event in events} == {job.job_id}
    times = [event.time for event in events if event.time is not None]
    seconds = (times[-1] - times[0]).total_seconds()
    assert len(times) <= seconds / 0.9 + 2, f"{len(times)} messages in {seconds} s"
