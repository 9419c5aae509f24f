"""The page of circuit breakers; each is opened and closed there."""

from collections.abc import Collection, Mapping

from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.api.breakers import list_breakers
from warrener.web.commands import REPLY_TIMEOUT
from warrener.web.page import Page, PageRequest, View
from warrener.web.pages.incidents import read_length
from warrener_contracts.circuit_breaker import BreakerState

TONES = {BreakerState.OPEN: "error", BreakerState.HALF_OPEN: "warning", BreakerState.CLOSED: "good"}


async def show_breakers(request: PageRequest) -> View:
    """Show all circuit breakers, the open ones first."""
    page = await list_breakers(request.console)
    stored = [one for one in page.breakers if one.since is not None]
    never = [one for one in page.breakers if one.since is None]
    context = {"stored": stored, "never": never, "tones": TONES}
    return View(template="pages/breakers.html", title="Circuit breakers", context=context)


def topics(_: PageRequest) -> Collection[str]:
    """All breakers."""
    return ("breakers",)


class OpenBody(ActionBody):
    """Time until a first job probes, such as 10m; empty: until it is closed by hand."""

    length: str = ""


async def open_breaker(request: ActionRequest) -> Outcome:
    """Hold the jobs of a breaker back, without charging them."""
    assert isinstance(request.body, OpenBody)
    name = request.path["name"]
    length = read_length(request.body.length, "length") if request.body.length else None
    client = await request.console.client()
    await client.open_breaker(
        name, for_=length, reason=request.body.reason or "requested", reply_timeout=REPLY_TIMEOUT
    )
    return Outcome(accepted=True, sentence=f"{name} is open: its jobs wait, uncharged")


async def close_breaker(request: ActionRequest) -> Outcome:
    """Let the jobs of a breaker through; it counts on."""
    name = request.path["name"]
    client = await request.console.client()
    await client.close_breaker(name, reason=request.body.reason or "requested", reply_timeout=REPLY_TIMEOUT)
    return Outcome(accepted=True, sentence=f"{name} is closed: its jobs pass, and it counts on")


def _name(path: Mapping[str, str], _: ActionBody) -> str:
    return path["name"]


PAGES = (Page(name="breakers", path="/breakers", section="breakers", view=show_breakers, topics=topics),)
ACTIONS = (
    Action(
        name="breaker.open",
        path="/breakers/{name}/open",
        role=Role.OPERATOR,
        body=OpenBody,
        subject=_name,
        perform=open_breaker,
    ),
    Action(
        name="breaker.close",
        path="/breakers/{name}/close",
        role=Role.OPERATOR,
        body=ActionBody,
        subject=_name,
        perform=close_breaker,
    ),
)
