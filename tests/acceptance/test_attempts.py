"""Attempts on real processes and a real broker: timeouts, log lines, checkpoints, cancels, and the drain of
agents.

That a cancel holds at any moment (G2) is proved in virtual time, by `tests/simulation/test_cancel_races.py`
and `test_ended_jobs.py`; of what waits, and of trees, by `services/supervisor/tests/test_commands.py`. The
lines of each kind of handler, and a flood of them, are proved by `services/agent/tests/test_logs.py`; how
they are shown by `services/console/tests/command/test_jobs.py`. A job that waits too long in its queue is
proved in virtual time, by `tests/simulation/test_backlog.py`; one that its agent stops in time by
`services/agent/tests/executors/test_limits.py`, one whose agent is frozen by `test_agent_frozen.py`.
"""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.command_line import run_command, run_json, start
from tests.acceptance.event_tap import EventTap
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.run_notes import Run, runs_in
from tests.acceptance.store_queries import find_job, job_history, look, rows_of
from tests.acceptance.warren import ServiceProcess, Warren, until

from warrener_client import JobCancelled, JobExpired, SyncClient, SyncJob
from warrener_contracts.events import AttemptTimedOut, ErrorKind, JobDeadlinePassed
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import STATUS
from warrener_store.jobs.rows import AttemptOutcome, JobRow

# -- point 2 of supervision: what is timed out is stopped before it is called so ------------------------


TIMED = "tests.acceptance.agent_handlers:timed"

FORGETFUL = """
# The fault stands here and not in the product: in this agent nobody looks at the time.
from warrener_agent.run_table import Deadlines
Deadlines.watch = lambda self, run, over_at: None
from tests.acceptance.agent_handlers import unwatched as agent
"""


