"""One job: its row, its attempts, what it waits for, its relatives, and how it is redriven."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warrener.explanations import explain
from warrener.explanations.explanation import Explanation
from warrener.gathering import gather_job
from warrener.operations.jobs import JOBS, JobSelection, ListedJob, job_fields, job_of, select_jobs
from warrener.operations.masking import mask_attempt, mask_dead_letter, mask_explanation
from warrener.operations.noun import Backend, Outcome, Verb, VerbCall
from warrener.operations.redrives import Redrive, redrive_of, start
from warrener.operations.workflows import RESUME, SEND, UNDO, JobCall, calls_of
from warrener.options import read_object
from warrener.render.waterfall import MAX_CHILD_JOBS
from warrener.selection import find_job
from warrener_contracts.events import DeadLetterSelection, JobRedriveRequestedData
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.private_payloads import (
    PayloadCodec,
    ValueKind,
    decrypt,
    decrypt_arguments,
    decrypt_error,
)
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.jobs.rows import AttemptRow, JobFilter, JobRow
from warrener_store.jobs.views import CheckpointRow
from warrener_store.workflows.rows import arguments_of

_EXAMINED_TICKS = 20


class ScheduleTick(BaseModel):
    """The tick that requested a job; `nominal_at` is None for one that is no longer stored."""

    schedule: str
    nominal_at: datetime | None = None


class JobDetails(ListedJob):
    """A job with all that the store has beside it.

    `in_place_of` is the dead job that a redrive has requested again as this one, and `redriven_as` the job
    that a redrive has made of this one. `versions`: those of the code that ran each attempt, by its number.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    arguments: dict[str, Any]
    guarantee: Guarantee
    policy: JobPolicy
    timeout: timedelta = Field(
        description="Maximum time of the current attempt; a retry rule may have chosen it."
    )
    failures: int = Field(description="Attempts charged to the job.")
    losses: int = Field(description="Attempts lost with their agents.")
    agent_id: str | None = Field(description="The agent that runs the current attempt.")
    deadline_at: datetime | None
    ending_reason: str | None = Field(description="Of a workflow: why it ends so, and what was undone.")
    dispatched_at: datetime | None
    result: Any
    attempts: list[AttemptRow] = Field(description="Those that are over.")
    versions: dict[int, str]
    generation: int = Field(
        default=0,
        description="Of a workflow: the attempt that ended its last generation by flow.continue_as; else 0.",
    )
    continued: dict[str, Any] | None = Field(
        default=None, description="The arguments with which it has gone on then."
    )
    calls: list[JobCall] = Field(default=[], description="Of a workflow, in their order.")
    child_jobs: list[ListedJob]
    parent: ListedJob | None
    checkpoint: CheckpointRow | None = Field(description="Of a workflow: the state that it has published.")
    dead_letter: DeadLetter | None
    redrive: Redrive | None
    redriven_as: ListedJob | None
    in_place_of: UUID | None
    tick: ScheduleTick | None
    trace_id: str | None
    queue_refuses_since: datetime | None
    explanation: Explanation


async def read_job(backend: Backend, job_id: str) -> JobDetails:
    """Read one job, by its id, a part of it, the id of its request, or its idempotency key."""
    return await read_details(backend, await find_job(backend.store, job_id))


