"""`warrener-agent MODULE …`, or `python -m warrener_agent MODULE …`: serve the jobs of these modules."""

# ruff: noqa: E402 - a collection in the midst of the imports would find nothing, and take a seventh of their time
import gc

gc.disable()

import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import NoReturn

from warrener_agent.agent import Agent
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import NAME, production
from warrener_runtime.lifecycle.run import serve
from warrener_runtime.settings import SettingsError, load

gc.enable()


class AgentNotFound(Exception):
    """The module, or the Agent in it, does not exist; the message says what to do."""


def main() -> NoReturn:
    """Run the console script."""
    options = _parser().parse_args()
    try:
        settings = load(
            AgentSettings,
            agent_queues=tuple(options.queue) if options.queue else None,
            agent_slots=options.slots,
        )
        served = _load(options.modules or settings.agent_modules)
    except (SettingsError, AgentNotFound) as error:
        print(f"warrener-agent cannot start:\n{error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(serve(NAME, settings, lambda telemetry: production(served, settings, telemetry)))


def _load(modules: Sequence[str]) -> Agent:
    """As `load_agents`; an error in a module becomes one sentence, because a restart would not mend it."""
    try:
        return load_agents(modules)
    except AgentNotFound:
        raise
    except Exception as error:
        raise AgentNotFound(_import_failure(modules, error)) from error


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="warrener-agent",
        description="Serve the jobs of these modules, until SIGTERM or Ctrl-C drains the agent.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "modules",
        nargs="*",
        metavar="MODULE[:NAME]",
        help="modules with an Agent, or one Agent in a module (default: WARRENER_AGENT_MODULES)",
    )
    parser.add_argument(
        "--queue",
        action="append",
        metavar="NAME",
        help="queue to serve, and no other; may be given several times (default: the queues of the jobs)",
    )
    parser.add_argument(
        "--slots",
        type=int,
        metavar="N",
        help="attempts of a queue that run at once; of one message: one (default: WARRENER_AGENT_SLOTS)",
    )
    return parser


def load_agents(targets: Sequence[str]) -> Agent:
    """Return one agent that serves the jobs of all `targets`: `MODULE` (every Agent in it) or `MODULE:NAME`.

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
        for found in _agents(target):
            combined.include(found)
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
            raise  # the module exists; something that it imports does not
        hint = ""
        if name.endswith(".py") or "/" in name:
            hint = f"; a module is named with dots: {name.removesuffix('.py').replace('/', '.')}"
        elif find_spec(name.partition(".")[0]) is None:
            hint = f"; neither {Path.cwd()} nor the installed packages have {name.partition('.')[0]}"
        raise AgentNotFound(f"expected a module {name}, found none{hint}") from None


def _import_failure(names: Sequence[str], error: Exception) -> str:
    """One sentence about a module that fails at its import, with the line that failed."""
    expected = f"expected {' and '.join(names)} to be imported"
    if isinstance(error, SyntaxError):
        return f"{expected}, got SyntaxError: {error.msg} ({error.filename}, line {error.lineno}); correct it"
    ours = str(Path(__file__).parent)  # a declaration is refused here: its line is that of the user
    tried = [frame for frame in extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    frames = [frame for frame in tried if not frame.filename.startswith(ours)]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    what = f"{type(error).__name__}: {error}".strip().replace("\n", " ")
    return f"{expected}, got {what}{place}; correct it, or install what it needs"


if __name__ == "__main__":
    main()
