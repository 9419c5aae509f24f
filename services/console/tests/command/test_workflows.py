"""Workflows in a terminal: their calls, their journals, their trees, and the signals that people send."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.console.tests.conftest import Run, put_jobs
from services.console.tests.web.stored_jobs import HOSTILE, put_workflow
from tests.stand_in import stand_in
from tests.store_access import on_store
from tests.store_rows import NOON, queued_job, waiting_job

from warrener_contracts.events import (
    Call,
    CallKind,
    HeldAction,
    JobContinueRequested,
    JobSignalRequested,
    Journal,
    Suspension,
    Turn,
)
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.workflows.rows import SignalRow, TurnRow

UNKNOWN = "01936f2e-8a3b-7c4d-9e5f-0123456789ab"


@pytest.fixture
def workflow(store_url: str) -> tuple[JobRow, JobRow]:
    """A workflow that waits for its child job and for a signal, and that child job."""
    found: tuple[JobRow, JobRow] = on_store(store_url, put_workflow)
    return found


def test_the_calls_of_a_workflow_stand_in_their_order(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    row, child = workflow
    shown = run("job", str(row.job_id), "--journal", "--store", store_url)
    assert shown.exit_code == 0
    _, step, charge, packed, timer = shown.stdout.splitlines()
    for line, words in (
        (step, ("step price", "orders.py:38", "answered", '{"euros": 99')),
        (charge, ("cards.charge", "orders.py:41", "◐ running", str(child.job_id), "cards.refund")),
        (packed, ("signal packed", "orders.py:44", "awaited")),
        (timer, ("timer", "orders.py:45", "awaited", "until ")),
    ):
        assert all(word in line for word in words), line
    other = run("job", str(child.job_id), "--journal", "--store", store_url)
    assert (other.exit_code, other.stdout) == (2, "")
    assert "it is no workflow, or its first turn runs" in " ".join(other.stderr.split())


def test_what_nobody_awaits_is_shown_as_such(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    row, _ = workflow
    typo = SignalRow(job_id=row.job_id, signal_id="1", name="pakced", data=None, received_at=NOON)
    on_store(store_url, lambda store: store.keep_signals([typo]))
    shown = run("job", str(row.job_id), "--journal", "--store", store_url).stdout
    assert shown.splitlines()[-1].startswith("received, not awaited: pakced, ")
    cancelled = evolve(row, version=2, state=JobState.CANCELLED, finished_at=NOON, wake_at=None)
    on_store(store_url, lambda store: store.save_jobs([Save(cancelled)]))
    calls = run("job", str(row.job_id), "--journal", "--store", store_url).stdout
    assert "awaited" not in calls.replace("not awaited", "")
    assert calls.count("closed") == 2, "the signal and the timer; the child job has a state"


def test_a_child_job_that_never_had_a_request_stands_in_the_tree_by_its_call(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    root, call_id = queued_job(state=JobState.SUSPENDED, suspensions=1), uuid4()
    call = Call(call_id="job#1", kind=CallKind.JOB, name="cards.charge", job_id=call_id)
    put_jobs(store_url, root, queued_job(job_id=call_id, job_type="job.unknown"))
    turn = TurnRow(job_id=root.job_id, attempt=1, suspension=Suspension(calls=(call,)))
    on_store(store_url, lambda store: store.keep_suspensions([turn]))
    found = json.loads(run("job", str(root.job_id), "--tree", "--json", "--store", store_url).stdout)
    assert [(one["job_id"], one["job_type"]) for one in found[1:]] == [(str(call_id), "cards.charge")]


def test_the_journal_as_json_is_that_of_the_wire(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    row, _ = workflow
    found = json.loads(run("job", str(row.job_id), "--journal", "--json", "--store", store_url).stdout)
    assert (found["job_id"], found["job_type"]) == (str(row.job_id), "orders.fulfil")
    assert (found["arguments"], "requested_at" in found) == ({"order": 17}, True)
    [turn] = Journal.model_validate({"turns": found["turns"]}).turns
    assert found["turns"] == [json.loads(Turn.model_dump_json(turn))], "nothing beside the wire's fields"
    assert turn.suspension is not None
    assert turn.suspension.answers[0].result == {"euros": 99, "note": HOSTILE}, "a terminal hides nothing"


def test_the_tree_of_a_job_is_nested_and_counts_the_jobs_that_it_leaves_out(run: Run, store_url: str) -> None:
    root = queued_job(job_type="import")
    child = queued_job(job_type="load", parent_id=root.job_id)
    many = [waiting_job(job_type="row", parent_id=child.job_id) for _ in range(53)]
    put_jobs(store_url, root, child, *many)
    shown = run("job", str(root.job_id), "--tree", "--store", store_url).stdout.splitlines()
    assert len(shown) == 2 + 50 + 1
    assert [len(line) - len(line.lstrip()) for line in shown[:3]] == [0, 2, 4]
    assert shown[-1] == f"    and 3 more: warrener jobs --parent {child.job_id}"
    found = json.loads(run("job", str(root.job_id), "--tree", "--json", "--store", store_url).stdout)
    assert [(one["job_type"], one["depth"], one["more"]) for one in found[:3]] == [
        ("import", 0, 0),
        ("load", 1, 3),
        ("row", 2, 0),
    ]
    assert {one["parent_id"] for one in found[2:]} == {str(child.job_id)}


def test_a_list_names_the_call_that_a_suspended_workflow_waits_for(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    row, child = workflow
    [listed] = json.loads(run("jobs", "--state", "suspended", "--json", "--store", store_url).stdout)
    assert listed["job_id"] == str(row.job_id)
    assert listed["awaits"] == "waits for cards.charge, orders.py:41, and 1 more"
    assert "‖ suspended" in run("jobs", "--store", store_url).stdout
    page = run("job", str(child.job_id), "--store", store_url).stdout
    assert "running" in page


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ((), None),
        (("--data", '{"box": "A4"}'), {"box": "A4"}),
        (("--data", "17"), 17),
        (("--data", "on the shelf"), "on the shelf"),
    ],
)
def test_a_signal_is_sent_with_any_data(run: Run, vhost_url: str, words: tuple[str, ...], data: Any) -> None:
    with stand_in(vhost_url) as services:
        sent = run("send", UNKNOWN, "packed", *words, "--broker", vhost_url)
        document = json.loads(run("send", UNKNOWN, "packed", "--json", "--broker", vhost_url).stdout)
    assert (sent.exit_code, sent.stderr) == (0, f"✓ sent packed to job {UNKNOWN}\n")
    assert document["details"] == {"job_id": UNKNOWN, "name": "packed"}
    event = services.commands[0]
    assert isinstance(event, JobSignalRequested)
    assert (event.data.job_id, event.data.name, event.data.data) == (UUID(UNKNOWN), "packed", data)


def test_a_signal_needs_a_workflow_and_a_name(run: Run, vhost_url: str, store_url: str) -> None:
    where = ("--broker", vhost_url, "--store", store_url)
    assert run("send", UNKNOWN).exit_code == 2
    assert run("send", UNKNOWN, "x" * 101, *where).exit_code == 2
    for broken in ("{granted}", "[1", ' "yes'):
        refused = run("send", UNKNOWN, "packed", "--data", broken, *where)
        assert (refused.exit_code, "expected JSON" in refused.stderr) == (2, True), broken
    assert run("send", "no-such-job", "packed", *where).exit_code == 1
    assert run("send", UNKNOWN, "packed", "--timeout", "0.1s", *where).exit_code == 3


def test_a_held_workflow_is_resumed_or_undone(run: Run, vhost_url: str) -> None:
    where = ("--broker", vhost_url)
    with stand_in(vhost_url) as services:
        resumed = run("resume", UNKNOWN, *where)
        undone = run("undo", UNKNOWN, "--json", *where)
    assert (resumed.exit_code, resumed.stderr) == (0, f"✓ resumed job {UNKNOWN}\n")
    assert json.loads(undone.stdout)["details"] == {"job_id": UNKNOWN, "action": "undo"}
    sent = [one.data for one in services.commands if isinstance(one, JobContinueRequested)]
    assert [(one.job_id, one.action) for one in sent] == [
        (UUID(UNKNOWN), HeldAction.RESUME),
        (UUID(UNKNOWN), HeldAction.UNDO),
    ]
    assert run("resume", UNKNOWN, "--timeout", "0.1s", *where).exit_code == 3
