"""Deploys: the moments from which agents ran another version of their code."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.operations.noun import fields_from
from warrener.web.api import ConsoleOfApp
from warrener_store.statistics.rows import Deploy

router = APIRouter(tags=["statistics"])
DEPLOYS_SHOWN = timedelta(days=90)


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
        hashes = {one.schema_hash, one.schema_hash if before is None else before.schema_hash}
        found.append(
            DeploySummary(
                **fields_from(DeploySummary, one),
                previous=None if before is None else before.code_version,
                schema_changed=len(hashes) == 2 and all(hashes),
            )
        )
    return found[::-1]


@router.get("/deploys")
async def get_deploys(console: ConsoleOfApp, query: Annotated[DeploysQuery, Query()]) -> DeploysPage:
    """List deploys, the newest first."""
    since = await console.now() - DEPLOYS_SHOWN
    names = [query.job_type] if query.job_type else None
    found = await console.store.statistics.deploys(since, names, query.limit)
    return DeploysPage(deploys=deploy_summaries(found))
