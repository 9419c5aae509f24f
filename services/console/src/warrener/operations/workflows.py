"""Workflows: their calls and journals, the trees of their jobs, their signals, and ends of their holds."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo

from warrener.explanations.facts import first_line
from warrener.operations.jobs import find_ids
from warrener.operations.masking import Masker, mask_error
from warrener.operations.noun import ActionBody, Backend, Keys, Outcome, Verb, VerbCall, fields_from
from warrener.options import json_or_text
from warrener.render.screen import one_line
from warrener.render.tones import Tone
from warrener_contracts import events
from warrener_contracts.identity import child_job_id, undo_job_id
from warrener_contracts.journals import all_calls, answers_by_call, current_calls, open_calls, open_retries
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.workflows.rows import TurnRow, arguments_of, journal_of

_MAX_DEPTH = 8  # levels of a tree
_MAX_SHOWN, _MAX_COUNTED = 50, 200  # child jobs of one job
_MAX_JOBS = 500  # of a tree
_MAX_FAILURES = 10  # of a batch of a map
_MAX_ANSWER = 60  # characters of a result in a list


class CallState(StrEnum):
    """How a call of a workflow stands."""

    AWAITED = "awaited"
    ANSWERED = "answered"
    FAILED = "failed"
    CLOSED = "closed"  # nothing awaits it any longer


CALL_TONES: dict[CallState, Tone] = {
    CallState.AWAITED: Tone.LIVE,
    CallState.ANSWERED: Tone.GOOD,
    CallState.FAILED: Tone.ERROR,
    CallState.CLOSED: Tone.SOFT,
}


class FailedMapJob(BaseModel):
    """A job of a map that did not succeed."""

    index: int = Field(description="The number of its item, from 0.")
    job_id: UUID
    state: JobState
    error: str = Field(description="The first line of its error.")


class JobCall(BaseModel):
    """A call of a workflow: a child job, a batch of a map, a page, a step, or a signal that it receives."""

    call_id: str
    kind: events.CallKind
    name: str = Field(description="The job type, the signal, or the function of the step.")
    line: str = Field(description="Where the code calls, such as orders.py:41.")
    state: CallState
    turn: int = Field(description="The attempt that made it.")
    called_at: datetime | None
    answered_at: datetime | None
    answer: str = Field(description="Result, or data of the signal, in a line that is cut if it is long.")
    error: str = Field(description="Why the child job or the last try of the step did not succeed.")
    tries: int = Field(default=1, description="Of a step: how often it was tried.")
    size: int | None = Field(default=None, description="Of a batch of a map: the number of its jobs.")
    failed: int = Field(default=0, description="Of a batch of a map: those that did not succeed.")
    failures: list[FailedMapJob] = Field(
        default_factory=list[FailedMapJob], description=f"The first {_MAX_FAILURES} of these."
    )
    job_id: UUID | None = Field(description="The child job.")
    job_state: JobState | None
    retry_of: UUID | None = Field(
        default=None, description="The child job that failed, and in whose place this one was requested."
    )
    detached: bool
    undo: str | None = Field(description="The job type of the job that undoes it.")
    undo_id: UUID | None = Field(description="That job, once it was requested.")
    undo_state: JobState | None


def calls_of(
    row: JobRow, turns: Sequence[TurnRow], jobs: Mapping[UUID, JobRow], known: Masker
) -> list[JobCall]:
    """Make the calls of a workflow, in their order; none is awaited once its end is decided. `jobs`: its
    child jobs and those that undo, as far as they are read. Pure."""
    answers, is_over = answers_by_call(turns), row.state.terminal or row.ending is not None
    retries = open_retries(turns)
    failed_tries = {
        one.call_id: one.tries for turn in turns if turn.suspension for one in turn.suspension.retries
    }
    awaited = set[str]() if is_over else {call.call_id for call in open_calls(turns)}
    made_by = {
        call.call_id: turn for turn in turns if turn.suspension is not None for call in turn.suspension.calls
    }

    first = Counter[str]()  # items of each map that came before

    def make(call: events.Call) -> JobCall:
        answer, child = answers.get(call.call_id), call.job_id and jobs.get(call.job_id)
        masker = known.of(child.job_type if child else row.job_type)
        undo = jobs.get(undo_job_id(row.job_id, call.undo_key))
        error, retry = None if answer is None else mask_error(masker, answer.error), retries.get(call.call_id)
        members, page = (None, None) if answer is None else (answer.members, answer.page)
        map_id = call.call_id.rpartition("/")[0]
        index, first[map_id] = first[map_id], first[map_id] + (call.size or 0)
        failed = _briefly(error)
        if retry is not None:
            failed = f"try {retry.tries}: {first_line(masker.text(retry.error))}"
        has_failed = error is not None or (members is not None and members.failed > 0)
        ended = CallState.CLOSED if answer is None else CallState.FAILED if has_failed else CallState.ANSWERED
        fields: dict[str, Any] = {
            **fields_from(JobCall, call),
            "state": CallState.AWAITED if call.call_id in awaited else ended,
            "turn": made_by[call.call_id].attempt,
            "called_at": made_by[call.call_id].suspended_at,
            "answered_at": answer.at if answer else child.finished_at if child else None,
            "answer": "" if answer is None else _write_briefly(masker.value(answer.result)),
            "error": failed,
            "tries": failed_tries.get(call.call_id, 0) + (call.call_id not in retries),
            **({"answer": f"{page.size:,} of {page.total:,}"} if page else {}),
            **(_of_members(row, call, members, index, masker) if members else {}),
            "job_state": (answer and answer.state) or (child and child.state),
            "undo": call.undo and call.undo.job_type,
            "undo_id": undo and undo.job_id,
            "undo_state": undo and undo.state,
        }
        return JobCall(**fields)

    return [make(call) for call in current_calls(turns).values()]


def _of_members(
    row: JobRow, call: events.Call, end: events.MembersEnd, first: int, masker: Masker
) -> dict[str, Any]:
    """The counts of a batch of a map, of which an item is the `first`, and its first failures."""
    return {
        "answer": f"{end.succeeded:,} succeeded",
        "failed": end.failed,
        "error": f"{end.failed:,} failed" if end.failed else "",
        "failures": [
            FailedMapJob(
                index=first + one.number,
                job_id=child_job_id(row.job_id, f"{call.call_id}/{one.number}"),
                state=one.state,
                error=_briefly(mask_error(masker, one.error)),
            )
            for one in end.failures[:_MAX_FAILURES]
        ],
    }


def _briefly(error: events.ErrorInfo | None) -> str:
    return "" if error is None else f"{error.type}: {first_line(error.message)}"


def _write_briefly(value: Any) -> str:
    line = "" if value is None else one_line(json.dumps(value, ensure_ascii=False))
    return line if len(line) <= _MAX_ANSWER else f"{line[: _MAX_ANSWER - 1]}…"


# -- journals ----------------------------------------------------------------------------------------------


class JobJournal(BaseModel):
    """The journal of a workflow, with which a test replays it. Of any other job it has no turns."""

    job_id: UUID
    job_type: str
    arguments: dict[str, Any] = Field(description="Those of its generation.")
    requested_at: datetime
    generation: int = Field(
        description="The attempt that ended the generation before, by flow.continue_as; 0 for the first."
    )
    turns: list[events.Turn] = Field(description="As an agent receives them with a dispatch.")


async def read_journal(backend: Backend, row: JobRow) -> JobJournal:
    """Read the journal of a workflow: the calls and the answers of all its turns, as `warrener job --journal
    --json` has it."""
    turns = (await backend.store.turns_of([row.job_id])).get(row.job_id, [])
    hide = (await backend.learn()).of(row.job_type)
    journal, continued = journal_of(turns), arguments_of(turns)
    fields: dict[str, Any] = fields_from(JobJournal, row) | {
        "arguments": hide.value(row.arguments if continued is None else continued),
        "generation": journal.generation,
    }
    return JobJournal(**fields, turns=[_mask_turn(hide, turn) for turn in journal.turns])


def _mask_turn(masker: Masker, turn: events.Turn) -> events.Turn:
    """Hide the secrets of the answers of a turn, and of the arguments that undo its calls."""

    def hide(answers: Iterable[events.Answer]) -> tuple[events.Answer, ...]:
        return tuple(
            one.model_copy(
                update={"result": masker.value(one.result), "error": mask_error(masker, one.error)}
            )
            for one in answers
        )

    def hide_undo(call: events.Call) -> events.Call:
        if call.undo is None:
            return call
        arguments = masker.value(call.undo.arguments)
        return call.model_copy(update={"undo": call.undo.model_copy(update={"arguments": arguments})})

    end = turn.suspension
    if end is not None:
        changes = {"calls": tuple(map(hide_undo, end.calls)), "answers": hide(end.answers)}
        end = end.model_copy(update=changes)
    return turn.model_copy(update={"answers": hide(turn.answers), "suspension": end})


# -- trees -------------------------------------------------------------------------------------------------


class TreeJob(BaseModel):
    """A job of a tree. `more`: its child jobs that are not listed; `is_counted`: False if there may be more
    than that."""

    job_id: UUID
    parent_id: UUID | None
    depth: int = Field(description="0: the job whose tree it is.")
    job_type: str
    state: JobState
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    more: int
    is_counted: bool


class JobTree(BaseModel):
    """A job and those below it: each stands behind its parent, and before the younger child jobs of that."""

    jobs: list[TreeJob]


async def read_tree(backend: Backend, row: JobRow) -> JobTree:
    """Read a job, its child jobs, theirs, and so on: 8 levels and 500 jobs, and 50 of each parent."""
    found: list[TreeJob] = []
    left = [(row, 0)]  # the next one is the last
    while left:
        one, depth = left.pop()
        below = await backend.store.list_jobs(JobFilter(parent_id=one.job_id, limit=_MAX_COUNTED + 1))
        if one.suspensions and len(below) <= _MAX_COUNTED:
            below += await _children_without_request(backend, one, {child.job_id for child in below})
        room = _MAX_JOBS - len(found) - len(left) - 1 if depth < _MAX_DEPTH else 0
        shown = below[-min(_MAX_SHOWN, room) :] if room > 0 else []  # the oldest, the last one first
        left += [(child, depth + 1) for child in shown]
        fields: dict[str, Any] = {**fields_from(TreeJob, one), "depth": depth}
        more, is_counted = len(below) - len(shown), len(below) <= _MAX_COUNTED
        found.append(TreeJob(**fields, more=more, is_counted=is_counted))
    return JobTree(jobs=found)


async def _children_without_request(backend: Backend, row: JobRow, known: set[UUID]) -> list[JobRow]:
    """Read the child jobs that were cancelled before their requests were accepted: their rows lack the type
    and the parent, which the calls of the workflow name."""
    turns = (await backend.store.turns_of([row.job_id])).get(row.job_id, [])
    names = {call.job_id: call.name for call in all_calls(turns) if call.job_id not in {None, *known}}
    found = await backend.store.jobs_by_id([each for each in names if each is not None][:_MAX_COUNTED])
    return [
        replace(job, job_type=names[job.job_id], parent_id=row.job_id)
        for job in found.values()
        if job.parent_id is None
    ]


# -- signals -----------------------------------------------------------------------------------------------


def _read_data(given: Any, info: ValidationInfo) -> Any:
    """Read the text of a form or a command; a program sends the value itself. Text that begins as JSON does
    and is none is refused: the workflow could not read it. Raises ValueError."""
    if not info.context or not isinstance(given, str):
        return given
    if not given.lstrip().startswith(("{", "[", '"')):
        return json_or_text(given)
    try:
        return json.loads(given)
    except ValueError as error:
        raise ValueError(f"expected JSON, got {given!r:.60}: {error}") from None


class SendBody(ActionBody):
    """Send a signal to a workflow."""

    name: str = Field(min_length=1, max_length=events.MAX_SIGNAL_NAME, description="Name of the signal.")
    data: Annotated[Any, BeforeValidator(_read_data)] = Field(
        default=None, description="Data of the signal, any JSON value (default null)."
    )


async def send_signal(call: VerbCall[SendBody]) -> Outcome:
    """Send a signal to a workflow, which receives those of one name in their order.

    One that comes before the workflow awaits it is stored, also for an id whose request has not come yet;
    without a request it is deleted after some days. `warrener explain` names the signal that a workflow waits
    for, and those that it has received and does not await. A job that is no workflow never receives one. Exit
    code 4: the workflow has ended.

    $ warrener send 01936f2e-8a3b-7c4d-9e5f-0123456789ab packed
    $ warrener send 456789ab packed --data '{"box": "A4", "weight": 2.5}'
    $ warrener send 456789ab approved --data true --json
    """
    [job_id] = await find_ids(call.backend, [call.key])
    name, client = call.body.name, await call.backend.client()
    detail = await client.send_signal(job_id, name, call.body.data, reply_timeout=call.reply_timeout)
    return Outcome(
        sentence=f"sent {name} to job {job_id}{f': {detail}' if detail else ''}",
        details={"job_id": str(job_id), "name": name},
        unconfirmed=f"sent {name} to job {job_id}; a supervisor stores it",
    )


SEND = Verb("send", SendBody, send_signal, reads=False)


# -- holds -------------------------------------------------------------------------------------------------


class ResumeBody(ActionBody):
    """Resume a held workflow."""

    retry: Keys = Field(
        default_factory=list[str],
        max_length=100,
        description="Failed call whose child job is requested again first: its id in the journal, the child "
        "job, or the job type for those that failed last; repeatable.",
    )


async def resume_job(call: VerbCall[ResumeBody]) -> Outcome:
    """Resume a held workflow: the turn that failed is tried again.

    A workflow with on_failure="hold" that fails is held until then. `warrener explain` says why it failed. A
    call that failed has its answer in the journal: with --retry its child job is requested again, and the
    turn is tried with the new answer in place of the old one. Exit code 4: it has ended, or the call has not
    failed.

    $ warrener resume 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener resume 456789ab --retry cards.charge
    $ warrener resume 456789ab --retry 0/job/cards.charge#1 --json
    """
    retry, done = call.body.retry, "resumed job {}"
    if retry:
        done = f"requested {', '.join(retry)} of job {{}} again"
    return await _end_hold(call, "resume", done, "a supervisor resumes it", retry)


async def undo_job(call: VerbCall[ActionBody]) -> Outcome:
    """End a held workflow: its calls are undone, the newest first, then it is dead.

    `warrener resume` tries the turn that failed again instead. Exit code 4: it has ended.

    $ warrener undo 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener undo 456789ab --json
    """
    return await _end_hold(call, "undo", "began to undo the calls of job {}", "a supervisor undoes its calls")


async def _end_hold(
    call: VerbCall[Any], action: Literal["resume", "undo"], done: str, later: str, retry: Sequence[str] = ()
) -> Outcome:
    [job_id] = await find_ids(call.backend, [call.key])
    client = await call.backend.client()
    detail = await client.continue_held(job_id, action, retry=retry, reply_timeout=call.reply_timeout)
    return Outcome(
        sentence=f"job {job_id}: {detail}" if detail else done.replace("{}", str(job_id)),
        details={"job_id": str(job_id), "action": action},
        unconfirmed=f"requested for job {job_id}; {later}",
    )


RESUME = Verb("resume", ResumeBody, resume_job, reads=False)
UNDO = Verb("undo", ActionBody, undo_job, reads=False)
