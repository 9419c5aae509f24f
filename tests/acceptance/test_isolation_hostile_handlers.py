"""Point 4 of supervision, on real processes and a real broker: whatever handlers do to their processes, they
are stopped in time and distinguished, and their neighbours in the same agent do not notice. Point 5: what was
seen of an attempt before it was killed is stored with it, and shown."""

from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from tests.acceptance.command_line import run_command
from tests.acceptance.hostile_handlers import LIMIT
from tests.acceptance.store_queries import dead_letter_of, job_history, rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import JobCancelled, JobDied, SyncClient, SyncJob
from warrener_contracts.events import ErrorInfo
from warrener_store.jobs.rows import AttemptRow

MODULE = "tests.acceptance.hostile_handlers"


def end_of(warren: Warren, job: SyncJob) -> tuple[AttemptRow, ErrorInfo]:
    """How the only attempt of a job has ended, once the job is dead."""
    with pytest.raises(JobDied):
        job.result(timeout=60)
    _, (attempt,), _ = job_history(warren, job.job_id)
    assert attempt.error is not None
    return attempt, attempt.error


def ran(attempt: AttemptRow) -> timedelta:
    """How long it ran, by its agent's clock."""
    assert attempt.started_at is not None
    return attempt.finished_at - attempt.started_at


def warm_up(client: SyncClient, here: Path, children: int) -> None:
    """So many children are there: what is timed is not the start of Python on a busy machine."""
    here.mkdir()
    arguments = {"here": str(here), "others": children}
    for job in [client.request("warm.up", arguments) for _ in range(children)]:
        job.result(timeout=120)


def living(pids: list[int]) -> list[int]:
    """Those of them that still run."""
    return [
        pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def shown(warren: Warren, job: SyncJob) -> str:
    """The page of a job, wherever the command breaks its lines."""
    return " ".join(run_command(warren, "job", str(job.job_id)).split())


def check_record_of_spinning(warren: Warren, job: SyncJob) -> None:
    """The record of a process that used a processor all the time."""
    _, (attempt,), _ = job_history(warren, job.job_id)
    assert attempt.error is not None
    assert attempt.error == dead_letter_of(warren, job.job_id).error
    record = attempt.error.flight_record
    assert record is not None
    assert (record.progress, record.progress_note) == (0.25, "spinning")
    assert "about to spin" in (record.log or "")
    assert (record.processes, record.threads) == (1, 2)
    assert record.open_files
    assert (record.cpu_seconds or 0) > 0, "as much as the machine had for it"
    page = shown(warren, job)
    for part in ("last seen", "in spins", "about to spin", "progress 25% spinning", "of a processor"):
        assert part in page


def check_cancelled_coroutine(warren: Warren, client: SyncClient, job: SyncJob) -> None:
    """The record of a coroutine that waits, once its progress is known and it is cancelled."""
    until(lambda: (row := rows_of(warren, [job.job_id]).get(job.job_id)) and row.progress, "it to run")
    client.cancel(job.job_id, "enough")
    with pytest.raises(JobCancelled):
        job.result(timeout=60)
    _, (attempt,), _ = job_history(warren, job.job_id)
    assert attempt.error is not None
    record = attempt.error.flight_record
    assert record is not None
    assert "in the_bank" in (record.stacks or "")
    assert record.progress == 0.75
    assert "in the_bank" in shown(warren, job)


def test_4_hostile_handlers_are_stopped_in_time_and_distinguished_and_their_neighbours_do_not_notice(
    warren: Warren, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    warren.start_all(MODULE, slots=20)
    over, pids = tmp_path / "over", tmp_path / "pids"
    with SyncClient(warren.broker_url) as client:
        warm_up(client, tmp_path / "warm", 8)
        neighbours = [
            client.request(job_type, {"until": str(over)})
            for job_type in ("neighbour.coroutine", "neighbour.process")
        ]
        hanging = {
            "hostile.spins": (client.request("hostile.spins"), "in spins"),
            "hostile.sleeps": (client.request("hostile.sleeps"), "in sleeps"),
            "hostile.forks": (client.request("hostile.forks", {"pids": str(pids)}), "in forks"),
            "hostile.program": (client.request("hostile.program"), "sleep 600"),
        }
        greedy, waits = client.request("hostile.allocates"), client.request("hostile.waits")
        deaths = {how: client.request("hostile.dies", {"how": how}) for how in ("SIGSEGV", "SIGKILL", "7")}
        for name, (job, where) in hanging.items():
            with subtests.test(name):
                attempt, error = end_of(warren, job)
                assert (error.kind, error.type) == ("timeout", "timeout")
                assert ran(attempt) >= LIMIT, "and no handler would have ended by itself"
                record = error.flight_record
                assert record is not None
                assert where in (record.stacks or "")
                assert record.memory_bytes
        with subtests.test("what was seen of a process"):
            check_record_of_spinning(warren, hanging["hostile.spins"][0])
        with subtests.test("what was seen of a coroutine"):
            check_cancelled_coroutine(warren, client, waits)
        with subtests.test("hostile.allocates"):
            attempt, error = end_of(warren, greedy)
            assert (error.kind, error.type) == ("crash", "OutOfMemory")
            record = error.flight_record
            assert record is not None
            assert "in allocates" in (record.stacks or "")
            assert record.processes == 4
            assert (record.memory_bytes or 0) > 256 << 20
        for how, job in deaths.items():
            with subtests.test(f"hostile.dies by {how}"):
                _, error = end_of(warren, job)
                assert (error.kind, error.type) == ("crash", "ExitCode" if how == "7" else how)
                assert error.flight_record is not None
                assert f"about to die by {how}" in (error.flight_record.log or "")
        with subtests.test("nothing of them is left"):
            began = [int(pid) for pid in pids.read_text().split()]
            assert len(began) == 2
            until(lambda: not living(began), "the forks to be gone")
        with subtests.test("their neighbours"):
            over.touch()
            held_up = [neighbour.result(as_=float, timeout=60) for neighbour in neighbours]
            assert max(held_up) < LIMIT.total_seconds(), "never for as long as a hostile one was at work"
            for neighbour in neighbours:
                row, attempts, _ = job_history(warren, neighbour.job_id)
                assert (row.attempt, row.failures, row.losses) == (1, 0, 0), attempts
            assert client.request("short").result(timeout=60), "the agent goes on"
            assert all(service.process.poll() is None for service in warren.services)
