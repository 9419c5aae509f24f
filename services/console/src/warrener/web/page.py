"""A page of the console: its address, the view that reads its content, and the changes that make it stale."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from warrener.operations.roles import Principal, Role
from warrener.web.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The request of a view: its principal, zone and parameters. `now` is by the store's clock, in UTC.

    Unknown query parameters are ignored.
    """

    console: Console
    principal: Principal
    zone: ZoneInfo
    now: datetime
    path: Mapping[str, str]
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The content of a page: a template, which fills block `content` of layout.html, and its variables."""

    template: str
    title: str
    context: Mapping[str, Any]
    status: int = 200
    refresh: float | None = None
    """Seconds after which this content is rendered again; None: as its page says."""


class PageNotFound(Exception):
    """Nothing has this address: status 404. The text names the subject and what to do."""


class PageMoved(Exception):
    """The page has another address, which is the text: the reader is sent there."""


class BadQuery(Exception):
    """A query parameter is wrong: status 400. The text reads "expected X, got Y"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page. `name` is for `url_for`, `section` is the highlighted entry of the navigation
    (default: `name`).

    An open page is rendered again after a change of one of its topics, in which `{name}` stands for that
    parameter of its path, and after `refresh` seconds at the latest (None: after changes alone). Live
    renderings are shared by all readers of one role and zone, so a view shows nothing of the principal but
    its role.
    """

    name: str
    path: str
    view: Callable[[PageRequest], Awaitable[View]]
    section: str = ""
    topics: Callable[[PageRequest], Collection[str]] | tuple[str, ...] = ()
    role: Role = Role.VIEWER
    refresh: float | None = 15.0

    def __post_init__(self) -> None:
        if not self.section:
            object.__setattr__(self, "section", self.name)

    def topics_of(self, request: PageRequest) -> Collection[str]:
        """The topics of one request."""
        if callable(self.topics):
            return self.topics(request)
        return [topic.format(**request.path) for topic in self.topics]
