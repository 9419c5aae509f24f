"""The page of the search, whose field stands on every page."""

from warrener.operations.search import SearchQuery, search
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query


async def show_search(request: PageRequest) -> View:
    """Show the hits of a text; without one, the texts that are found."""
    query = read_query(SearchQuery, request.query)
    context = {"searched": query.q, "found": await search(request.console, query) if query.q else None}
    return View(template="pages/search.html", title="Search", context=context)


PAGES = (Page(name="search", path="/search", view=show_search, refresh=None),)
