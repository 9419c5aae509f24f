"""A page of the console: its address, the view that reads its content, and the changes that make it stale."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ValidationError

from warrener.errors import UsageError
from warrener.operations.roles import Principal, Role
from warrener.options import field_problem
from warrener.web.console import Console

Theme = Literal["auto", "light", "dark"]
Q = TypeVar("Q", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Reader:
    """The person before the page. A shared live fragment has no CSRF token: the page's script fills it in."""

    principal: Principal
    zone: ZoneInfo
    theme: Theme = "auto"
    csrf_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The request of a view: its reader and parameters. `now` is by the store's clock, in UTC.

    `url`: path and query. Unknown query parameters are ignored.
    """

    console: Console
    reader: Reader
    now: datetime
    url: str
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def zone(self) -> ZoneInfo:
        return self.reader.zone

    def read(self, model: type[Q]) -> Q:
        """Read the parameters that the model knows; empty ones have their defaults. Raises CommandError."""
        given = {name: self.query[name] for name in model.model_fields if self.query.get(name)}
        try:
            return model.model_validate(given)
        except ValidationError as error:
            raise UsageError(field_problem(error.errors()[0])) from None


@dataclass(frozen=True, slots=True)
class View:
    """The content of a page: its title, and the variables of its template beside those of every page.

    `refresh`: seconds after which this content is rendered again; None: as its page says.
    """

    title: str
    context: Mapping[str, Any]
    refresh: float | None = None


class PageMoved(Exception):
    """The page has another address, which is the text: the reader is sent there."""


ShowPage = Callable[[PageRequest], Awaitable[View]]
Topics = Callable[[PageRequest], Collection[str]] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `name` is for `url_for`, `section` is the highlighted entry of the navigation, and
    `pages/{template}.html` fills the block `content` of layout.html.

    An open page is rendered again after a change of one of its topics, in which `{name}` stands for that
    parameter of its path, and after `refresh` seconds at the latest (None: after changes alone). Live
    renderings are shared by all readers of one role and zone, so a view shows nothing of the principal but
    its role.
    """

    name: str
    path: str
    section: str
    template: str
    view: ShowPage
    topics: Topics
    role: Role
    refresh: float | None

    def topics_of(self, request: PageRequest) -> Collection[str]:
        if callable(self.topics):
            return self.topics(request)
        return [topic.format(**request.path) for topic in self.topics]


def page(
    path: str,
    *,
    name: str = "",
    section: str = "",
    topics: Topics = (),
    role: Role = Role.VIEWER,
    refresh: float | None = 15.0,
) -> Callable[[ShowPage], Page]:
    """Make a page of its view: `show_job_type` shows the page `job-type` by the template `job_type`.

    The section is the first part of the path, unless it is named.
    """

    def make(view: ShowPage) -> Page:
        template = getattr(view, "__name__", "").removeprefix("show_")
        known = name or template.replace("_", "-")
        shown = section or path.split("/")[1] or known
        return Page(known, path, shown, template, view, topics, role, refresh)

    return make