async def read_details(backend: Backend, row: JobRow, codec: PayloadCodec | None = None) -> JobDetails:
    """Read what stands beside a job's row, and explain what it waits for. With a codec, arguments, result,
    error and checkpoint are decrypted. Raises PayloadUnreadable."""
    store, masker = backend.store, await backend.learn()
    own_masker = masker.of(row.job_type)
    row = row if codec is None else _decrypted(codec, row)
    facts = await gather_job(store, backend.endpoints, row, query_broker=backend.query_broker)
    explanation = mask_explanation(own_masker, explain(facts))
    own_attempts = (
        facts.attempts if codec is None else [_decrypted_attempt(codec, one) for one in facts.attempts]
    )
    dead_letters, own = store.dead_letter_store, facts.dead_letter
    origins = await dead_letters.list_dead_letters(
        DeadLetterFilter(states=(), redriven_as=(row.job_id,), limit=1)
    )
    redrive_id = own.redrive_id if own else origins[0].redrive_id if origins else None
    redrives = await dead_letters.redrives([redrive_id]) if redrive_id else []
    children = await store.list_jobs(JobFilter(parent_id=row.job_id, limit=MAX_CHILD_JOBS))
    checkpoint = (await store.checkpoints_of([row.job_id])).get(row.job_id)
    if codec is not None and checkpoint is not None:
        state = decrypt(codec, ValueKind.CHECKPOINT, checkpoint.state, row.job_id)
        checkpoint = replace(checkpoint, state=state)
    attempts = [mask_attempt(own_masker, one) for one in own_attempts]
    own_fields = job_fields(JobDetails, row, masker, facts.system.breakers, facts.turns)
    fields: dict[str, Any] = own_fields | {
        "arguments": own_masker.value(row.arguments),
        "ending_reason": row.ending_reason and own_masker.text(row.ending_reason),
        "result": own_masker.value(row.result),
        "attempts": attempts,
        "versions": await _versions(backend, row, attempts),
        "continued": own_masker.value(arguments_of(facts.turns)),
        "calls": calls_of(row, facts.turns, facts.jobs, masker),
        "child_jobs": [job_of(child, masker, facts.system.breakers) for child in children],
        "parent": facts.parent and job_of(facts.parent, masker),
        "checkpoint": checkpoint and replace(checkpoint, state=own_masker.value(checkpoint.state)),
        "dead_letter": own and mask_dead_letter(masker, own),
        "redrive": redrive_of(redrives[0], masker) if redrives else None,
        "redriven_as": facts.redriven_as and job_of(facts.redriven_as, masker),
        "in_place_of": origins[0].job_id if origins else None,
        "tick": await _tick_of(backend, row, facts.schedule),
        "trace_id": row.traceparent.split("-")[1] if row.traceparent else None,
        "queue_refuses_since": facts.refusing_since,
        "explanation": explanation,
    }
    return JobDetails.model_construct(**fields)


def _decrypted(codec: PayloadCodec, row: JobRow) -> JobRow:
    return replace(
        row,
        arguments=decrypt_arguments(codec, row.arguments, row.job_type),
        result=decrypt(codec, ValueKind.RESULT, row.result, row.job_id),
        error=decrypt_error(codec, row.error, row.job_id),
    )


def _decrypted_attempt(codec: PayloadCodec, attempt: AttemptRow) -> AttemptRow:
    return replace(attempt, error=decrypt_error(codec, attempt.error, attempt.job_id))


async def _versions(backend: Backend, row: JobRow, attempts: Sequence[AttemptRow]) -> dict[int, str]:
    """The versions of the code that ran the attempts, by number, as far as their agents named them."""
    ran = [(one.attempt, one.agent_id, one.started_at) for one in attempts]
    if row.state is JobState.RUNNING:
        ran.append((row.attempt, row.agent_id, row.started_at))
    agents = {agent_id for _, agent_id, _ in ran if agent_id}
    known = await backend.store.statistics.agent_versions(agents) if agents else []
    found: dict[int, str] = {}
    for number, agent_id, started_at in ran:
        for version in known:  # by time
            if version.agent_id == agent_id and started_at is not None and version.since <= started_at:
                found[number] = version.code_version
    return found


async def _tick_of(backend: Backend, row: JobRow, schedule: str | None) -> ScheduleTick | None:
    if schedule is None:
        return None
    ticks = await backend.store.ticks_of(schedule, _EXAMINED_TICKS, end=row.requested_at)
    nominal_at = next((tick.nominal_at for tick in ticks if tick.job_id == row.job_id), None)
    return ScheduleTick(schedule=schedule, nominal_at=nominal_at)


# -- verbs -------------------------------------------------------------------------------------------------


class RedriveJobsBody(JobSelection):
    """Request dead jobs again. `edits`: a JSON merge patch of their arguments."""

    edits: Annotated[dict[str, Any], BeforeValidator(read_object)] = Field(default_factory=dict[str, Any])
    queue: str | None = None


async def redrive_jobs(call: VerbCall[RedriveJobsBody]) -> Outcome:
    """Request dead jobs again: those of these ids, or all that match the filters of a list."""
    body = call.body
    job_ids, rest = await select_jobs(call, {JobState.DEAD}, "dead jobs")
    data = JobRedriveRequestedData(
        selection=DeadLetterSelection(job_ids=tuple(job_ids)),
        edits=body.edits,
        queue=body.queue,
        by=call.by,
        reason=body.reason,
    )
    outcome = await start(call, data)
    if len(body.ids) == 1:  # its own page shows the redrive
        return replace(outcome, location=None)
    return replace(outcome, sentence=f"{outcome.sentence}{rest}")


_REDRIVE = Verb("redrive", RedriveJobsBody, redrive_jobs, keys="ids")
JOB = replace(JOBS, read=read_job, verbs=(*JOBS.verbs, _REDRIVE, SEND, RESUME, UNDO))
