"""`warrener supervisor`."""

import typer

from warrener.command.exec_service import exec_service

EXAMPLES = """
warrener supervisor
WARRENER_BROKER_URL=amqp://… WARRENER_STORE_URL=postgresql://… warrener supervisor
"""


def supervisor(context: typer.Context) -> None:
    """Be a supervisor.

    Any number may run; SIGTERM or Ctrl-C drains it.
    """
    exec_service("supervisor", context.args)
