"""Schedules: how they are listed and read with their newest ticks, and their verbs."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from warrener.operations import noun
from warrener.operations.masking import Masker
from warrener.operations.roles import Role
from warrener.render.schedules import rule_text
from warrener.render.tones import Tone
from warrener.selection import find_schedule
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_words import TickStatus
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import TriggerRule
from warrener_store.schedules.rows import LAST_TIME, ScheduledRun, ScheduleFilter, ScheduleRow
from warrener_store.schedules.rules import is_over, overdue_since

TICKS = 24  # ticks of a schedule that a list shows
_PUT_OFF = timedelta(minutes=2)  # by which a scheduler may postpone a schedule that it cannot decide
_MAX_EXAMINED = 5  # pages that one request reads while it looks for schedules of a state

ScheduleState = Literal["active", "paused", "overdue", "over"]


class ListedTick(BaseModel):
    """A tick and its job. Without a `state` it has no job, or the store has it no longer."""

    model_config = ConfigDict(from_attributes=True)

    nominal_at: datetime
    status: TickStatus
    reason: str
    due_at: datetime
    decided_at: datetime
    fired_at: datetime | None
    job_id: UUID | None
    state: JobState | None
    attempt: int | None
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def late(self) -> timedelta:
        """Time from its due time to its request. A scheduler decides ticks slightly ahead."""
        return max((self.fired_at or self.decided_at) - self.due_at, timedelta(0))

    @property
    def duration(self) -> timedelta | None:
        """Length of the last attempt, if it is over."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(self.finished_at - self.started_at, timedelta(0))


class ListedSchedule(BaseModel):
    """A schedule with its newest ticks, the newest first."""

    name: str
    state: ScheduleState
    definition: SchedulePutData = Field(description="As in schedule.put, without secrets.")
    put_at: datetime
    pause_reason: str
    overdue_since: datetime | None
    next_at: datetime | None
    last_nominal_at: datetime | None
    last_fired_at: datetime | None
    runs: int = Field(description="Jobs that its ticks have requested.")
    waiting: int = Field(description="Ticks that wait for the end of a job.")
    ticks: list[ListedTick]

    @property
    def job_type(self) -> str:
        return self.definition.job_type

    @property
    def timezone(self) -> str:
        return self.definition.timezone

    @property
    def rule(self) -> str:
        return rule_text(self.definition.rule)

    @property
    def has_times(self) -> bool:
        """False if events make its ticks."""
        return not isinstance(self.definition.rule, TriggerRule)

    @property
    def success(self) -> float | None:
        """The share of successes among the jobs of `ticks` that are over."""
        over = [tick.state for tick in self.ticks if tick.state is not None and tick.state.terminal]
        return over.count(JobState.SUCCEEDED) / len(over) if over else None


class SchedulesQuery(noun.NounQuery):
    """The schedules to list."""

    q: Annotated[str, Field(max_length=120), noun.Flag("--name")] = Field(
        "", description="Part of their names."
    )
    state: Annotated[ScheduleState | Literal[""], noun.Flag("--state")] = Field(
        "", description="State: active, paused, overdue or over."
    )
    owner: Annotated[str, Field(max_length=60)] = Field("", description="Owner.")
    job_type: Annotated[str, Field(max_length=200), noun.Flag("--type")] = Field("", description="Job type.")
    after: Annotated[str, Field(max_length=120)] = Field("", description="The `next` of the page before.")
    limit: Annotated[int, Field(ge=1, le=200), noun.Flag("--limit", "-n")] = Field(
        25, description="Maximum number of schedules (default of the command: all)."
    )


class SchedulesPage(BaseModel):
    """A page of schedules. `next`: pass it as `after`; None: this is the last page."""

    schedules: list[ListedSchedule]
    next: str | None


class TicksPage(BaseModel):
    """A page of a schedule's ticks, the newest first. `next`: pass it as `before`."""

    ticks: list[ListedTick]
    next: datetime | None


async def list_schedules(backend: noun.Backend, query: SchedulesQuery) -> SchedulesPage:
    """List schedules by name, with their newest ticks.

    A state is looked for in a bounded number of rows: a page may be short, and have a next one all the same.

    $ warrener schedule list
    $ warrener schedule list --state overdue
    $ warrener schedule list --json | jq -r '.[] | select(.state == "paused").name'
    """
    now = await backend.now()
    rows, following = await _find(backend, query, now)
    runs = await backend.store.runs_of([row.name for row in rows], TICKS)
    masker = await backend.learn()
    found = [_schedule(row, runs[row.name], now, masker) for row in rows]
    return SchedulesPage(schedules=found, next=following)


async def _find(
    backend: noun.Backend, query: SchedulesQuery, now: datetime
) -> tuple[list[ScheduleRow], str | None]:
    which = ScheduleFilter(
        text=query.q.lower() or None,
        owner=query.owner or None,
        job_type=query.job_type or None,
        paused={"paused": True, "active": False, "overdue": False}.get(query.state),
        due_before=now if query.state == "overdue" else None,
        sleeping=query.state == "over",
    )
    found, after, size = list[ScheduleRow](), query.after, query.limit + 1
    for _ in range(_MAX_EXAMINED):
        page = await backend.store.list_schedules(replace(which, after=after, limit=size))
        for row in page:
            if query.state in ("", _state(row, now)):
                if len(found) == query.limit:
                    return found, found[-1].name
                found.append(row)
        if len(page) < size:
            return found, None
        after, size = page[-1].name, 500
    return found, after


