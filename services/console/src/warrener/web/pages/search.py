"""The page of the search, whose field stands on every page."""

from warrener.operations.search import SearchQuery, search
from warrener.web.page import PageRequest, View, page


@page("/search", refresh=None)
async def show_search(request: PageRequest) -> View:
    """Show the hits of a text; without one, the texts that are found."""
    query = request.read(SearchQuery)
    context = {"searched": query.q, "found": await search(request.console, query) if query.q else None}
    return View("Search", context)
