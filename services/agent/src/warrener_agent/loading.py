"""Which agents the words of a command line mean."""

import importlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from warrener_agent.agent import Agent


class AgentNotFound(Exception):
    """The module, or the Agent in it, is not there; the message says what to do."""


def load_agents(targets: Sequence[str]) -> Agent:
    """One agent that serves what all of `targets` serve: `MODULE` (every Agent in it) or `MODULE:NAME`.

    The current folder is searched first. Raises AgentNotFound.
    """
    if not targets:
        raise AgentNotFound(
            "expected the modules with the handlers, got none; say e.g. `warrener-agent shop.jobs`"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    combined = Agent()
    for target in targets:
        for agent in _agents(target):
            combined.include(agent)
    return combined


def _agents(target: str) -> list[Agent]:
    name, _, attribute = target.partition(":")
    module = _import(name)
    if attribute:
        found: object = getattr(module, attribute, None)
        if not isinstance(found, Agent):
            raise AgentNotFound(
                f"expected an Agent as {target}, found {found!r}; {_suggest(module) or 'the module has none'}"
            )
        return [found]
    agents = list({id(value): value for value in vars(module).values() if isinstance(value, Agent)}.values())
    if not agents:
        raise AgentNotFound(f"expected an Agent in module {name}, found none; write `agent = Agent()` in it")
    return agents


def _suggest(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, Agent))
    return f"there is {', '.join(f'{module.__name__}:{name}' for name in names)}" if names else ""


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there; something that it imports is not
        hint = ""
        if name.endswith(".py") or "/" in name:
            hint = f"; a module is named with dots: {name.removesuffix('.py').replace('/', '.')}"
        elif find_spec(name.partition(".")[0]) is None:
            hint = f"; neither {Path.cwd()} nor the installed packages have {name.partition('.')[0]}"
        raise AgentNotFound(f"expected a module {name}, found none{hint}") from None