async def read_schedule(backend: noun.Backend, name: str, ticks: int = TICKS) -> ListedSchedule:
    """Show a schedule and its newest ticks.

    $ warrener schedule show flights.hourly
    $ warrener schedule show flights.hourly -n 100 --json
    """
    row, now = await find_schedule(backend.store, name), await backend.now()
    runs = await backend.store.runs_of([name], ticks)
    return _schedule(row, runs[name], now, await backend.learn())


async def list_next(backend: noun.Backend, limit: int) -> list[ListedSchedule]:
    """List the schedules that a scheduler looks at next, without their ticks."""
    now, rows = await backend.now(), await backend.store.late_schedules(LAST_TIME, LAST_TIME, limit)
    masker = await backend.learn()
    return [_schedule(row, (), now, masker) for row in rows]


async def list_overdue(backend: noun.Backend, limit: int) -> list[ListedSchedule]:
    """List the overdue schedules without their ticks, the longest due first, of so many that are due."""
    now = await backend.now()
    rows = await backend.store.late_schedules(now, now + _PUT_OFF, limit)
    masker = await backend.learn()
    return [_schedule(row, (), now, masker) for row in rows if _state(row, now) == "overdue"]


async def list_ticks(
    backend: noun.Backend, name: str, *, before: datetime | None = None, limit: int = 50
) -> TicksPage:
    """List the ticks of a schedule with their reasons and jobs, also of one that was removed."""
    found = (await backend.store.runs_of([name], limit + 1, before=before or LAST_TIME))[name]
    following = found[limit - 1].nominal_at if len(found) > limit else None
    masker = (await backend.learn()).every
    return TicksPage(ticks=[_tick(run, masker) for run in found[:limit]], next=following)


def _state(row: ScheduleRow, now: datetime) -> ScheduleState:
    if row.paused:
        return "paused"
    if is_over(row, now):
        return "over"
    return "active" if overdue_since(row, now) is None else "overdue"


def _schedule(
    row: ScheduleRow, runs: Sequence[ScheduledRun], now: datetime, masker: Masker
) -> ListedSchedule:
    masker = masker.of(row.definition.job_type)
    arguments = masker.value(row.definition.arguments)
    fields = noun.fields_from(ListedSchedule, row) | {
        "state": _state(row, now),
        "definition": row.definition.model_copy(update={"arguments": arguments}),
        "pause_reason": masker.text(row.pause_reason),
        "overdue_since": overdue_since(row, now),
        "ticks": [_tick(run, masker) for run in runs],
    }
    return ListedSchedule.model_validate(fields)


def _tick(run: ScheduledRun, masker: Masker) -> ListedTick:
    tick = ListedTick.model_validate(run)
    tick.reason = masker.text(tick.reason)
    return tick


# -- verbs -------------------------------------------------------------------------------------------------


async def pause_schedule(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Skip the ticks of a schedule until it is resumed; its history records them.

    $ warrener schedule pause flights.hourly --reason "the files are late today"
    """
    client = await call.backend.client()
    await client.pause_schedule(call.key, call.reason, reply_timeout=call.reply_timeout)
    return noun.Outcome(sentence=f"{call.key} is paused: its ticks are skipped until it is resumed")


async def resume_schedule(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Resume a paused schedule.

    $ warrener schedule resume flights.hourly
    """
    client = await call.backend.client()
    await client.resume_schedule(call.key, call.reason, reply_timeout=call.reply_timeout)
    return noun.Outcome(sentence=f"{call.key} is resumed, from its next tick on")


async def trigger_schedule(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Request the job of a schedule now, beside its ticks.

    $ warrener schedule trigger flights.hourly --reason "the file of noon was mended"
    """
    client = await call.backend.client()
    job_id = await client.trigger_schedule(call.key, call.reason, reply_timeout=call.reply_timeout)
    return noun.Outcome(
        sentence=f"{call.key} is triggered: its job is {str(job_id)[-8:]}", details={"job_id": str(job_id)}
    )


async def remove_schedule(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Delete a schedule; its history stays.

    $ warrener schedule remove flights.hourly
    """
    client = await call.backend.client()
    await client.remove_schedule(call.key, call.reason, reply_timeout=call.reply_timeout)
    return noun.Outcome(sentence=f"{call.key} is removed; its history stays", location="/schedules")


SCHEDULES = noun.Noun(
    word="schedule",
    plural="schedules",
    key="name",
    key_help="The name of the schedule.",
    query=SchedulesQuery,
    list=list_schedules,
    read=read_schedule,
    verbs=(
        noun.Verb("pause", noun.ActionBody, pause_schedule, reads=False),
        noun.Verb("resume", noun.ActionBody, resume_schedule, reads=False),
        noun.Verb("trigger", noun.ActionBody, trigger_schedule, reads=False),
        noun.Verb("remove", noun.ActionBody, remove_schedule, role=Role.ADMIN, reads=False),
    ),
    columns={
        "schedule": "name",
        "type": "job_type",
        "rule": "rule",
        "zone": "timezone",
        "state": "state",
        "next": "next_at",
        "jobs": "runs",
        "why": "pause_reason",
    },
    tones={"active": Tone.GOOD, "paused": Tone.WARNING, "overdue": Tone.ERROR, "over": Tone.SOFT},
    empty="There is no schedule: `warrener schedule put --help` shows how to make one.",
    lists_all=True,
)
