"""Decide whether a request becomes a job, and which one. Pure.

A request whose job is in the store already is a duplicate: its digest says whether it is the same request.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import jsonschema_rs

from warrener_contracts.events import ErrorInfo, ErrorKind, JobRequested, JobRequestedData, JsonObject, Reason
from warrener_contracts.gates import job_gates, map_gate
from warrener_contracts.identity import job_id_of
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.private_payloads import are_encrypted, encrypted_key
from warrener_contracts.retryability import REQUEST_REJECTED
from warrener_contracts.state_machine import JobState
from warrener_contracts.templates import TemplateError
from warrener_contracts.unique import OnRepeat, unique_key
from warrener_scheduler.rejections import Rejected
from warrener_store.agents.rows import JobTypeRow
from warrener_store.gates.rows import encode_gates
from warrener_store.jobs.rows import FOLLOWS, JobRow, evolve
from warrener_store.workflows.rows import MemberOf

_QUEUE = "default"
_MAX_PROBLEMS = 5
_MAX_VALUE_LENGTH = 120  # characters of a value
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CachedJobType:
    """A job type as it was read from the store. Without a validator its arguments are not checked here."""

    row: JobTypeRow
    validator: jsonschema_rs.Validator | None
    read_at: float


class Accepted(NamedTuple):
    """The job to insert: queued with attempt 1, or waiting for its time."""

    row: JobRow


AdmissionDecision = Accepted | Rejected


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same job is requested again.

    `dispatch`: if its message was handled before, the first dispatch may never have been published, so it is
    published again (the agent's ledger lets one through). `instead_of`: the request names another job, and
    this one stands for it by its idempotency key.
    """

    row: JobRow
    dispatch: bool
    instead_of: UUID | None = None


def job_id_for(event: JobRequested) -> UUID:
    """Return the id of the job that `event` requests."""
    return job_id_of(event.source, event.id)


def decide(
    event: JobRequested, known: CachedJobType | None, now: datetime, unknown_queues: Mapping[str | None, str]
) -> AdmissionDecision:
    """Accept or reject `event`, given its job type as announced, None if no agent has announced it, and the
    queues that no request may name but for this job type, with the reasons.

    The row gets the trace context of the event.
    """
    data = event.data
    if known is None:
        detail = (
            f"expected a job type that an agent has announced, got {data.job_type!r}: start an agent for it"
        )
        return Rejected(Reason.UNKNOWN_JOB_TYPE, detail)
    problem = find_argument_problem(known, data.arguments)
    if problem is not None and problem.hides_arguments:
        return problem
    if data.queue in unknown_queues and data.queue not in {known.row.queue, *known.row.policy.rule_queues}:
        return Rejected(Reason.BAD_FIELDS, unknown_queues[data.queue])
    if problem is not None:
        return problem
    try:
        return Accepted(_row(event, known.row, now))
    except TemplateError as error:
        return Rejected(Reason.BAD_ARGUMENTS, f"key of a limit, or of unique: {error}")


def classify_duplicate(event: JobRequested, row: JobRow) -> Duplicate | Rejected:
    """Decide about `event`, for whose job (or idempotency key) the store holds `row`."""
    requested_id = job_id_for(event)
    if row.job_id != requested_id:
        if not _is_same_work(event.data.arguments, row.arguments):
            detail = (
                f"expected the arguments of job {row.job_id}, which has the idempotency key "
                f"{event.data.idempotency_key!r}, got others: a new job needs a new key"
            )
            return Rejected(Reason.CONFLICTING_REPEAT, detail)
        return Duplicate(row, dispatch=False, instead_of=requested_id)
    if row.request_hash and row.source != event.source:
        detail = (
            f"expected the id of an own request, got {event.id!r}, which another source has used: "
            "a new job needs a new id"
        )
        return Rejected(Reason.CONFLICTING_REPEAT, detail)
    if row.request_hash not in ("", request_digest(event.data)):
        detail = (
            f"expected the content of the earlier request with id {event.id!r}, got another one: "
            "a new job needs a new id"
        )
        return Rejected(Reason.CONFLICTING_REPEAT, detail)
    published = row.state is JobState.QUEUED and row.attempt == 1 and row.dispatched_at is not None
    return Duplicate(row, dispatch=published)  # supervisors publish the unpublished ones


