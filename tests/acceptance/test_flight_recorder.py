"""Point 5 of supervision, on real processes and a real broker: what was seen of an attempt before it was
killed is kept with it, and shown to whoever asks."""

from uuid import UUID

import pytest
from tests.acceptance.command_line import run_command
from tests.acceptance.store_queries import dead_letter_of, job_history, rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import JobCancelled, JobDied, SyncClient
from warrener_contracts.events import FlightRecord
from warrener_contracts.state_machine import JobState

MODULE = "tests.acceptance.hostile_handlers"


def shown(warren: Warren, job_id: UUID) -> str:
    """What `warrener job ID` says, wherever it breaks its lines."""
    return " ".join(run_command(warren, "job", str(job_id)).split())


def running(warren: Warren, job_id: UUID) -> bool:
    """Whether the store knows that it runs, and how far it is."""
    row = rows_of(warren, [job_id]).get(job_id)
    return row is not None and row.state is JobState.RUNNING and row.progress is not None


def test_5_what_was_seen_before_a_kill_is_in_the_attempt_the_dead_letter_and_the_command(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        assert client.request("short").result(timeout=60), "a child is warm"
        spins, waits = client.request("hostile.spins"), client.request("hostile.waits")
        with subtests.test("killed for its time"):
            with pytest.raises(JobDied):
                spins.result(timeout=60)
            killed(warren, spins.job_id)
        with subtests.test("cancelled, and a coroutine"):
            until(lambda: running(warren, waits.job_id), "it to run")
            client.cancel(waits.job_id, "enough")
            with pytest.raises(JobCancelled):
                waits.result(timeout=60)
            cancelled(warren, waits.job_id)


def killed(warren: Warren, job_id: UUID) -> None:
    """The record of a process that used a processor all the time."""
    _, (attempt,), _ = job_history(warren, job_id)
    dead_letter = dead_letter_of(warren, job_id)
    assert dead_letter.error is not None
    record = dead_letter.error.flight_record
    assert isinstance(record, FlightRecord)
    assert attempt.error == dead_letter.error
    assert (record.progress, record.progress_note) == (0.25, "spinning")
    assert "about to spin" in (record.log or "")
    assert "in spins" in (record.stacks or "")
    assert (record.processes, record.threads) == (1, 2)
    assert record.open_files
    assert (record.cpu_seconds or 0) > 0, "as much as the machine had for it"
    page = shown(warren, job_id)
    for part in ("last seen", "in spins", "about to spin", "progress 25% spinning", "of a processor"):
        assert part in page


def cancelled(warren: Warren, job_id: UUID) -> None:
    """The record of a coroutine that waits for somebody."""
    _, (attempt,), _ = job_history(warren, job_id)
    assert attempt.error is not None
    record = attempt.error.flight_record
    assert record is not None
    assert "in the_bank" in (record.stacks or "")
    assert record.progress == 0.75
    assert "in the_bank" in shown(warren, job_id)
