"""The dead-man alarm (point 6), on real processes and a real broker: the supervisor notices that all
schedulers are gone, a webhook receives the alarm, and it is over when one comes back.

Overdue and unsuccessful schedules and the pause after failures are proved in virtual time, by
`services/supervisor/tests/test_schedule_monitor.py`.
"""

from datetime import UTC, datetime, timedelta

from services.supervisor.tests.webhook_receiver import WebhookReceiver
from tests.acceptance.command_line import run_command, run_json
from tests.acceptance.store_queries import incidents_of, look, tick_history
from tests.acceptance.test_escalation import escalation_file
from tests.acceptance.test_schedules import announce
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule, ScheduleChoices

NAME = "every.second"
POLICIES = """
[[policy]]
name = "schedules"
kinds = ["schedule.*", "scheduler.*"]
steps = [{ do = "alert", to = ["hook"], urgent = true }]
"""
PATIENCE = 120.0


def test_6_the_alarm_comes_when_every_scheduler_is_killed_and_is_over_when_one_comes_back(
    warren: Warren,
) -> None:
    with WebhookReceiver() as receiver:
        file = escalation_file(warren, receiver, POLICIES)
        for _ in range(2):
            warren.start("supervisor", WARRENER_SUPERVISOR_ESCALATION_FILE=file)
        schedulers = [warren.start("scheduler") for _ in range(2)]
        warren.wait_ready()
        announce(warren)
        choices = ScheduleChoices.model_validate({"misfire": "skip"})
        rule = IntervalRule(every=timedelta(seconds=1))
        with SyncClient(warren.broker_url) as client:
            client.put_schedules([SchedulePutData(name=NAME, rule=rule, job_type="many", choices=choices)])
        until(lambda: tick_history(warren, NAME), "its first tick")
        for scheduler in schedulers:
            scheduler.kill()
        until(lambda: receiver.received, "the alarm", within=PATIENCE)
        alarm = receiver.received[0].data
        assert (alarm["kind"], alarm["subject"]) == ("scheduler.stopped", "all schedules")
        assert "no scheduler has been there since" in alarm["text"]
        shown = run_json(warren, "escalation", "list")
        assert not [one for one in shown if one["kind"].startswith("schedule.")], "no schedule is blamed"
        until(
            lambda: "overdue" in run_command(warren, "schedule", "list"),
            "the command to mark the schedule",
            within=PATIENCE,
        )
        warren.start("scheduler")
        reason = until(lambda: _close_reason(warren), "the incident to be closed", within=PATIENCE)
        assert reason == "a scheduler is there again"
        until(lambda: _is_planned(warren), "the schedule to be planned again", within=PATIENCE)
        assert "overdue" not in run_command(warren, "schedule", "list")
    # A delivery without an answer is repeated, under the same id.
    assert len({received.webhook_id for received in receiver.received}) == 1, "two supervisors alarm once"


def _close_reason(warren: Warren) -> str | None:
    """Why the incident was closed; None while it is open."""
    found = incidents_of(warren, closed=True)
    return next((one.close_reason for one in found if one.fingerprint == "scheduler.stopped"), None)


def _is_planned(warren: Warren) -> bool:
    """True if the next tick is still to come."""
    row = look(warren, lambda store: store.schedules([NAME])).get(NAME)
    return row is not None and row.next_at is not None and row.next_at > datetime.now(UTC)
