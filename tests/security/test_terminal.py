"""What others have written reaches the terminal of a person as text: nothing of it moves the cursor, changes
the title, hides what stands before it, or turns the direction of a line."""

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.security.attacks import attack
from tests.store_access import on_store
from tests.store_rows import (
    agent_row,
    died,
    job_type_row,
    log_chunk,
    parked_message,
    queued_job,
    recorded_action,
    schedule_row,
)

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.schedule_rules import IntervalRule
from warrener_runtime import log_output, logs
from warrener_store import Store
from warrener_store.logs.rows import LogLimit

EVIL = "[/x][red]\x1b[31mEVIL\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\u202egnp.exe\u2066 [link=file:///x]y[/link]"
"""Markup of ours, colours, a title, a cleared screen, C1, DEL, a return, and marks of direction."""
NOWHERE = ("--broker", "amqp://127.0.0.1:1/")
_STYLE = re.compile(r"\x1b\[(?:[\d;]*m|\?25[hl]|\?1049[hl]|H|2K|1A|0m)")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_COMMANDS = {
    "job": "job {job}",
    "job in JSON": "job {job} --json",
    "log lines": "job {job} --logs",
    "log lines in JSON": "job {job} --logs --json",
    "log lines as they come": "job {job} --follow",
    "tree": "job {job} --tree",
    "jobs": "jobs",
    "jobs in JSON": "jobs --json",
    "trace": "trace {job}",
    "explain": "explain {job}",
    "explain in JSON": "explain {job} --json",
    "find": "find EVIL",
    "job-types": "job-types",
    "agents": "agents",
    "queues": "queues",
    "dead-letters": "dead-letters list",
    "schedules": "schedule list",
    "schedule": "schedule show evil",
    "export": "schedule export",
    "parked": "parked list",
    "parked message": "parked show evil",
    "audit": "audit",
    "top": "top --once --interval 0",
    "error": "job EVIL-is-no-id",
}


async def _fill(store: Store) -> str:
    now = await store.time()
    error = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message=EVIL, stack=f"File x\n{EVIL}")
    row = queued_job(arguments={"name": EVIL, EVIL: 1}, source=EVIL, idempotency_key=EVIL)
    await store.put_job_types([job_type_row(row.job_type, description=EVIL, announced_by=EVIL)])
    await store.insert_jobs([row])
    await store.save_jobs([died(row, error)])
    chunk = log_chunk(row.job_id, 1, EVIL, final=True, attempt=row.attempt)
    await store.append_logs([chunk], LogLimit(100, 10_000))
    agent: dict[str, Any] = {"queues": (EVIL,), "host": EVIL, "trouble": EVIL}
    await store.put_agents([agent_row(EVIL, last_seen_at=now, **agent)])
    rule = IntervalRule(every=timedelta(hours=1))
    schedule = schedule_row("evil", rule, arguments={"name": EVIL}, owner="evil")
    await store.put_schedules([schedule])
    await store.park([parked_message("evil", body=json.dumps({"x": EVIL}).encode(), detail=EVIL)])
    await store.record_action(recorded_action(EVIL, reason=EVIL, actor=EVIL))
    return str(row.job_id)


def _in_terminal(here: Path, words: list[str]) -> str:
    """What a terminal gets of `warrener WORDS…`."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200"}
    command = [sys.executable, "-m", "warrener", *words]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=here, env=environment, start_new_session=True
    ):
        os.close(theirs)
        output = b""
        try:
            while piece := os.read(ours, 65536):
                output += piece
        except OSError:  # the other side is closed
            pass
    os.close(ours)
    return output.decode()


def _assert_harmless(output: str) -> None:
    assert "\x1b[31mEVIL" not in output
    assert not (found := _FORBIDDEN.findall(_STYLE.sub("", output))), (found[:10], output[:3000])
    assert "\r" not in output.replace("\r\n", "\n")
    assert "\x1b]8" not in output, "expected no link of another"
    assert "Traceback" not in output


@attack(
    "somebody who requests jobs, announces types or runs agents",
    "writes ESC, C1 and marks of direction for the terminal of an operator",
    refused="the screen of the command escapes them",
)
@pytest.mark.parametrize("command", _COMMANDS)
def test_a_command_shows_the_control_characters_of_others_as_text(
    command: str, sqlite_store_url: str, tmp_path: Path
) -> None:
    words = _COMMANDS[command].format(job=on_store(sqlite_store_url, _fill)).split()
    broker = NOWHERE if words[0] in {"explain", "top", "queues"} else ()
    output = _in_terminal(tmp_path, [*words, "--store", sqlite_store_url, *broker])
    _assert_harmless(output)
    if command not in {"tree", "schedules", "schedule"}:  # which show names that the wire has checked
        assert "EVIL" in output, "expected to see what was written, as text"
    if "JSON" in command:
        json.loads(output)


@attack(
    "a handler, or a service that it calls",
    "writes ESC and marks of direction into the log of a service",
    refused="both formats of the log escape them",
)
@pytest.mark.parametrize("form", ["console", "json"])
def test_a_service_logs_the_control_characters_of_others_as_text(form: Any) -> None:
    stream = io.StringIO()
    log_output.configure("test", format=form, stream=stream)
    logs.get_logger("x").warning(
        EVIL, action="test", detail=EVIL, nested={"a": [EVIL]}, error=ValueError(EVIL)
    )
    logging.getLogger("library").error("%s", EVIL)
    logs.get_logger("x").error("failed", action="test", exc_info=ValueError(EVIL))
    _assert_harmless(stream.getvalue().replace("Traceback", ""))
