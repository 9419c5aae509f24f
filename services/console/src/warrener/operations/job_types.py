"""Job types: their declarations, how they go, and their deploys."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, Field
from rich.text import Text

from warrener.operations.noun import Backend, Flag, ListQuery, Noun, NounQuery, fields_from
from warrener.operations.series import Resolution, SeriesSummary, read_recent, read_series, summary_of
from warrener.render.argument_fields import fields_of
from warrener.render.jobs import limit_text, retries_text
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.agents.rows import JobTypeRow
from warrener_store.jobs.rows import StateCount
from warrener_store.statistics.rows import OTHER, BucketSpan, Deploy

DEPLOYS_SHOWN = timedelta(days=90)
_LIST = Resolution(BucketSpan.HOUR, 24)


# -- deploys -----------------------------------------------------------------------------------------------


class DeploysQuery(NounQuery):
    """The deploys to list."""

    job_type: Annotated[str, Field(max_length=500)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class DeploySummary(BaseModel):
    """A version of the code that the agents of a job type began to run."""

    job_type: str
    code_version: str
    previous: str | None  # the version before; None: not known
    first_seen_at: datetime
    last_seen_at: datetime
    schema_changed: bool  # of the arguments, against the version before


class DeploysPage(BaseModel):
    """Deploys, the newest first."""

    deploys: list[DeploySummary]


async def list_deploys(backend: Backend, query: DeploysQuery) -> DeploysPage:
    since = await backend.now() - DEPLOYS_SHOWN
    names = [query.job_type] if query.job_type else None
    found = await backend.store.statistics.deploys(since, names, query.limit)
    return DeploysPage(deploys=deploy_summaries(found))


def deploy_summaries(deploys: Iterable[Deploy]) -> list[DeploySummary]:
    """Make summaries, each with the version before; the newest first."""
    last: dict[str, Deploy] = {}
    found: list[DeploySummary] = []
    for one in sorted(deploys, key=lambda each: each.first_seen_at):
        before = last.get(one.job_type)
        last[one.job_type] = one
        hashes = {one.schema_hash, one.schema_hash if before is None else before.schema_hash}
        found.append(
            DeploySummary(
                **fields_from(DeploySummary, one),
                previous=None if before is None else before.code_version,
                schema_changed=len(hashes) == 2 and all(hashes),
            )
        )
    return found[::-1]


def latest_versions(deploys: Iterable[Deploy]) -> dict[str, str]:
    ordered = sorted(deploys, key=lambda one: one.first_seen_at)
    return {one.job_type: one.code_version for one in ordered}


# -- the list ----------------------------------------------------------------------------------------------


class JobTypesQuery(ListQuery):
    """The job types to list."""

    q: Annotated[str, Flag("--name")] = Field(default="", max_length=200, description="Part of their names.")
    limit: Annotated[int, Flag("--limit", "-n")] = Field(
        default=200, ge=1, le=200, description="Maximum number of job types (default of the command: all)."
    )


class DeclaredJobType(BaseModel):
    """A job type as the latest agent announced it, and its jobs. Without an agent it has no queue."""

    name: str
    queue: str | None  # None: no agent has announced it, or its announcement was deleted
    description: str
    guarantee: str | None
    announced_by: str | None
    announced_at: datetime | None
    policy: dict[str, Any] | None
    arguments_schema: dict[str, Any] | None
    result_schema: dict[str, Any] | None
    summary: SeriesSummary
    live: dict[JobState, int]  # jobs that are not over


class JobTypeSummary(DeclaredJobType):
    """A job type over the last day."""

    code_version: str | None  # of its last deploy
    hourly: list[int]  # jobs that ended


class JobTypesPage(BaseModel):
    """Job types by name. `next`: pass it as `after`."""

    job_types: list[JobTypeSummary]
    next: str | None
    is_complete: bool


async def list_job_types(backend: Backend, query: JobTypesQuery) -> JobTypesPage:
    """List the job types that agents have announced, with their arguments and policies (schemas in JSON).

    Job types that have jobs and no agent are listed too. In JSON each has its last day.

    $ warrener job-types
    $ warrener job-types --json | jq '.[].arguments_schema'
    """
    now, store = await backend.now(), backend.store
    declared, counts = await store.job_types(), await store.count_jobs()
    names = declared.keys() | {count.job_type for count in counts}
    chosen = sorted(name for name in names if query.q.lower() in name.lower() and name > query.after)
    listed = chosen[: query.limit]
    points = await read_series(store, listed, _LIST, await read_recent(store, now))
    versions = latest_versions(await store.statistics.deploys(now - DEPLOYS_SHOWN))
    live = live_counts(counts)
    return JobTypesPage(
        job_types=[
            JobTypeSummary(
                **declared_fields(name, declared.get(name)),
                code_version=versions.get(name),
                summary=summary_of(points[name], now),
                hourly=[point.jobs for point in points[name]],
                live=live[name],
            )
            for name in listed
        ],
        next=listed[-1] if len(chosen) > len(listed) else None,
        is_complete=len(chosen) == len(listed),
    )


def declared_fields(name: str, row: JobTypeRow | None) -> dict[str, Any]:
    """The fields of a declaration; None: no agent has announced the job type."""
    if row is not None:
        return fields_from(DeclaredJobType, row) | {"policy": row.policy.model_dump(mode="json")}
    unknown = DeclaredJobType.model_fields.keys() - {"summary", "live"}
    return dict.fromkeys(unknown) | {"name": name, "description": ""}


def live_counts(counts: Iterable[StateCount]) -> dict[str, dict[JobState, int]]:
    """The jobs of each type that are not over, by state."""
    found: dict[str, Counter[JobState]] = defaultdict(Counter)
    for count in counts:
        if count.state not in TERMINAL and count.jobs > 0:
            found[count.job_type][count.state] += count.jobs
    return defaultdict(dict, {name: dict(states) for name, states in found.items()})


def series_names(declared: Collection[str], counts: Iterable[StateCount]) -> list[str]:
    return sorted({*declared, *(count.job_type for count in counts), OTHER})


def policy_of(one: DeclaredJobType) -> JobPolicy | None:
    return JobPolicy.model_validate(one.policy) if one.policy else None


JOB_TYPES = Noun(
    word="job-type",
    command="job-types",
    plural="job-types",
    key="name",
    query=JobTypesQuery,
    list=list_job_types,
    columns={
        "type": "name",
        "arguments": lambda one: " ".join(field.usage for field in fields_of(one.arguments_schema or {}, {})),
        "queue": lambda one: ", ".join(
            (one.queue or "", *map(limit_text, policy.gates if (policy := policy_of(one)) else ()))
        ),
        "attempts": lambda one: (policy := policy_of(one)) and policy.max_attempts,
        "retries after": lambda one: (policy := policy_of(one)) and retries_text(policy),
        "timeout": lambda one: (policy := policy_of(one)) and policy.timeout,
        "guarantee": "guarantee",
        "announced": "announced_at",
        "about": lambda one: Text(one.description, style="soft"),
    },
    empty="No agent has announced a job type yet.",
    lists_all=True,
)
"""Without one job type, which has trends over a window: see `operations.job_type`."""
