"""Point 10 of seeing, on real processes and a real broker: the log lines of attempts are stored and followed.

The lines of each kind of handler, and a flood of them, are proved by `test_log_publisher.py` and
`test_log_buffer.py` in `services/agent/tests`; how they are shown by
`services/console/tests/command/test_jobs.py`.
"""

from pathlib import Path

from tests.acceptance.command_line import run_json, start
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient

MODULE = "tests.acceptance.log_handlers"


def test_10_lines_are_followed_live_until_the_job_ends(running: Warren) -> None:
    gate = Path(running.folder, "gate")
    make_gate(gate)
    with SyncClient(running.broker_url) as client:
        job = client.request("logs.waits", {"gate": str(gate)})
        with start(running, "job", str(job.job_id), "--follow") as command:
            assert command.stdout is not None
            for text in ("waiting", "the gate is open"):
                assert any(text in line for line in iter(command.stdout.readline, "")), "while the job runs"
                open_gate(gate)
            rest, _ = command.communicate(timeout=60)
        assert "succeeded" in rest.splitlines()[-1]
        assert command.returncode == 0


def test_10_the_lines_of_a_killed_agent_are_stored_but_for_the_last_second(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("logs.hangs")
        words = ("job", str(job.job_id), "--logs")
        until(lambda: run_json(warren, *words)["lines"], "its line to be stored")
        warren.services[-1].kill()
        page = run_json(warren, *words)
    assert [line["text"] for line in page["lines"]] == ["before the end"]
    assert not page["complete"], "nobody knows what it has logged since"
