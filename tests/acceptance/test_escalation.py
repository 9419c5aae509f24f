"""Point 10 of supervision, on real processes and a real broker: what follows a death follows it once, and
goes on when those who do it are killed."""

import socket
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from services.supervisor.tests.webhook_receiver import SECRET, WebhookDelivery, WebhookReceiver
from tests.acceptance.command_line import run_json
from tests.acceptance.gate import make_gate
from tests.acceptance.store_queries import incidents_of, look, rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.incidents.rows import IncidentRow

MODULE = "tests.acceptance.escalation_handlers"
JOBS = 1000


def escalation_file(warren: Warren, receiver: WebhookReceiver, policies: str) -> str:
    """Where the policies stand, with a webhook called `hook`."""
    path = warren.folder / "escalation.toml"
    write_whole(path, f'[sink.hook]\nwebhook = "{receiver.url}"\nsecret = "{SECRET}"\n{policies}')
    return str(path)


def write_whole(path: Path, text: str) -> None:
    """At once: a supervisor that reads it meanwhile reads the text before or this one, and no half of it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def warrener(warren: Warren, *words: str) -> Any:
    """The command's answer."""
    return run_json(warren, *words, USER="ann", LOGNAME="ann")


def listed(warren: Warren) -> list[Any]:
    """Those of jobs that died, by the command."""
    return [one for one in warrener(warren, "escalation", "list") if one["kind"] == "job.dead"]


def dead_incidents(warren: Warren, *, closed: bool = False) -> list[IncidentRow]:
    """Those of jobs that died, as they stand in the store; that an agent was lost is another."""
    return [incident for incident in incidents_of(warren, closed=closed) if incident.kind == "job.dead"]


def let_claims_end(warren: Warren) -> None:
    """The supervisor that was killed holds its incident no longer: for the store, that is what half a minute
    does."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"
    with closing(sqlite3.connect(warren.folder / "state.db", timeout=30)) as store, store:
        store.execute(
            "UPDATE warrener_incidents SET claimed_until = ? WHERE claimed_until IS NOT NULL", (now,)
        )


def state_of(warren: Warren, job_id: UUID) -> JobState | None:
    """The job's; None until it is accepted."""
    row = rows_of(warren, [job_id]).get(job_id)
    return None if row is None else row.state


COMPENSATED = """
[[policy]]
name = "payments"
job_types = "bank.*"
errors = "*.Declined"
steps = [
  { do = "alert", to = ["hook"], title = "{{ job_type }}: {{ error.type }}" },
  { do = "compensate", job_type = "orders.cancel", arguments = { order = "{{ arguments.order }}" } },
]
"""


def test_10_a_thousand_dead_jobs_are_one_alert_and_a_thousand_compensations_each_requested_once(
    warren: Warren,
) -> None:
    cancelled = Path(warren.folder, "cancelled")
    with WebhookReceiver() as receiver:
        file = escalation_file(warren, receiver, COMPENSATED)
        first = warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        warren.start("scheduler")
        warren.start("agent", MODULE, "--slots", "50")
        warren.wait_ready()
        with SyncClient(warren.broker_url) as client:
            specs = [JobSpec("bank.pay", {"order": number}) for number in range(JOBS)]
            jobs = list(client.request_many(specs))
        until(cancelled.exists, "the first compensation")
        first.kill()  # while it asks for compensations, or is about to note that it has
        let_claims_end(warren)
        warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        until(lambda: len(cancelled.read_text().splitlines()) >= JOBS, "a compensation for each", within=120)
        until(lambda: dead_incidents(warren)[0].times == JOBS, "all to be counted")
        until(lambda: dead_incidents(warren)[0].step == 2, "the last step to be noted")

    dead = rows_of(warren, [job.job_id for job in jobs])
    assert {row.state for row in dead.values()} == {JobState.DEAD}
    lines = [line.split() for line in cancelled.read_text().splitlines()]
    assert sorted(int(order) for order, _ in lines) == list(range(JOBS)), "each once, none twice"
    assert {alert.webhook_id for alert in receiver.received} == {receiver.received[0].webhook_id}, "one alert"
    assert receiver.received[0].data["title"] == f"bank.pay: {MODULE}.Declined"
    assert receiver.wrong == []

    (incident,) = listed(warren)
    assert (incident["kind"], incident["job_type"], incident["step"]) == ("job.dead", "bank.pay", 2)
    name, by = incident["fingerprint"], f"ann@{socket.gethostname()}"
    assert warrener(warren, "escalation", "ack", name[:5])["fingerprint"] == name
    warrener(warren, "escalation", "snooze", name, "--for", "1h", "--by", "bob")
    until(
        lambda: (row := dead_incidents(warren)[0]).snoozed_until and row.acknowledged_by == by, "to be heard"
    )
    warrener(warren, "escalation", "close", name, "--reason", "the bank is back")
    until(lambda: not dead_incidents(warren), "to be closed")
    assert dead_incidents(warren, closed=True)[0].close_reason == f"by {by}: the bank is back"


