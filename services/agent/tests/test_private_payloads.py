"""An agent with keys: the journal that it decrypts, and the schedules that it encrypts."""

from datetime import UTC, datetime, timedelta
from os import urandom
from uuid import UUID, uuid4

import pytest
from pydantic_core import to_json
from tests.security.attacks import attack

from warrener_agent import Agent, Workflow
from warrener_agent.private_payloads import AttemptPayloads, decrypt_attempt, encrypt_schedules
from warrener_contracts import events
from warrener_contracts import private_payloads as payloads
from warrener_contracts.identity import child_job_id
from warrener_contracts.private_payloads import MARK, PayloadUnreadable, ValueKind
from warrener_contracts.state_machine import JobState
from warrener_runtime.encryption import KeyRing
from warrener_runtime.settings import SettingsError

CODEC = KeyRing({"2026-11": urandom(32)}, "2026-11")
JOB_ID = UUID("0192f0c1-2345-7000-8000-000000000001")
AT = datetime(2026, 3, 1, tzinfo=UTC)
agent = Agent()


@agent.schedule("daily", every=timedelta(days=1), arguments={"day": "{{ tick.run }}"})
@agent.job("mail.report", encrypted=True)
async def report(day: str) -> None:
    del day


@agent.workflow("mail.campaign", encrypted=True)
async def campaign(flow: Workflow) -> None:
    del flow


def dispatched(*turns: events.Turn) -> events.AttemptDispatchedData:
    arguments = payloads.encrypt_arguments(CODEC, {}, JOB_ID, "mail.campaign")
    return events.AttemptDispatchedData(
        job_id=JOB_ID,
        attempt=2,
        job_type="mail.campaign",
        arguments=arguments,
        queue="default",
        timeout=timedelta(minutes=1),
        max_attempts=1,
        requested_at=AT,
        journal=events.Journal(turns=turns),
    )


def turns_of(call: events.Call, answer: events.Answer) -> tuple[events.Turn, events.Turn]:
    first = events.Turn(attempt=1, suspension=events.Suspension(calls=(call,)))
    return first, events.Turn(attempt=2, answers=(answer,))


def decrypted_answer(data: events.AttemptDispatchedData) -> events.Answer:
    opened, _ = decrypt_attempt(CODEC, agent.definitions["mail.campaign"], data, None)
    assert opened.journal is not None
    return opened.journal.turns[1].answers[0]


def test_the_answer_of_a_child_job_that_was_requested_again_is_that_of_the_new_one() -> None:
    """The journal of a dispatch names the job that was requested last."""
    failed = child_job_id(JOB_ID, "0/a")
    again = child_job_id(JOB_ID, f"0/a~{failed}")
    call = events.Call(call_id="0/a", kind=events.CallKind.JOB, name="mail.note", job_id=again)
    result = payloads.encrypt(CODEC, ValueKind.RESULT, b'"noted"', again)
    answer = events.Answer(call_id="0/a", at=AT, state=JobState.SUCCEEDED, result=result)
    assert decrypted_answer(dispatched(*turns_of(call, answer))).result == "noted"
    error = events.ErrorInfo(kind=events.ErrorKind.ERROR, type="Bad", message="a secret")
    hidden = payloads.encrypt_error(CODEC, error, again)
    died = events.Answer(call_id="0/a", at=AT, state=JobState.DEAD, error=hidden)
    assert decrypted_answer(dispatched(*turns_of(call, died))).error == error


def test_the_results_of_a_page_are_those_of_its_batch() -> None:
    source = events.PageSource(call_id="map/a/0", size=3, first=1)
    call = events.Call(call_id="page/a", kind=events.CallKind.PAGE, name="mail.note", source=source)
    answer = events.Answer(call_id="page/a", at=AT, page=events.PageSize(size=2, total=3))
    hidden = [
        payloads.encrypt(CODEC, ValueKind.RESULT, b"%d" % number, child_job_id(JOB_ID, f"map/a/0/{number}"))
        for number in (1, 2)
    ]

    def read(*items: object) -> tuple[object, ...]:
        page = events.DispatchedPage(call_id="page/a", items=items)
        data = dispatched(*turns_of(call, answer)).model_copy(update={"pages": (page,)})
        opened, _ = decrypt_attempt(CODEC, agent.definitions["mail.campaign"], data, None)
        return opened.pages[0].items

    assert read(*hidden) == (1, 2)
    assert read(hidden[0], None) == (1, None), "one failed"
    for others in ([hidden[1], hidden[0]], ["plain", None]):
        with pytest.raises(PayloadUnreadable):
            read(*others)


