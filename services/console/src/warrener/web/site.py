"""The site: all pages, actions and API routers, found in the modules of `pages` and `api`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from urllib.parse import quote

from fastapi import APIRouter
from starlette.routing import compile_path

from warrener.web import api, pages
from warrener.web.action import Action
from warrener.web.page import Page


@dataclass(frozen=True, slots=True)
class NavigationEntry:
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
    NavigationEntry("audit", "Audit log", "l", 4),
)
"""Sections in their order. A section is shown if it has a page of its name, whose path has no parameters."""


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
        # Fixed paths first: /jobs/waiting is no job.
        ordered = sorted(pages, key=lambda page: "{" in page.path)
        self._patterns = [(compile_path(page.path)[0], page) for page in ordered]

    @property
    def ordered_pages(self) -> list[Page]:
        """Pages in the order in which their paths are matched."""
        return [page for _, page in self._patterns]

    def match(self, path: str) -> tuple[Page, Mapping[str, str]] | None:
        """Find the page of a path, and its path parameters."""
        for pattern, page in self._patterns:
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
    """The site of all modules of `pages` and `api`."""
    modules = [*_modules_of(pages), *_modules_of(api)]
    return Site(
        [page for module in modules for page in getattr(module, "PAGES", ())],
        [action for module in modules for action in getattr(module, "ACTIONS", ())],
        [module.router for module in modules if hasattr(module, "router")],
    )


def _modules_of(package: ModuleType) -> list[ModuleType]:
    names = sorted(found.name for found in iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]
