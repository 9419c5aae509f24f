"""The command line of an agent."""

import sys
from typing import Annotated

import typer

from warrener_agent.loading import AgentNotFound, load_agents
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import production
from warrener_runtime.lifecycle import serve
from warrener_runtime.settings import SettingsError, load

app = typer.Typer(add_completion=False)


@app.command()
def agent(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE[:NAME]...", help="Modules with an Agent, or one Agent in a module."),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Serve this queue and no other; may be given several times.")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(min=1, help="How many attempts of a queue run at once; of one message: one."),
    ] = None,
) -> None:
    """Serve the jobs of these modules, until SIGTERM or Ctrl-C drains the agent."""
    try:
        settings = load(AgentSettings, agent_queues=tuple(queue) if queue else None, agent_slots=slots)
        served = load_agents(modules or settings.agent_modules)
    except (SettingsError, AgentNotFound) as error:
        print(f"warrener-agent cannot start:\n{error}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(
        serve("warrener-agent", settings, lambda telemetry: production(served, settings, telemetry))
    )
