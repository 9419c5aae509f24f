"""`warrener scheduler`."""

import typer

from warrener.command.exec_service import exec_service

EXAMPLES = """
warrener scheduler
WARRENER_BROKER_URL=amqp://… WARRENER_STORE_URL=postgresql://… warrener scheduler
"""


def scheduler(context: typer.Context) -> None:
    """Be a scheduler.

    Any number may run; SIGTERM or Ctrl-C drains it.
    """
    exec_service("scheduler", context.args)