def classify_repeat(event: JobRequested, holder: JobRow, repeat: OnRepeat) -> Duplicate | Rejected:
    """Decide about `event`, whose unique key `holder` has."""
    if repeat is OnRepeat.FIRST:
        return Duplicate(holder, dispatch=False, instead_of=job_id_for(event))
    begun = " and cannot be replaced any longer" if repeat is OnRepeat.REPLACE else ""
    detail = (
        f"expected no other job of {event.data.job_type} with its unique key, got {holder.job_id}, which is "
        f"{holder.state}{begun}: request it again later"
    )
    return Rejected(Reason.CONFLICTING_REPEAT, detail, parks=False)


def _is_same_work(arguments: JsonObject, earlier: JsonObject) -> bool:
    """True if a repeat of a key requests what its job does. When it is to run may have moved meanwhile.

    Encrypted arguments differ from job to job, whatever they hold, and nobody here can read them.
    """
    if encrypted_key(arguments) is not None and encrypted_key(earlier) is not None:
        return True
    return arguments == earlier or _CANONICAL.encode(arguments) == _CANONICAL.encode(earlier)


def rejected_row(event: JobRequested, rejected: Rejected, now: datetime) -> JobRow:
    """Return the row of a child job whose request was rejected: its parent may wait for an end of it."""
    error = ErrorInfo(kind=ErrorKind.ERROR, type=REQUEST_REJECTED, message=rejected.public, retryable=False)
    row = _child_row(event, now)
    queue = _QUEUE if rejected.reason is Reason.BAD_FIELDS else row.queue
    return evolve(row, queue=queue, state=JobState.DEAD, error=error, finished_at=now)


def follower_row(event: JobRequested, leader: UUID, now: datetime) -> JobRow:
    """Return the row of a child job that another job stands for: it ends as that does, for its parent."""
    return evolve(_child_row(event, now), ending_reason=f"{FOLLOWS}{leader}", wake_at=now)


def _child_row(event: JobRequested, now: datetime) -> JobRow:
    """Return the row of a child job that no agent will run."""
    data = event.data
    return JobRow(
        job_id=job_id_for(event),
        job_type=data.job_type,
        queue=data.queue or _QUEUE,
        arguments={},  # the store may have refused them
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source=event.source,
        parent_id=data.parent_id,
        member_of=MemberOf.of(data),
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        requested_at=event.time or now,
        accepted_at=now,
        state=JobState.WAITING,
        updated_at=now,
    )


def was_rejected(row: JobRow) -> bool:
    """True if the row stands for a rejected request, and for no job."""
    return not row.attempt and row.error is not None and row.error.type == REQUEST_REJECTED


