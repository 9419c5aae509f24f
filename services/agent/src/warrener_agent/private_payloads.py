"""The payloads of one attempt between handler and wire: decrypted before it begins, encrypted as it ends.

The ledger is on the far side: it stores what was encrypted here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from pydantic_core import to_json

from warrener_agent.decisions import outcomes
from warrener_agent.definitions.job import JobDefinition
from warrener_contracts import events
from warrener_contracts import private_payloads as payloads
from warrener_contracts.identity import child_job_id
from warrener_contracts.private_payloads import PayloadCodec, PayloadUnreadable, ValueKind
from warrener_runtime.keys import ENCRYPTION_KEYS
from warrener_runtime.settings import SettingsError

_MAX_NAMES = 5  # of job types in an error
T = TypeVar("T", bound=outcomes.Outcome)


class AttemptPayloads:
    """Encrypts what an attempt sends. One that is not private encrypts only the arguments of job types that
    demand it."""

    def __init__(
        self,
        codec: PayloadCodec,
        data: events.AttemptDispatchedData,
        definition: JobDefinition,
        encrypted_types: frozenset[str],
    ) -> None:
        self._codec, self._job_id, self._encrypted_types = codec, data.job_id, encrypted_types
        key = payloads.encrypted_key(data.arguments)
        self.is_private = key is not None or definition.declaration.policy.encrypted
        # The key of the arguments stays that of the journal, whose digests are compared with earlier ones.
        self.digest_key = b"" if key is None else codec.derive(key, f"digest {data.job_id}")

    def result(self, text: str) -> str:
        return self._text(ValueKind.RESULT, text)

    def checkpoint(self, text: str) -> str:
        return self._text(ValueKind.CHECKPOINT, text)

    def arguments(self, arguments: dict[str, Any], job_type: str, job_id: UUID) -> dict[str, Any]:
        """Encrypt the arguments of a child job, or of the job that undoes a call."""
        if not self.is_private and job_type not in self._encrypted_types:
            return arguments
        return payloads.encrypt_arguments(self._codec, arguments, job_id, job_type)

    def step_record(self, text: str, call_id: str) -> str:
        """Encrypt the result of a step, for the ledger; `read_step` reads what the ledger has."""
        if not self.is_private:
            return text
        hidden = payloads.encrypt(self._codec, ValueKind.JOURNAL, text.encode(), self._job_id, call_id)
        return to_json(hidden).decode()

    def read_step(self, value: Any, call_id: str) -> Any:
        return payloads.decrypt(
            self._codec, ValueKind.JOURNAL, value, self._job_id, call_id, is_private=self.is_private
        )

    def signal(self, data: events.JobSignalRequestedData) -> events.JobSignalRequestedData:
        if not self.is_private:
            return data
        hidden = payloads.encrypt(self._codec, ValueKind.SIGNAL, to_json(data.data), data.job_id, data.name)
        return data.model_copy(update={"data": hidden})

    def outcome(self, outcome: T, job_type: str) -> T:
        """Encrypt the texts of an error, and the answers and arguments of a turn; a result is encrypted by
        `result`, since it may be recorded before."""
        match outcome:
            case outcomes.FailedOutcome(error) if self.is_private:
                return replace(outcome, error=payloads.encrypt_error(self._codec, error, self._job_id))
            case outcomes.CancelledOutcome() if self.is_private:
                return replace(outcome, flight_record=None)
            case outcomes.SuspendedOutcome(suspension):
                return replace(outcome, suspension=self._suspension(suspension, job_type))
            case _:
                return outcome

    def _suspension(self, found: events.Suspension, job_type: str) -> events.Suspension:
        changes: dict[str, Any] = {"calls": tuple(map(self._call, found.calls))}
        if self.is_private:
            changes["answers"] = tuple(map(self._answer, found.answers))
            changes["retries"] = tuple(one.model_copy(update={"error": ""}) for one in found.retries)
            if found.continued is not None:
                changes["continued"] = self.arguments(found.continued, job_type, self._job_id)
        return found.model_copy(update=changes)

    def _call(self, call: events.Call) -> events.Call:
        if call.undo is None:
            return call
        arguments = self.arguments(call.undo.arguments, call.undo.job_type, self._job_id)
        return call.model_copy(update={"undo": call.undo.model_copy(update={"arguments": arguments})})

    def _answer(self, answer: events.Answer) -> events.Answer:
        result = answer.result
        if result is not None:
            kind, text, call_id = ValueKind.JOURNAL, to_json(result), answer.call_id or ""
            result = payloads.encrypt(self._codec, kind, text, self._job_id, call_id)
        error = answer.error and payloads.encrypt_error(self._codec, answer.error, self._job_id)
        return answer.model_copy(update={"result": result, "error": error})

    def _text(self, kind: ValueKind, text: str) -> str:
        return (
            to_json(payloads.encrypt(self._codec, kind, text.encode(), self._job_id)).decode()
            if self.is_private
            else text
        )


def decrypt_attempt(
    codec: PayloadCodec | None,
    definition: JobDefinition,
    data: events.AttemptDispatchedData,
    checkpoint: events.Checkpoint | None,
) -> tuple[events.AttemptDispatchedData, events.Checkpoint | None]:
    """Decrypt what the handler of an attempt reads. Raises PayloadUnreadable, for a job type with
    `encrypted=True` also if any of it is plain."""
    changes: dict[str, Any] = {}
    is_private = definition.declaration.policy.encrypted
    if is_private and not payloads.are_encrypted(data.arguments):
        raise PayloadUnreadable(
            f"expected encrypted arguments of {data.job_type} and no others beside them, got plain ones"
        )
    if payloads.encrypted_key(data.arguments) is not None:
        changes["arguments"] = payloads.decrypt_arguments(codec, data.arguments, data.job_type)
    if checkpoint is not None:
        found = payloads.decrypt(
            codec, ValueKind.CHECKPOINT, checkpoint.state, data.job_id, is_private=is_private
        )
        if found is not checkpoint.state:
            checkpoint = checkpoint.model_copy(update={"state": found})
    if codec is not None and data.journal is not None:
        reader = _JournalReader(codec, data.job_id, is_private=is_private)
        changes["journal"] = reader.read(data.journal)
        changes["pages"] = tuple(map(reader.page, data.pages))
    return (data.model_copy(update=changes) if changes else data), checkpoint


def encrypt_schedules(
    codec: PayloadCodec | None,
    schedules: Sequence[events.ScheduleDeclaration],
    encrypted_types: Iterable[str],
) -> Sequence[events.ScheduleDeclaration]:
    """Encrypt the arguments of the schedules of the code whose job types demand it. Raises SettingsError for
    placeholders in them, and for such job types without keys."""
    types = frozenset(encrypted_types)
    if not types:
        return schedules
    if codec is None:
        names = ", ".join(sorted(types)[:_MAX_NAMES])
        raise SettingsError(
            [
                f"{ENCRYPTION_KEYS}: expected a file of keys for job types with encrypted=True ({names}), "
                "got none; name one, which `warrener keys ID --file FILE` makes"
            ]
        )
    try:
        return [
            one.model_copy(update={"schedule": payloads.encrypt_schedule(codec, one.schedule)})
            if one.schedule.job_type in types
            else one
            for one in schedules
        ]
    except ValueError as error:
        raise SettingsError([str(error)]) from error


class _JournalReader:
    """Decrypts the answers of a journal."""

    def __init__(self, codec: PayloadCodec, job_id: UUID, *, is_private: bool) -> None:
        self._codec, self._job_id, self._is_private = codec, job_id, is_private
        self._calls: dict[str, events.Call] = {}

    def read(self, journal: events.Journal) -> events.Journal:
        return journal.model_copy(update={"turns": tuple(map(self._turn, journal.turns))})

    def _turn(self, turn: events.Turn) -> events.Turn:
        changes: dict[str, Any] = {"answers": tuple(map(self._answer, turn.answers))}
        if (suspension := turn.suspension) is not None:
            self._calls |= {call.call_id: call for call in suspension.calls}
            own = {"answers": tuple(map(self._answer, suspension.answers))}
            changes["suspension"] = suspension.model_copy(update=own)
        return turn.model_copy(update=changes)

    def _answer(self, answer: events.Answer) -> events.Answer:
        call = self._calls.get(answer.call_id or "")
        if call is None:
            return answer
        kind, job_id, name = ValueKind.RESULT, call.job_id or child_job_id(self._job_id, call.call_id), ""
        if call.kind is events.CallKind.STEP:
            kind, job_id, name = ValueKind.JOURNAL, self._job_id, call.call_id
        elif call.kind is events.CallKind.SIGNAL:
            kind, job_id, name = ValueKind.SIGNAL, self._job_id, call.name
        return answer.model_copy(
            update={
                "result": self._value(kind, answer.result, job_id, name, is_due=answer.signal_id is not None),
                "error": payloads.decrypt_error(self._codec, answer.error, job_id),
                "members": answer.members and self._members(answer.members, call.call_id),
            }
        )

    def page(self, page: events.DispatchedPage) -> events.DispatchedPage:
        """Decrypt the results of a batch; those of one job come as they are."""
        call = self._calls.get(page.call_id)
        if call is None or call.source is None or call.source.size is None:
            return page
        first, batch = call.source.first, call.source.call_id
        items = (
            self._value(ValueKind.RESULT, item, child_job_id(self._job_id, f"{batch}/{number}"))
            for number, item in enumerate(page.items, first)
        )
        return page.model_copy(update={"items": tuple(items)})

    def _value(
        self, kind: ValueKind, value: Any, job_id: UUID, name: str = "", *, is_due: bool = False
    ) -> Any:
        """`is_due`: also null is encrypted."""
        is_private = self._is_private and (is_due or value is not None)
        return payloads.decrypt(self._codec, kind, value, job_id, name, is_private=is_private)

    def _members(self, end: events.MembersEnd, call_id: str) -> events.MembersEnd:
        def child(number: int) -> UUID:
            return child_job_id(self._job_id, f"{call_id}/{number}")

        def decrypted(one: events.MemberFailure) -> events.MemberFailure:
            error = payloads.decrypt_error(self._codec, one.error, child(one.number))
            return one.model_copy(update={"error": error})

        results = end.results and tuple(
            self._value(ValueKind.RESULT, result, child(number)) for number, result in enumerate(end.results)
        )
        return end.model_copy(update={"failures": tuple(map(decrypted, end.failures)), "results": results})