def test_2_what_runs_too_long_is_silent_or_too_old_is_stopped_before_it_is_called_so(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    (warren.folder / "forgetful.py").write_text(FORGETFUL)
    warren.start("scheduler")
    warren.start("supervisor", WARRENER_SUPERVISOR_TIMEOUT_GRACE="1")
    agent = warren.start("agent", TIMED)
    warren.start("agent", "forgetful")
    warren.wait_ready()
    tap = EventTap(warren.broker_url, STATUS)
    with SyncClient(warren.broker_url) as client:
        spins, silent = client.request("spins"), client.request("falls_silent")
        running = client.request("waits", expires_after="15s")  # it begins before
        waiting = client.request("waits", delay="1h", expires_after="3s")
        with subtests.test("it ran too long, and its agent did not see it: the supervisor has it killed"):
            _ran_too_long(warren, tap, spins)
        with subtests.test("silent too long, in an agent that lives"):
            _was_silent(warren, silent)
        with subtests.test("too old in all, it expires, whether it runs or waits"):
            assert runs_of(warren, running)
            for job in (running, waiting):
                with pytest.raises(JobExpired):
                    job.result(timeout=60)
            both = {running.job_id, waiting.job_id}
            assert {event.data.job_id for event in tap.received(JobDeadlinePassed)} >= both
            assert agent.end() == 0, "nothing of it runs any more"


def _ran_too_long(warren: Warren, tap: EventTap, job: SyncJob) -> None:
    until(lambda: tap.received(AttemptTimedOut), "the watchdog to say that it runs too long")
    row = until(lambda: no_longer_running(warren, job), "it to be called timed out")
    first = runs_of(warren, job)[0]  # the second may run by now
    assert not alive(first.pid), "dead before it was called so"
    assert (row.failures, row.losses) == (1, 0)
    assert job.result(timeout=60) == 2
    _, attempts, _ = job_history(warren, job.job_id)
    assert attempts[0].outcome is AttemptOutcome.TIMED_OUT
    assert attempts[0].error is not None
    assert "has stopped it on request" in attempts[0].error.message


def _was_silent(warren: Warren, job: SyncJob) -> None:
    assert job.result(timeout=90) == 2
    assert (warren.folder / "fell-silent").exists(), "while it says that it lives it is not stopped"
    first, _ = runs_of(warren, job)
    assert not alive(first.pid), "it was killed"
    row, [silent, _], _ = job_history(warren, job.job_id)
    assert row.failures == 1
    assert silent.error is not None
    assert silent.error.kind is ErrorKind.TIMEOUT
    assert "heartbeat_timeout of 12 s" in silent.error.message
    assert silent.error.flight_record is not None
    assert "in falls_silent" in (silent.error.flight_record.stacks or "")


def runs_of(warren: Warren, job: SyncJob) -> list[Run]:
    return [run for run in runs_in(warren.folder) if run.job_id == job.job_id]


def no_longer_running(warren: Warren, job: SyncJob) -> JobRow | None:
    row, _ = find_job(warren, job.job_id)
    return row if row.state is not JobState.RUNNING and row.failures else None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- point 10 of seeing: the log lines of attempts are stored and followed ------------------------------


def test_10_lines_are_followed_live_and_those_of_a_killed_agent_are_stored_but_for_the_last_second(
    warren: Warren,
) -> None:
    warren.start_all("tests.acceptance.agent_handlers:logged")
    gate = Path(warren.folder, "gate")
    make_gate(gate)
    with SyncClient(warren.broker_url) as client:
        job = client.request("logs.waits", {"gate": str(gate)})
        with start(warren, "job", str(job.job_id), "--follow") as command:
            assert command.stdout is not None
            for text in ("waiting", "the gate is open"):
                assert any(text in line for line in iter(command.stdout.readline, "")), "while the job runs"
                open_gate(gate)
            rest, _ = command.communicate(timeout=60)
        assert "succeeded" in rest.splitlines()[-1]
        assert command.returncode == 0
        words = ("job", str(client.request("logs.hangs").job_id), "--logs")
        until(lambda: run_json(warren, *words)["lines"], "its line to be stored")
        warren.services[-1].kill()
        page = run_json(warren, *words)
    assert [line["text"] for line in page["lines"]] == ["before the end"]
    assert not page["complete"], "nobody knows what it has logged since"


# -- points 6 and 7 of supervision: what is cancelled stops; what was saved, the next attempt finds -----


EXECUTORS = ("coroutine", "thread", "process")
WHY = "the file is being delivered again"


def test_what_is_cancelled_stops_and_a_failure_or_a_kill_leaves_the_last_checkpoint_to_the_next(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    module = "tests.acceptance.steered_handlers"
    warren.start_all(module, slots=20)
    with SyncClient(warren.broker_url) as client:
        climbing = {where: client.request(f"climbs.{where}") for where in EXECUTORS}
        running = {where: client.request(f"runs.{where}") for where in EXECUTORS}
        hoards = client.request("hoards")
        for where, job in running.items():
            with subtests.test(f"6: a {where} is cancelled"):
                notes = f"notes-{job.job_id}"
                until(partial(warren.lines, notes), "the handler to run")
                until_running(warren, [job])
                client.cancel(job.job_id, WHY)
                with pytest.raises(JobCancelled, match=WHY):
                    job.result(timeout=60)
                row, (attempt,), parked = job_history(warren, job.job_id)
                assert (row.state, attempt.outcome) == (JobState.CANCELLED, AttemptOutcome.CANCELLED)
                assert WHY in attempt.verdict
                assert not parked
                if where == "process":
                    assert not alive(int(warren.lines(notes)[0].split()[1]))
                else:
                    assert warren.lines(notes) == ["began", "tidied up"]
        for where, job in climbing.items():
            with subtests.test(f"7: a {where} is tried again"):
                assert job.result(timeout=60) == {"step": 3, "found_by": [1, 2, 3]}
        size, kind, unportable = hoards.result(timeout=60)
        assert size.startswith("expected a checkpoint of at most 16384 bytes of JSON, got 20002")
        assert "written as JSON, got object" in kind
        assert "U+0000" in unportable

        killed = client.request("rests")
        saved = lambda: look(warren, lambda store: store.checkpoints_of([killed.job_id]))  # noqa: E731
        until(saved, "the checkpoint to be in the store")
        assert '{"rows": 512}' in run_command(warren, "job", str(killed.job_id))
        warren.services[-1].kill()
        warren.start("agent", module)
        assert killed.result(timeout=60)["found"] == {"rows": 512}


# -- point 12 of supervision: an agent that is to end ---------------------------------------------------


DRAINED = "tests.acceptance.agent_handlers:drained"
LATE = ("ends.late", "ends.late.process")


def an_agent(warren: Warren, grace: float) -> ServiceProcess:
    """One more, ready."""
    agent = warren.start("agent", DRAINED, WARRENER_SHUTDOWN_TIMEOUT=str(grace))
    until(agent.ready, "the agent to be ready")
    return agent


def until_running(warren: Warren, jobs: list[SyncJob]) -> None:
    """Until the store knows that all of them run."""
    ids = [job.job_id for job in jobs]
    until(
        lambda: [row.state for row in rows_of(warren, ids).values()] == [JobState.RUNNING] * len(ids),
        "all jobs to run",
    )


def given_back(warren: Warren, job: SyncJob) -> None:
    """It was begun twice, and charged for nothing."""
    assert job.result(timeout=60) == 2
    row, attempts, _ = job_history(warren, job.job_id)
    assert (row.failures, row.losses) == (0, 0)
    assert [one.outcome for one in attempts] == [AttemptOutcome.RELEASED, AttemptOutcome.SUCCEEDED]
    assert attempts[0].agent_id != attempts[1].agent_id


def test_12_a_draining_agent_finishes_what_fits_releases_the_rest_and_can_be_hurried(
    warren: Warren, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    gate = tmp_path / "gate"
    make_gate(gate)
    warren.start("scheduler")
    warren.start("supervisor")
    first = an_agent(warren, grace=20)  # the gate is opened in it, even if this process stands still a while
    with SyncClient(warren.broker_url) as client:
        soon = client.request("ends.soon", {"gate": str(gate)})
        late = [client.request(job_type) for job_type in LATE]
        until_running(warren, [soon, *late])
        second = an_agent(warren, grace=600)
        with subtests.test("SIGTERM"):
            first.signal(signal.SIGTERM)
            until(lambda: "service.draining" in first.log_text(), "the agent to drain")
            open_gate(gate)
            assert soon.result(timeout=60) == 1, "it was left to finish"
            for job in late:
                given_back(warren, job)
            assert first.process.wait(60) == 0
        with subtests.test("SIGTERM twice"):
            late = [client.request(job_type) for job_type in LATE]
            until_running(warren, late)
            an_agent(warren, grace=10)
            second.signal(signal.SIGTERM)
            until(lambda: "service.draining" in second.log_text(), "the agent to drain")
            second.signal(signal.SIGTERM)
            for job in late:
                given_back(warren, job)
            assert second.process.wait(60) == 0, "it does not wait for the ten minutes of its grace"
