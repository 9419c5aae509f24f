"""The site: all pages and actions, found in the modules of `pages`, and the routers of the API."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import getdoc
from pkgutil import iter_modules
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel
from starlette.routing import compile_path

from warrener.operations.agents import AGENTS
from warrener.operations.audit import AUDIT
from warrener.operations.backfills import BACKFILL
from warrener.operations.breakers import BREAKERS
from warrener.operations.dead_letters import CAUSES, DEAD_LETTERS
from warrener.operations.gates import GATES
from warrener.operations.incidents import INCIDENTS
from warrener.operations.job import JOB
from warrener.operations.job_types import JOB_TYPES
from warrener.operations.noun import ActionBody, Noun, Verb
from warrener.operations.parked import PARKED
from warrener.operations.queues import QUEUES
from warrener.operations.redrives import REDRIVES
from warrener.operations.schedules import SCHEDULES
from warrener.web import api, pages
from warrener.web.access.guard import check_role
from warrener.web.api import ConsoleOfApp
from warrener.web.page import Page

K = TypeVar("K")


NOUNS = (
    AGENTS,
    AUDIT,
    BREAKERS,
    CAUSES,
    DEAD_LETTERS,
    GATES,
    INCIDENTS,
    JOB,
    JOB_TYPES,
    PARKED,
    QUEUES,
    REDRIVES,
    SCHEDULES,
)


class NavigationEntry(NamedTuple):
    """An entry of the navigation. `key`: pressed after `g`, it opens the section. Groups stand apart."""

    section: str
    title: str
    key: str
    group: int = 1


NAVIGATION = (
    NavigationEntry("overview", "Overview", "o"),
    NavigationEntry("jobs", "Jobs", "j"),
    NavigationEntry("job-types", "Job types", "t"),
    NavigationEntry("schedules", "Schedules", "s"),
    NavigationEntry("dead-letters", "Dead letters", "d", 2),
    NavigationEntry("incidents", "Incidents", "i", 2),
    NavigationEntry("parked", "Parked", "p", 2),
    NavigationEntry("agents", "Agents", "a", 3),
    NavigationEntry("queues", "Queues", "u", 3),
    NavigationEntry("breakers", "Breakers", "b", 3),
    NavigationEntry("gates", "Gates", "g", 3),
    NavigationEntry("audit", "Audit log", "l", 4),
)
"""Sections in their order. A section is shown if it has a page of its name, whose path has no parameters."""


@dataclass(frozen=True, slots=True)
class Action:
    """A verb as a form of a page (`POST {path}`) or a program (`POST /api/v1{path}`) sends it.

    `name` stands in the audit log and in the table of roles. A parameter of the path is the subject.
    """

    name: str
    path: str
    verb: Verb[Any]

    @property
    def needs_reason(self) -> bool:
        """True if its author has to write a reason."""
        body: type[ActionBody] = self.verb.body
        return body.model_fields["reason"].is_required()


class Site:
    """Pages and actions by name and by path."""

    def __init__(
        self, pages: Sequence[Page], actions: Sequence[Action], routers: Sequence[APIRouter]
    ) -> None:
        self.pages = {page.name: page for page in pages}
        self.actions = {action.name: action for action in actions}
        self.routers = tuple(routers)
        if len(self.pages) < len(pages) or len(self.actions) < len(actions):
            raise ValueError("expected pages and actions with names of their own, got two of one name")
        # In the order in which their paths are matched. Fixed paths first: /jobs/waiting is no job.
        self.ordered_pages = sorted(pages, key=lambda page: "{" in page.path)
        self._patterns = [compile_path(page.path)[0] for page in self.ordered_pages]

    def match(self, path: str) -> tuple[Page, Mapping[str, str]] | None:
        for pattern, page in zip(self._patterns, self.ordered_pages, strict=True):
            if found := pattern.match(path):
                return page, found.groupdict()
        return None

    def url_for(self, name: str, /, **parameters: object) -> str:
        """The path of a page. Raises KeyError if no page has this name."""
        path = self.pages[name].path
        for key, value in parameters.items():
            path = path.replace(f"{{{key}}}", quote(str(value), safe="")).replace(
                f"{{{key}:path}}", quote(str(value))
            )
        return path


@cache
def installed_site() -> Site:
    """The site of all modules of `pages`, and of all nouns."""
    verbs = [*((noun, verb) for noun in NOUNS for verb in noun.verbs), (SCHEDULES, BACKFILL)]
    return Site(
        _found(Page),
        [*_found(Action), *(action_of(noun, verb) for noun, verb in verbs)],
        [api.router, *map(router_of, NOUNS)],
    )


def _found(kind: type[K]) -> list[K]:
    """The things of a kind that the modules of `pages` make, by the names of the modules."""
    names = sorted(found.name for found in iter_modules(pages.__path__))
    modules = [import_module(f"{pages.__name__}.{name}") for name in names]
    found = {id(one): one for module in modules for one in vars(module).values() if isinstance(one, kind)}
    return list(found.values())


# -- nouns -------------------------------------------------------------------------------------------------


def router_of(noun: Noun) -> APIRouter:
    """Make the routes that list and read a noun."""

    async def check(request: Request) -> None:
        check_role(request.state.principal, noun.role, f"/{noun.plural}")

    router = APIRouter(tags=[noun.plural], dependencies=[Depends(check)])

    def add(path: str, route: Callable[..., Any], read: Callable[..., Any]) -> None:
        about, *_ = (getdoc(read) or "").partition("\n\n$ ")  # examples of the command
        router.add_api_route(path, route, description=about, response_model=read.__annotations__["return"])

    async def read_page(console: ConsoleOfApp, query: BaseModel) -> BaseModel:
        return await noun.list(console, query)

    read_page.__annotations__["query"] = Annotated[noun.query, Query()]
    add(f"/{noun.plural}", read_page, noun.list)
    if (read := noun.read) is not None:

        async def read_one(console: ConsoleOfApp, key: str) -> BaseModel:
            return await read(console, key)

        read_one.__annotations__["key"] = Annotated[str, Path(alias=noun.key)]
        add(f"/{noun.plural}/{{{noun.key}:path}}", read_one, read)
    return router


def action_of(noun: Noun, verb: Verb[Any]) -> Action:
    """Make the action of a verb."""
    path = f"/{noun.plural}" if verb.keys else f"/{noun.plural}/{{{noun.key}:path}}"
    return Action(f"{noun.word}.{verb.word}", f"{path}/{verb.word}", verb)
