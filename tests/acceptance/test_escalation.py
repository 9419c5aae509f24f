"""Point 10 of supervision, on real processes and a real broker: what follows a death follows it once, and
goes on when those who do it are killed."""

import socket
from datetime import UTC, datetime
from typing import Any

from services.supervisor.tests.webhook_receiver import SECRET, WebhookReceiver
from tests.acceptance.command_line import run_json
from tests.acceptance.store_queries import incidents_of, rows_of, run_sql
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.incidents.rows import IncidentRow

MODULE = "tests.acceptance.escalation_handlers"
JOBS = 1000


def escalation_file(warren: Warren, receiver: WebhookReceiver, policies: str) -> str:
    """Where the policies stand, with a webhook called `hook`."""
    path = warren.folder / "escalation.toml"
    path.write_text(f'[sink.hook]\nwebhook = "{receiver.url}"\nsecret = "{SECRET}"\n{policies}')
    return str(path)


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
    run_sql(warren, "UPDATE warrener_incidents SET claimed_until = ? WHERE claimed_until IS NOT NULL", now)


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
    with WebhookReceiver() as receiver:
        file = escalation_file(warren, receiver, COMPENSATED)
        first = warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        warren.start("scheduler")
        warren.start("agent", MODULE, "--slots", "50")
        warren.wait_ready()
        with SyncClient(warren.broker_url) as client:
            specs = [JobSpec("bank.pay", {"order": number}) for number in range(JOBS)]
            jobs = list(client.request_many(specs))
        until(lambda: warren.lines("cancelled"), "the first compensation")
        first.kill()  # while it asks for compensations, or is about to note that it has
        let_claims_end(warren)
        warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        until(lambda: len(warren.lines("cancelled")) >= JOBS, "a compensation for each", within=120)
        until(lambda: dead_incidents(warren)[0].times == JOBS, "all to be counted")
        until(lambda: dead_incidents(warren)[0].step == 2, "the last step to be noted")

    dead = rows_of(warren, [job.job_id for job in jobs])
    assert {row.state for row in dead.values()} == {JobState.DEAD}
    lines = [line.split() for line in warren.lines("cancelled")]
    assert sorted(int(order) for order, _ in lines) == list(range(JOBS)), "each once, none twice"
    assert {alert.webhook_id for alert in receiver.received} == {receiver.received[0].webhook_id}, "one alert"
    assert receiver.received[0].data["title"] == f"bank.pay: {MODULE}.Declined"
    assert receiver.wrong == []

    (incident,) = listed(warren)
    assert (incident["kind"], incident["job_type"], incident["step"]) == ("job.dead", "bank.pay", 2)
    name, by = incident["fingerprint"], f"ann@{socket.gethostname()}"
    assert warrener(warren, "escalation", "ack", name[:5])["details"]["fingerprint"] == name
    warrener(warren, "escalation", "snooze", name, "--for", "1h", "--by", "bob")
    until(
        lambda: (row := dead_incidents(warren)[0]).snoozed_until and row.acknowledged_by == by, "to be heard"
    )
    warrener(warren, "escalation", "close", name, "--reason", "the bank is back")
    until(lambda: not dead_incidents(warren), "to be closed")
    assert dead_incidents(warren, closed=True)[0].close_reason == f"by {by}: the bank is back"
