"""The page of circuit breakers; each is opened and closed there."""

from warrener.operations.breakers import BREAKERS, list_breakers
from warrener.web.page import PageRequest, View, page


@page("/breakers", topics=("breakers",))
async def show_breakers(request: PageRequest) -> View:
    """Show all circuit breakers, the open ones first."""
    found = (await list_breakers(request.console)).breakers
    stored = [one for one in found if one.since is not None]
    never = [one for one in found if one.since is None]
    context = {"stored": stored, "never": never, "tones": BREAKERS.tones}
    return View("Circuit breakers", context)
