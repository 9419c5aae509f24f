"""One search: ids, keys, arguments and names."""

from typing import Annotated

from fastapi import APIRouter, Query

from warrener.operations.search import SearchPage, SearchQuery, search
from warrener.web.api import ConsoleOfApp

router = APIRouter(tags=["search"])


@router.get("/search")
async def get_search(console: ConsoleOfApp, query: Annotated[SearchQuery, Query()]) -> SearchPage:
    """Find a text among jobs, parked messages, schedules, queues and job types, as `warrener find` does."""
    return await search(console, query)