def test_the_result_of_another_job_counts_as_no_answer() -> None:
    call = events.Call(call_id="0/a", kind=events.CallKind.JOB, name="mail.note", job_id=uuid4())
    result = payloads.encrypt(CODEC, ValueKind.RESULT, b'"noted"', uuid4())
    answer = events.Answer(call_id="0/a", at=AT, state=JobState.SUCCEEDED, result=result)
    with pytest.raises(PayloadUnreadable, match="they were changed or moved"):
        decrypted_answer(dispatched(*turns_of(call, answer)))


@attack(
    "broker",
    "puts a plain value in the place of a private workflow's encrypted one",
    refused="agent: each value of a job type with encrypted=True is encrypted",
)
@pytest.mark.parametrize("kind", [events.CallKind.JOB, events.CallKind.STEP, events.CallKind.SIGNAL])
@pytest.mark.parametrize("value", ["forged", {MARK: "forged"}, None])
def test_a_plain_value_counts_as_no_answer(kind: events.CallKind, value: object) -> None:
    call = events.Call(call_id="0/a", kind=kind, name="approved")
    signal_id = str(uuid4()) if kind is events.CallKind.SIGNAL else None
    data = dispatched(*turns_of(call, events.Answer(call_id="0/a", at=AT, result=value, signal_id=signal_id)))
    if value is None and signal_id is None:
        assert decrypted_answer(data).result is None
        return
    with pytest.raises(PayloadUnreadable, match="got a plain one"):
        decrypted_answer(data)


@attack("broker", "puts a plain checkpoint before a private attempt", refused="agent")
def test_a_plain_checkpoint_is_refused() -> None:
    checkpoint = events.Checkpoint(state={"sent": "forged"}, number=1)
    with pytest.raises(PayloadUnreadable, match="expected an encrypted checkpoint"):
        decrypt_attempt(CODEC, agent.definitions["mail.campaign"], dispatched(), checkpoint)


@attack(
    "operator", "sends the data of one signal again under the name of another", refused="authenticated name"
)
def test_a_signal_counts_under_its_name_alone() -> None:
    hidden = payloads.encrypt(CODEC, ValueKind.SIGNAL, b"true", JOB_ID, "approved")
    for name in ("approved", "refused"):
        call = events.Call(call_id="0/a", kind=events.CallKind.SIGNAL, name=name)
        data = dispatched(*turns_of(call, events.Answer(call_id="0/a", at=AT, result=hidden, signal_id="s")))
        if name == "approved":
            assert decrypted_answer(data).result is True
        else:
            with pytest.raises(PayloadUnreadable, match="they were changed or moved"):
                decrypted_answer(data)


@attack("asker", "adds plain arguments to those of a schedule of a private job type", refused="agent")
def test_nothing_plain_stands_beside_the_arguments_of_a_private_job_type() -> None:
    data = dispatched()
    mixed = data.model_copy(update={"arguments": {**data.arguments, "to": "mallory"}})
    with pytest.raises(PayloadUnreadable, match="no others beside them"):
        decrypt_attempt(CODEC, agent.definitions["mail.campaign"], mixed, None)


def test_an_undo_reads_the_arguments_that_its_workflow_has_encrypted() -> None:
    data, definition = dispatched(), agent.definitions["mail.campaign"]
    own = AttemptPayloads(CODEC, data, definition, frozenset())
    arguments = own.arguments({"text": "a"}, "mail.note", JOB_ID)
    assert b"text" not in to_json(arguments)
    assert payloads.decrypt_arguments(CODEC, arguments, "mail.note") == {"text": "a"}


def test_a_schedule_in_code_has_no_placeholders_that_nobody_could_fill() -> None:
    with pytest.raises(SettingsError, match="daily: expected encrypted arguments without placeholders"):
        encrypt_schedules(CODEC, agent.schedules, {"mail.report"})
    assert encrypt_schedules(None, agent.schedules, ()) == agent.schedules
    plain = Agent()
    declare = plain.schedule("weekly", every=timedelta(days=7), arguments={"day": "monday"})
    declare(plain.job("mail.weekly", encrypted=True)(report))
    (found,) = encrypt_schedules(CODEC, plain.schedules, {"mail.weekly"})
    assert payloads.decrypt_arguments(CODEC, found.schedule.arguments, "mail.weekly") == {"day": "monday"}
    assert found.schedule.arguments[MARK]["for"] == "schedule"
