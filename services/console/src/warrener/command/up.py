"""`warrener up`."""

from pathlib import Path
from typing import Annotated

import typer

from warrener.command_runner import run
from warrener.endpoints import resolve_namespace
from warrener.options import Json
from warrener.up.folder import DEFAULT_FOLDER, DataFolder
from warrener.up.output import JsonOutput, PlainOutput
from warrener.up.process_specs import process_specs
from warrener.up.run import Up, UpOptions

EXAMPLES = """
warrener up shop.jobs
warrener up shop.jobs billing.jobs --agents 3 --slots 20
warrener up shop.jobs --broker amqp://guest:guest@localhost/ --store postgresql://warrener@localhost/warrener
"""


def up(
    modules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE[:NAME]]...", help="Modules with an Agent, importable from this folder."
        ),
    ] = None,
    *,
    agents: Annotated[int, typer.Option(min=1, max=100, help="How many agents serve them.")] = 1,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many jobs of a queue each agent runs at once; of one message: one.",
            show_default="10",
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where state, ledger and broker keep what they have.")
    ] = Path(DEFAULT_FOLDER),
    broker: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A broker that is there.", show_default="a private RabbitMQ"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A store that is there.", show_default="SQLite in FOLDER"),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A ledger that is there.", show_default="SQLite in FOLDER"),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Everything that the services log.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a whole Warrener in this terminal.

    A broker, a scheduler, a supervisor, and agents for your modules. What dies is started again. Ctrl-C
    drains; a second one hurries. The other commands, run in this folder, find it by themselves. What is not
    over at the end goes on at the next `up`.
    """
    options = UpOptions(
        modules or (),
        agents if modules else 0,
        slots,
        broker,
        store,
        ledger,
        resolve_namespace(),
        log_level="info" if verbose else "warning",
    )
    width = max(
        len("broker"),
        *(len(spec.name) for spec in process_specs(options.modules, options.agents, options.slots)),
    )
    run(Up(options, DataFolder(data), JsonOutput() if as_json else PlainOutput(width)).run())
