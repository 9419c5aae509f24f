"""Deploys: the moments from which agents ran another version of their code."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.trends.reading import DEPLOYS_SHOWN
from warrener_store.statistics.rows import Deploy

router = APIRouter(tags=["statistics"])


class DeploysQuery(BaseModel):
    """The deploys to list."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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


def deploy_summaries(deploys: Iterable[Deploy]) -> list[DeploySummary]:
    """Make summaries, each with the version before; the newest first."""
    last: dict[str, Deploy] = {}
    found: list[DeploySummary] = []
    for one in sorted(deploys, key=lambda each: each.first_seen_at):
        before = last.get(one.job_type)
        last[one.job_type] = one
        found.append(
            DeploySummary(
                job_type=one.job_type,
                code_version=one.code_version,
                previous=None if before is None else before.code_version,
                first_seen_at=one.first_seen_at,
                last_seen_at=one.last_seen_at,
                schema_changed=before is not None
                and bool(before.schema_hash and one.schema_hash)
                and before.schema_hash != one.schema_hash,
            )
        )
    return found[::-1]


async def list_deploys(console: Console, query: DeploysQuery) -> DeploysPage:
    """List the deploys of the last 90 days."""
    since = await console.now() - DEPLOYS_SHOWN
    names = [query.job_type] if query.job_type else None
    found = await console.store.statistics.deploys(since, names, query.limit)
    return DeploysPage(deploys=deploy_summaries(found))


@router.get("/deploys")
async def get_deploys(console: ConsoleOfApp, query: Annotated[DeploysQuery, Query()]) -> DeploysPage:
    """List deploys, the newest first."""
    return await list_deploys(console, query)
