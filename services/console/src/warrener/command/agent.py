"""`warrener agent`."""

from typing import Annotated

import typer

from warrener.command.exec_service import exec_service

EXAMPLES = """
warrener agent shop.jobs
warrener agent shop.jobs billing.jobs --slots 20 --queue mails
"""


def agent(
    context: typer.Context,
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE[:NAME]...", help="Modules with an Agent; options are handed on."),
    ] = None,
) -> None:
    """Be an agent that serves the jobs of these modules.

    Any number may run; SIGTERM or Ctrl-C drains it. Options are those of `python -m warrener_agent`:
    --slots N, --queue NAME.
    """
    exec_service("agent", [*(modules or ()), *context.args])
