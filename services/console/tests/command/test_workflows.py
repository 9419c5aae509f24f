"""Workflows in a terminal: their calls, their journals, their trees, and the signals that people send."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.console.tests.conftest import Run, put_jobs
from services.console.tests.web.stored_jobs import HOSTILE, put_workflow
from tests.stand_in import stand_in
from tests.store_access import on_store
from tests.store_rows import NOON, queued_job, succeeded, waiting_job

from warrener_contracts.events import (
    Answer,
    Call,
    CallKind,
    ErrorInfo,
    ErrorKind,
    HeldAction,
    JobContinueRequested,
    JobSignalRequested,
    Journal,
    MemberFailure,
    MembersEnd,
    StepRetry,
    Suspension,
    Turn,
)
from warrener_contracts.identity import child_job_id, job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import CheckpointRow
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


def test_the_failures_of_a_map_stand_below_it_with_their_jobs(run: Run, store_url: str) -> None:
    call = Call(call_id="map/load#1/0", kind=CallKind.MAP, name="files.load", size=500)
    why = ErrorInfo(kind=ErrorKind.ERROR, type="NoRoom", message="all vans are full\nsee the log")
    end = MembersEnd(
        succeeded=498, failed=2, failures=(MemberFailure(number=7, state=JobState.DEAD, error=why),)
    )
    row = queued_job(state=JobState.SUSPENDED, suspensions=1)
    put_jobs(store_url, row)
    answer = Answer(call_id=call.call_id, at=NOON, members=end)
    turns = [
        TurnRow(job_id=row.job_id, attempt=1, suspension=Suspension(calls=(call,))),
        TurnRow(job_id=row.job_id, attempt=2, answers=(answer,)),
    ]
    on_store(store_url, lambda store: store.keep_suspensions(turns))
    _, batch, item = run("job", str(row.job_id), "--journal", "--store", store_url).stdout.splitlines()
    assert all(word in batch for word in ("map files.load", "498 succeeded, 2 failed")), batch
    failed = str(child_job_id(row.job_id, f"{call.call_id}/7"))
    assert all(word in item for word in ("item 7", failed, "dead", "NoRoom: all vans are full")), item


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


def test_a_workflow_that_has_gone_on_shows_its_generation_and_its_state(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    row, _ = workflow
    end = TurnRow(job_id=row.job_id, attempt=7, suspension=Suspension(continued={"order": 18}))
    on_store(store_url, lambda store: store.keep_suspensions([end]))
    later = evolve(row, version=2, attempt=7, generation=7, suspensions=1)
    on_store(store_url, lambda store: store.save_jobs([Save(later)]))
    state = CheckpointRow(job_id=row.job_id, attempt=7, number=1, state={"stage": "packing"}, saved_at=NOON)
    on_store(store_url, lambda store: store.keep_checkpoints([state]))
    page = run("job", str(row.job_id), "--store", store_url).stdout
    assert "since turn 7, with" in page
    assert "published" in page
    assert "packing" in page
    found = json.loads(run("job", str(row.job_id), "--journal", "--json", "--store", store_url).stdout)
    assert (found["generation"], found["arguments"], found["turns"]) == (7, {"order": 18}, [])
    shown = json.loads(run("job", str(row.job_id), "--json", "--store", store_url).stdout)
    assert (shown["arguments"], shown["continued"], shown["generation"]) == ({"order": 17}, {"order": 18}, 7)


def test_a_step_names_its_tries_and_a_call_whose_job_has_ended_when_that_was(
    run: Run, store_url: str, workflow: tuple[JobRow, JobRow]
) -> None:
    row, child = workflow
    retry = StepRetry(call_id="step/price#1", tries=2, retry_at=NOON, error="OSError: no route to host")
    turn = TurnRow(job_id=row.job_id, attempt=2, suspension=Suspension(retries=(retry,)), suspended_at=NOON)
    on_store(store_url, lambda store: store.keep_suspensions([turn]))
    assert child.started_at is not None
    end = succeeded(child)
    assert end.attempt is not None
    ended = evolve(end.row, started_at=None, finished_at=child.started_at + timedelta(seconds=2))
    over = replace(end.attempt, started_at=child.started_at, finished_at=ended.finished_at or NOON)
    on_store(store_url, lambda store: store.save_jobs([replace(end, row=ended, attempt=over)]))
    _, step, *_ = run("job", str(row.job_id), "--journal", "--store", store_url).stdout.splitlines()
    assert "try 3: {" in step
    calls = json.loads(run("job", str(row.job_id), "--json", "--store", store_url).stdout)["calls"]
    found = [(call["name"], call["state"], call["tries"], call["answered_at"] is not None) for call in calls]
    assert found[:2] == [("price", "answered", 3, True), ("cards.charge", "awaited", 1, True)]
    trace = json.loads(run("trace", str(row.job_id), "--json", "--store", store_url).stdout)
    assert trace["rows"][-1]["bars"][-1]["look"] == "solid", "the child job has run, not waited"


def test_a_request_with_wait_reports_once_that_its_workflow_is_held(
    run: Run, vhost_url: str, sqlite_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARRENER_STORE_URL", sqlite_store_url)
    held = queued_job(
        job_id=job_id_of("warrener.command", "order-17"),
        state=JobState.SUSPENDED,
        suspensions=1,
        ending_reason="its 5 attempts are used up",
    )
    put_jobs(sqlite_store_url, held)
    words = ("request", "orders.fulfil", "--id", "order-17", "--wait", "--timeout", "8s")
    waited = run(*words, "--broker", vhost_url)
    assert (waited.exit_code, waited.stdout) == (4, "")
    stderr = " ".join(waited.stderr.split())
    assert stderr.count("The workflow has failed, and is held: its 5 attempts are used up") == 1
    assert f"warrener explain {str(held.job_id)[-8:]}" in stderr


def test_jobs_that_no_other_has_requested_are_listed_alone_and_a_limited_one_names_its_limit(
    run: Run, store_url: str
) -> None:
    limited = waiting_job(gates='[["job/crm.push/acme",2]]', due_at=NOON, wake_at=NOON + timedelta(hours=12))
    child = waiting_job(parent_id=limited.job_id)
    put_jobs(store_url, limited, child)
    [found] = json.loads(run("jobs", "--top", "--json", "--store", store_url).stdout)
    assert (found["job_id"], found["awaits"]) == (
        str(limited.job_id),
        "waits for a slot of limit job/crm.push/acme",
    )
    shown = " ".join(run("jobs", "--top", "--state", "waiting", "--store", store_url).stdout.split())
    assert "waits for a slot of limit job/crm.push/acme" in shown
    assert str(child.job_id) not in shown


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
        retried = run("resume", UNKNOWN, "--retry", "cards.charge", "--retry", "0/job/mail.send#1", *where)
    assert retried.stderr == (f"✓ requested cards.charge, 0/job/mail.send#1 of job {UNKNOWN} again\n")
    assert (resumed.exit_code, resumed.stderr) == (0, f"✓ resumed job {UNKNOWN}\n")
    assert json.loads(undone.stdout)["details"] == {"job_id": UNKNOWN, "action": "undo"}
    sent = [one.data for one in services.commands if isinstance(one, JobContinueRequested)]
    assert [(one.job_id, one.action, one.retry) for one in sent] == [
        (UUID(UNKNOWN), HeldAction.RESUME, ()),
        (UUID(UNKNOWN), HeldAction.UNDO, ()),
        (UUID(UNKNOWN), HeldAction.RESUME, ("cards.charge", "0/job/mail.send#1")),
    ]
    assert run("resume", UNKNOWN, "--timeout", "0.1s", *where).exit_code == 3
