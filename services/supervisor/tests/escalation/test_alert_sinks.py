"""Alerts leave: signed, through Apprise, to the log; and what happens when nobody takes them."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from services.supervisor.tests.escalation.test_runner import EscalationRig, policy
from services.supervisor.tests.event_factory import NOW
from services.supervisor.tests.webhook_receiver import SECRET, WebhookDelivery, WebhookReceiver
from tests.store_rows import raised_incident

from warrener_store.incidents.rows import IncidentRow
from warrener_supervisor.escalation.alert_sinks import (
    SinkFailed,
    send_alert,
    send_by_apprise,
    send_to_webhook,
)
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.policy import SinkConfig

# Two of the plug-ins that Apprise loads ask Python 3.11 for what Python 3.13 has no more; they know it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

ALERT = AlertMessage("id-1", "job.dead: bank.pay", "Boom: bö\x00m", urgent=False, facts={"times": 3})


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    """It says yes, until told otherwise."""
    with WebhookReceiver() as one:
        yield one


async def test_a_webhook_is_signed_so_that_its_receiver_knows_who_and_when(receiver: WebhookReceiver) -> None:
    await send_to_webhook(receiver.url, SECRET, ALERT, NOW)
    (delivery,) = receiver.received
    assert delivery.webhook_id == "id-1"
    assert delivery.body["type"] == "warrener.alert"
    assert delivery.data == {"title": ALERT.title, "text": ALERT.text, "urgent": False, "times": 3}


async def test_another_key_is_not_believed(receiver: WebhookReceiver) -> None:
    other = f"whsec_{b64encode(b'another key').decode()}"
    with pytest.raises(SinkFailed, match="expected an answer of 2xx from the webhook, got 401"):
        await send_to_webhook(receiver.url, other, ALERT, NOW)
    assert (len(receiver.wrong), receiver.received) == (1, [])


async def test_a_redirect_is_no_yes_and_is_not_followed(receiver: WebhookReceiver) -> None:
    receiver.answer = lambda _: 307
    with pytest.raises(SinkFailed, match="got 307"):
        await send_to_webhook(receiver.url, SECRET, ALERT, NOW)
    assert receiver.raw == []


async def test_nobody_there_is_a_failure() -> None:
    with WebhookReceiver() as gone:
        url = gone.url
    with pytest.raises(SinkFailed, match="expected an answer from the webhook"):
        await send_to_webhook(url, SECRET, ALERT, NOW)


async def test_what_apprise_speaks_is_spoken(receiver: WebhookReceiver) -> None:
    await send_by_apprise(f"json://127.0.0.1:{receiver.port}/plain", ALERT)
    (body,) = receiver.raw
    assert b"bank.pay" in body
    with pytest.raises(SinkFailed, match=r"knows, got nosuch://u:\*\*\*@h"):
        await send_by_apprise("nosuch://u:secret@h", ALERT)


class SinkRig(EscalationRig):
    """One incident, and a policy with two sinks that are real."""

    def __init__(self, receiver: WebhookReceiver, *steps: str) -> None:
        super().__init__(
            f"""
            [sink.hook]
            webhook = "{receiver.url}"
            secret = "{SECRET}"
            [sink.plain]
            apprise = "json://127.0.0.1:{receiver.port}/plain"
            """
            + policy(*steps)
        )

    async def send(self, name: str, declared: SinkConfig, alert: AlertMessage, now: datetime) -> None:
        await send_alert(name, declared, alert, now)


async def test_a_sink_that_fails_is_tried_again_with_a_growing_pause_and_the_others_are_not_alerted_twice(
    receiver: WebhookReceiver,
) -> None:
    rig = SinkRig(receiver, '{do = "alert", to = ["hook", "plain"]}, {do = "close"}')
    receiver.answer = lambda _: 503
    await rig.store.escalations.raise_incidents([raised_incident(raised_at=NOW)])
    row = await rig.after(60)
    assert (row.step, row.failed_tries, row.delivered) == (0, 4, ("plain",))
    assert row.last_error == "hook: expected an answer of 2xx from the webhook, got 503"
    receiver.answer = lambda _: 200
    row = await rig.after(60)
    assert (row.close_reason, row.last_error) == ("by policy a", None)
    assert len(receiver.raw) == 1, "who had it was not told again"
    assert len(receiver.received) == 5, "at 1, 6, 16, 36 and 76 seconds"
    assert len({delivery.webhook_id for delivery in receiver.received}) == 1, "always the same alert"


async def test_a_supervisor_that_dies_between_alert_and_note_repeats_the_alert_under_its_id(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = SinkRig(receiver, '{do = "alert", to = ["hook"]}')
    await rig.store.escalations.raise_incidents([raised_incident(raised_at=NOW)])

    async def dies(row: IncidentRow) -> bool:
        raise ConnectionError(f"killed before {row.fingerprint} could be noted")

    with monkeypatch.context() as patched:
        patched.setattr(rig.store.escalations, "save_incident", dies)
        with pytest.raises(ConnectionError):
            await rig.after(1)
    row = await rig.after(20)
    assert (len(receiver.received), row.step) == (1, 0), "until its claim has lapsed nobody else tells it"
    row = await rig.after(20)
    assert (len(receiver.received), row.step) == (2, 1)
    assert len({delivery.webhook_id for delivery in receiver.received}) == 1


async def test_each_time_that_a_closed_incident_is_raised_again_is_an_alert_of_its_own(
    receiver: WebhookReceiver,
) -> None:
    rig = SinkRig(
        receiver, '{do = "alert", to = ["hook"], text = "{{ times }}"}, {do = "close", after = "5s"}'
    )
    incidents = rig.store.escalations
    await incidents.raise_incidents([raised_incident(raised_at=NOW), raised_incident(raised_at=NOW)])
    await rig.after(10)
    await incidents.raise_incidents(
        [raised_incident("f1", str(uuid4()), raised_at=NOW + timedelta(seconds=10))]
    )
    await rig.after(10)
    delivery: list[WebhookDelivery] = receiver.received
    assert [one.data["text"] for one in delivery] == ["2", "1"]
    assert len({one.webhook_id for one in delivery}) == 2
