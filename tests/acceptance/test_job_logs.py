"""Point 10 of seeing, on real processes and a real broker: the log lines of attempts are stored and shown."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import run_command, run_json, start
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.warren import Warren, until

from warrener_client import JobFailed, SyncClient

MODULE = "tests.acceptance.log_handlers"


def stored(
    warren: Warren, job_id: object, *, count: int, last: str | None = None, complete: bool = False
) -> Any:
    """The log of the last attempt, once so many lines are there, the last one is this, and no other comes."""

    def found() -> Any:
        page = run_json(warren, "job", str(job_id), "--logs")
        lines = page["lines"]
        is_there = len(lines) >= count and last in (None, lines[-1]["text"])
        return page if is_there and (page["complete"] or not complete) else None

    return until(found, f"{count} lines of {job_id} to be stored")


def texts(lines: Sequence[Any]) -> list[tuple[str | None, str, str]]:
    return [(line.get("level"), line["logger"], line["text"]) for line in lines]


def test_10_the_last_lines_of_a_failed_job_are_shown(running: Warren) -> None:
    with SyncClient(running.broker_url) as client:
        job = client.request("logs.fails")
        with pytest.raises(JobFailed):
            job.result(timeout=60)
    page = stored(running, job.job_id, count=2, last="row 512 is bad", complete=True)
    assert texts(page["lines"]) == [
        ("info", "shop.jobs", "842 rows to load"),
        ("warning", "shop.jobs", "row 512 is bad"),
    ]
    shown = run_command(running, "job", str(job.job_id), "--logs")
    assert "WARNING  shop.jobs  row 512 is bad" in shown
    assert "ValueError: no good" in shown.splitlines()[-1]
    log = running.services[-1].log.read_text(encoding="utf-8")  # its agent's
    (record,) = [json.loads(line) for line in log.splitlines() if "842 rows" in line]
    assert (record["job_id"], record["attempt"], record["level"]) == (str(job.job_id), 1, "info")


@pytest.mark.parametrize(
    ("job_type", "expected"),
    [
        ("logs.process", [(None, "output", "printed"), ("info", "shop.jobs", "logged")]),
        ("logs.program", [(None, "stdout", "to stdout"), (None, "stderr", "to stderr")]),
    ],
)
def test_10_processes_have_their_lines_stored_too(
    running: Warren, job_type: str, expected: list[Any]
) -> None:
    with SyncClient(running.broker_url) as client:
        job = client.request(job_type)
        job.result(timeout=60)
    page = stored(running, job.job_id, count=2)
    assert sorted(texts(page["lines"]), key=str) == sorted(expected, key=str)


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


def test_10_a_flood_is_bounded_counted_and_hurts_nobody(running: Warren) -> None:
    with SyncClient(running.broker_url) as client:
        flood = client.request("logs.flood")
        assert client.request("logs.quiet").result(timeout=60) == "done"
        flood.result(timeout=120)
    page = stored(running, flood.job_id, count=1, last="line 99999", complete=True)
    assert page["omitted"] + len(page["lines"]) == 100_000
    assert len(page["lines"]) <= 1500, "the last 500, rounded up to messages"
    assert "lines left out" in run_command(running, "job", str(flood.job_id), "--logs")


def test_10_the_lines_of_a_killed_agent_are_stored_but_for_the_last_second(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("logs.hangs")
        stored(warren, job.job_id, count=1, last="before the end")
        warren.services[-1].kill()
        page = run_json(warren, "job", str(job.job_id), "--logs")
    assert [line["text"] for line in page["lines"]] == ["before the end"]
    assert not page["complete"], "nobody knows what it has logged since"
