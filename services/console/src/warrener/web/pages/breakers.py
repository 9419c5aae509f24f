"""The page of circuit breakers; each is opened and closed there."""

from warrener.operations.breakers import BREAKERS, list_breakers
from warrener.web.page import Page, PageRequest, View


async def show_breakers(request: PageRequest) -> View:
    """Show all circuit breakers, the open ones first."""
    page = await list_breakers(request.console)
    stored = [one for one in page.breakers if one.since is not None]
    never = [one for one in page.breakers if one.since is None]
    context = {"stored": stored, "never": never, "tones": BREAKERS.tones}
    return View(template="pages/breakers.html", title="Circuit breakers", context=context)


PAGES = (Page(name="breakers", path="/breakers", view=show_breakers, topics=("breakers",)),)
