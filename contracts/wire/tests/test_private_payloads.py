"""What the envelope of a private value binds, whichever codec encrypts."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import pytest

from warrener_contracts import private_payloads as payloads
from warrener_contracts.events import ErrorInfo, ErrorKind, FlightRecord, SchedulePutData
from warrener_contracts.private_payloads import MARK, PayloadUnreadable, ValueKind
from warrener_contracts.schedule_rules import IntervalRule

JOB = UUID("0193a000-0000-7000-8000-000000000001")


class PlainCodec:
    """Encrypts nothing, and remembers what a text was bound to."""

    key_id = "k1"

    def encrypt(self, plain: bytes, associated: bytes, place: bytes = b"") -> tuple[bytes, bytes]:
        return sha256(associated).digest() + sha256(place).digest(), plain

    def decrypt(self, key_id: str, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        if key_id != self.key_id:
            raise KeyError(key_id)
        if nonce[:32] != sha256(associated).digest():
            raise ValueError("bound to something else")
        return data

    def derive(self, key_id: str, purpose: str) -> bytes:
        return sha256(f"{key_id}{purpose}".encode()).digest()


CODEC = PlainCodec()


def encrypted(job_type: str = "a.b", job_id: UUID = JOB) -> dict[str, Any]:
    return payloads.encrypt_arguments(CODEC, {"n": 1}, job_id, job_type)


def schedule(**arguments: Any) -> SchedulePutData:
    rule = IntervalRule(every=timedelta(days=1), anchor=datetime(2026, 1, 1, tzinfo=UTC))
    return SchedulePutData(name="daily", job_type="a.b", arguments=arguments, rule=rule)


def test_arguments_are_those_of_their_job_type_and_no_job_derives_a_way_to_them() -> None:
    """A redrive, an undo and a retried child copy them as they are."""
    assert set(encrypted()[MARK]) == {"key", "nonce", "data"}, "nothing that its bearer could edit"
    assert payloads.decrypt_arguments(CODEC, encrypted(), "a.b") == {"n": 1}
    assert payloads.decrypt_arguments(None, {"plain": 1}, "a.b") == {"plain": 1}
    with pytest.raises(PayloadUnreadable):
        payloads.decrypt_arguments(CODEC, encrypted(), "a.c")


def test_equal_arguments_of_two_jobs_do_not_look_equal() -> None:
    assert encrypted() == encrypted()
    assert encrypted() != encrypted(job_id=uuid4())


def test_what_is_encrypted_is_not_encrypted_again() -> None:
    assert payloads.encrypt_arguments(CODEC, encrypted(), uuid4(), "a.b") == encrypted()


def test_plain_arguments_count_beside_those_of_a_schedule_alone() -> None:
    found = payloads.encrypt_schedule(CODEC, schedule(n=1)).arguments
    assert payloads.decrypt_arguments(CODEC, {**found, "event": 2, "n": 3}, "a.b") == {"event": 2, "n": 1}
    with pytest.raises(PayloadUnreadable, match="no others beside them, got event"):
        payloads.decrypt_arguments(CODEC, {**encrypted(), "event": 2}, "a.b")
    relabelled = {MARK: {**encrypted()[MARK], "for": "schedule"}, "event": 2}
    with pytest.raises(PayloadUnreadable, match="they were changed or moved"):
        payloads.decrypt_arguments(CODEC, relabelled, "a.b")
    with pytest.raises(PayloadUnreadable):
        payloads.decrypt_arguments(CODEC, found, "a.c")


def test_encrypted_arguments_of_a_schedule_have_no_placeholders() -> None:
    with pytest.raises(ValueError, match="daily: expected encrypted arguments without placeholders"):
        payloads.encrypt_schedule(CODEC, schedule(day="{{ tick.run }}"))


def test_a_kind_is_not_another() -> None:
    found = payloads.encrypt(CODEC, ValueKind.RESULT, b"1", JOB)
    assert payloads.decrypt(CODEC, ValueKind.RESULT, found, JOB) == 1
    for kind in set(ValueKind) - {ValueKind.RESULT}:
        with pytest.raises(PayloadUnreadable):
            payloads.decrypt(CODEC, kind, found, JOB)


@pytest.mark.parametrize("kind", [one for one in ValueKind if one is not ValueKind.ARGUMENTS])
def test_every_other_value_counts_for_its_job_alone(kind: ValueKind) -> None:
    found = payloads.encrypt(CODEC, kind, b"1", JOB)
    with pytest.raises(PayloadUnreadable, match="they were changed or moved"):
        payloads.decrypt(CODEC, kind, found, uuid4())


def test_an_error_keeps_its_class_and_hides_its_texts() -> None:
    record = FlightRecord(stacks="s", log="l", progress=0.5)
    error = ErrorInfo(
        kind=ErrorKind.ERROR, type="Bad", message="m" * 4000, stack="é" * 60_000, flight_record=record
    )
    hidden = payloads.encrypt_error(CODEC, error, JOB)
    assert (hidden.type, hidden.message) == ("Bad", "encrypted (key k1)")
    assert payloads.shown(hidden.stack) == "encrypted (key k1)"
    read = ErrorInfo.model_validate_json(hidden.model_dump_json())
    opened = payloads.decrypt_error(CODEC, read, JOB)
    assert opened is not None
    assert (opened.message, opened.stack) == (error.message, "é" * 10_000)
    assert opened.flight_record == record
    timeout = error.model_copy(update={"kind": ErrorKind.TIMEOUT, "message": "ran too long"})
    assert payloads.encrypt_error(CODEC, timeout, JOB).message == "ran too long"


def test_a_missing_key_is_named() -> None:
    other = {MARK: {**encrypted()[MARK], "key": "k2"}}
    with pytest.raises(PayloadUnreadable, match="'k2'"):
        payloads.decrypt_arguments(CODEC, other, "a.b")
    with pytest.raises(PayloadUnreadable, match="WARRENER_ENCRYPTION_KEYS_FILE"):
        payloads.decrypt_arguments(None, encrypted(), "a.b")


def test_anybody_sees_the_key_alone() -> None:
    assert payloads.shown(encrypted()) == "encrypted (key k1)"
    assert payloads.shown({"n": 1}) is None
    assert payloads.shown('{"warrener:encrypted": x') is None