def request_digest(data: JobRequestedData) -> str:
    """Return the digest of a request: the same for the same job, whatever the order of its arguments.

    It is compared with digests that earlier versions have stored: the digested text never changes.
    """
    return blake2b(_digested_text(data).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# -- the row of a new job -----------------------------------------------------------------------------------


def _row(event: JobRequested, job_type: JobTypeRow, now: datetime) -> JobRow:
    data = event.data
    policy = data.policy.apply_to(job_type.policy) if data.policy else job_type.policy
    due_at, deadline_at = _due_at(data, now), _deadline_at(data, now)
    if policy.unique is not None:
        unique_key(data.job_type, policy.unique, data.arguments)  # raises TemplateError: the store needs it
        if encrypted_key(data.arguments) is not None:
            raise TemplateError("expected plain arguments, got encrypted ones, which nobody can compare")
        due_at = max(due_at, now + policy.unique.wait)
    # A job whose deadline has passed gets no attempt, and the supervisor ends it.
    waits = due_at > now or (deadline_at is not None and deadline_at <= now)
    queue = data.queue or job_type.queue
    gates = job_gates(data.job_type, queue, policy.gates, data.arguments) if policy.gates else []
    if data.member_of is not None and data.parent_id is not None:
        gates.append((map_gate(data.parent_id, data.member_of.map_id), data.member_of.in_flight))
    job_id = job_id_for(event)
    return JobRow(
        job_id=job_id,
        job_type=data.job_type,
        queue=queue,
        arguments=data.arguments,
        guarantee=job_type.guarantee,
        policy=policy.with_initial_wait(due_at - now) if waits else policy,
        source=event.source,
        idempotency_key=data.idempotency_key,
        parent_id=data.parent_id,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        baggage=event.baggage,
        requested_at=event.time or now,
        accepted_at=now,
        deadline_at=deadline_at,
        request_hash=request_digest(data),
        request_id=None if event.id == str(job_id) else event.id,
        gates=encode_gates(gates),
        member_of=MemberOf.of(data),
        state=JobState.WAITING if waits else JobState.QUEUED,
        attempt=0 if waits else 1,
        watchers=(data.reply_to,) if data.reply_to else (),
        due_at=due_at if waits else None,
        wake_at=due_at if waits else now + policy.start_timeout,
        dispatched_at=None if waits else now,
        updated_at=now,
    )


def _due_at(data: JobRequestedData, now: datetime) -> datetime:
    """Return the later time if both are given: neither may be broken."""
    if data.not_before is None and data.delay is None:
        return now
    return max(data.not_before or now, now + (data.delay or timedelta(0)))


def _deadline_at(data: JobRequestedData, now: datetime) -> datetime | None:
    """Return the earlier time if both are given."""
    if data.expires_after is None:
        return data.deadline
    expires_at = now + data.expires_after
    return expires_at if data.deadline is None else min(data.deadline, expires_at)


# -- the digest of a request ---------------------------------------------------------------------------------


def _digested_text(data: JobRequestedData) -> str:
    """Write all fields but `reply_to`, because a repeat may have another reply address, and `member_of`,
    which the job's id has, and which earlier versions do not know."""
    if _has_options(data):
        return _CANONICAL.encode(data.model_dump(mode="json", exclude={"reply_to", "member_of"}))
    # Most requests: the fields that they leave out are written as constants.
    return (
        f'{{"arguments":{_CANONICAL.encode(data.arguments)},"deadline":null,"delay":null,"expires_after":null,'
        f'"idempotency_key":{_json(data.idempotency_key)},"job_type":{_json(data.job_type)},'
        f'"not_before":null,"parent_id":null,"policy":null,"queue":{_json(data.queue)}}}'
    )


def _has_options(data: JobRequestedData) -> bool:
    return (
        data.deadline is not None
        or data.delay is not None
        or data.expires_after is not None
        or data.not_before is not None
        or data.parent_id is not None
        or data.policy is not None
    )


@lru_cache(maxsize=1024)
def _json(text: str | None) -> str:
    return _CANONICAL.encode(text)


# -- the arguments -------------------------------------------------------------------------------------------


def find_argument_problem(known: CachedJobType, arguments: JsonObject) -> Rejected | None:
    """Return what is wrong with the arguments of a job type. Encrypted ones are checked by their agent."""
    if (why := _find_plain_arguments(known, arguments)) is not None:
        return Rejected(Reason.BAD_ARGUMENTS, why, hides_arguments=True)
    if known.validator is None or encrypted_key(arguments) is not None:
        return None
    return find_argument_error(known.validator, arguments)


def _find_plain_arguments(known: CachedJobType, arguments: JsonObject) -> str | None:
    if not known.row.policy.encrypted or are_encrypted(arguments):
        return None
    return (
        f"expected encrypted arguments of {known.row.name} alone, got plain ones: give their sender a key "
        "(WARRENER_ENCRYPTION_KEYS_FILE)"
    )


def find_argument_error(validator: jsonschema_rs.Validator, arguments: JsonObject) -> Rejected | None:
    """Return the mistakes in `arguments`; None without any. In public, each is its place and the keyword of
    the schema."""
    if validator.is_valid(arguments):
        return None
    found = list(islice(validator.iter_errors(arguments), _MAX_PROBLEMS))
    public = (f"{_place(one)}: expected a value that meets `{one.kind.name}`, got another" for one in found)
    return Rejected(Reason.BAD_ARGUMENTS, "; ".join(map(_describe_error, found)), "; ".join(public))


def _place(error: jsonschema_rs.ValidationError) -> str:
    return ".".join(["arguments", *(str(part) for part in error.instance_path)])


def _describe_error(error: jsonschema_rs.ValidationError) -> str:
    where = _place(error)
    match error.kind.name:
        case "type":
            expected = " or ".join(str(kind) for kind in error.kind.value)
            return f"{where}: expected {expected}, got {_shorten(error.instance)}"
        case "required":
            return f"{where}: expected {error.kind.value!r}, got none"
        case "additionalProperties":
            return f"{where}: expected no {', '.join(repr(name) for name in error.kind.value)}, got one"
        case "enum":
            return f"{where}: expected one of {_shorten(error.kind.value)}, got {_shorten(error.instance)}"
        case _:
            return f"{where}: {error.message[:300]}"


def _shorten(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