def test_10_the_alert_comes_when_every_agent_is_dead_and_again_under_its_id_when_its_supervisor_is_killed(
    warren: Warren,
) -> None:
    gate = warren.folder / "gate"
    make_gate(gate)
    lease = {"WARRENER_SUPERVISOR_AGENT_TIMEOUT": "6"}
    with WebhookReceiver() as receiver:
        file = escalation_file(
            warren,
            receiver,
            '[[policy]]\nname = "dead"\nkinds = "job.dead"\n'
            'steps = [{ do = "alert", to = ["hook"], urgent = true }]\n',
        )
        killed: list[str] = []

        def kill_the_sender(alert: WebhookDelivery) -> int:
            if not killed:
                killed.append(alert.webhook_id)
                supervisor.kill()  # it has told, and cannot note it any more
            return 200

        receiver.answer = kill_the_sender
        supervisor = warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file, **lease)
        warren.start("scheduler")
        agent = warren.start("agent", MODULE)
        warren.wait_ready()
        with SyncClient(warren.broker_url) as client:
            job = client.request("hangs", {"gate": str(gate)})
        until(lambda: state_of(warren, job.job_id) is JobState.RUNNING, "the job to run")
        agent.kill()

        until(lambda: killed, "the alert, with no agent left")
        assert state_of(warren, job.job_id) is JobState.DEAD
        supervisor.process.wait(30)
        let_claims_end(warren)
        warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file, **lease)
        until(lambda: len(receiver.received) >= 2, "the alert again")
        until(lambda: dead_incidents(warren)[0].step == 1, "the step to be noted")
    assert {alert.webhook_id for alert in receiver.received} == {*killed}, (
        "the same alert, told at least once"
    )
    alert = receiver.received[0].data
    assert (alert["kind"], alert["job_type"], alert["times"]) == ("job.dead", "hangs", 1)
    assert alert["subject"] == str(job.job_id)


EDITED = """
[[policy]]
name = "{name}"
job_types = "bank.*"
on_change = "{on_change}"
steps = [
  {{ do = "alert", to = ["hook"], title = "{name}" }},
{more}
]
"""
UNDO = '  { do = "compensate", job_type = "orders.cancel", arguments = { order = "{{ arguments.order }}" } },'


def test_13_4_editing_the_file_swallows_no_alert_and_undoes_nothing_that_died_before(warren: Warren) -> None:
    cancelled = Path(warren.folder, "cancelled")
    with WebhookReceiver() as receiver:

        def edit(name: str, on_change: str = "continue", more: str = "") -> str:
            return escalation_file(warren, receiver, EDITED.format(name=name, on_change=on_change, more=more))

        def titles() -> list[str]:
            return [str(alert.data["title"]) for alert in receiver.received]

        def die(order: int) -> None:
            with SyncClient(warren.broker_url) as client:
                job = client.request("bank.pay", {"order": order})
            until(lambda: state_of(warren, job.job_id) is JobState.DEAD, f"order {order} to die")

        file = edit("first")
        supervisor = warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        warren.start("scheduler")
        warren.start("agent", MODULE)
        warren.wait_ready()
        die(1)
        until(lambda: titles() == ["first"], "the first alert")
        until(lambda: dead_incidents(warren)[0].step == 1, "the step to be noted")

        edit("second", more=UNDO)
        until(lambda: "second" in policy_names(warren), "the edited policy to be seen")
        die(2)
        until(lambda: dead_incidents(warren)[0].times == 2, "the second death to be counted")
        supervisor.kill()
        let_claims_end(warren)
        supervisor = warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        warren.wait_ready()
        die(3)
        until(lambda: dead_incidents(warren)[0].times == 3, "the third death to be counted")
        (incident,) = listed(warren)
        assert [one["name"] for one in incident["policy_history"]["adoptions"]] == ["first"]
        assert titles() == ["first"]

        write_whole(Path(file), "[[policy]]\nsteps = [")
        until(lambda: "escalation.bad_file" in supervisor.log_text(), "the mistake to be logged")
        edit("third", "restart", UNDO)
        until(lambda: titles() == ["first", "third"], "the alert of the policy that restarts it")
        until(lambda: dead_incidents(warren)[0].step == 2, "the compensation to be passed over")
        assert not cancelled.exists(), "all of them died before there was a compensation for them"
        die(4)
        until(cancelled.exists, "the compensation of what died afterwards")
        until(lambda: cancelled.read_text().endswith("\n"), "its line")

    assert [line.split()[0] for line in cancelled.read_text().splitlines()] == ["4"]
    (incident,) = dead_incidents(warren)
    assert (incident.round, incident.times) == (2, 4)
    assert incident.last_error == "passed over 3 jobs that died before compensate was in the policy"
    assert len({alert.webhook_id for alert in receiver.received}) == 2


def policy_names(warren: Warren) -> set[str]:
    """Those that a supervisor has stored."""
    return {row.name for row in look(warren, lambda store: store.escalations.policies())}
