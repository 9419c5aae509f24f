"""The command `warrener`, put together."""

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Annotated, Any

import typer

from warrener.command import (
    breaker,
    dead,
    doctor,
    escalation,
    jobs,
    parked,
    redrives,
    requests,
    schedule,
    schedule_backfill,
    schedule_files,
    services,
    store,
    topology,
)
from warrener.errors import report_errors

_SERVICES, _JOBS, _INSPECT, _OPERATE = "Services", "Jobs", "Inspect", "Operate"
_FORWARD: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}
_FORWARD_ALL: dict[str, Any] = {**_FORWARD, "help_option_names": []}  # --help too

app = typer.Typer(
    name="warrener",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Background jobs over RabbitMQ for teams that cannot afford to lose one.",
    epilog="Begin with [bold]warrener up MODULE[/bold], then [bold]warrener request TYPE --wait[/bold] "
    "in another terminal.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"warrener {version('warrener')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """Options of all commands."""


def _add(group: typer.Typer, name: str, body: Callable[..., Any], **settings: Any) -> None:
    text, examples = _split_text(inspect.getdoc(body) or "")
    group.command(name, help=text, epilog=examples, **settings)(report_errors(body))


def _add_all(group: typer.Typer, commands: Mapping[str, Callable[..., Any]]) -> None:
    for name, body in commands.items():
        _add(group, name, body)


def _group(panel: str, name: str, about: str, **settings: Any) -> typer.Typer:
    """Add a group of commands, such as `warrener breaker`; `about` is its help."""
    text, examples = _split_text(inspect.cleandoc(about))
    group = typer.Typer(rich_markup_mode="rich", help=text, epilog=examples, **settings)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


def _group_that_lists(panel: str, name: str, body: Callable[..., Any]) -> typer.Typer:
    """Add a group whose body runs without a further word."""
    about = inspect.getdoc(body) or ""
    return _group(panel, name, about, invoke_without_command=True, callback=report_errors(body))


def _split_text(text: str) -> tuple[str, str]:
    """Split a docstring into help and examples, which are its last lines and begin with `$ `."""
    about, _, examples = text.partition("\n\n$ ")
    lines = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in examples.split("\n$ "))
    return about, f"[bold]Examples[/bold]\n\n{lines}"


_add(app, "up", services.up, rich_help_panel=_SERVICES)
_add(app, "agent", services.agent, rich_help_panel=_SERVICES, context_settings=_FORWARD)
_add(app, "scheduler", services.scheduler, rich_help_panel=_SERVICES, context_settings=_FORWARD)
_add(app, "supervisor", services.supervisor, rich_help_panel=_SERVICES, context_settings=_FORWARD)

_add(app, "request", requests.request, rich_help_panel=_JOBS)
_add(app, "cancel", requests.cancel, rich_help_panel=_JOBS)
_schedules = _group(
    _JOBS,
    "schedule",
    """Put schedules, and inspect their ticks.

    $ warrener schedule put flights.hourly flights.load path=today.csv --cron "30 * * * *"
    $ warrener schedule preview flights.hourly -n 5
    $ warrener schedule show flights.hourly
    """,
    no_args_is_help=True,
)
_add_all(
    _schedules,
    {
        "put": schedule.put,
        "list": schedule.list_,
        "show": schedule.show,
        "preview": schedule.preview,
        "pause": schedule.pause,
        "resume": schedule.resume,
        "trigger": schedule.trigger,
        "remove": schedule.remove,
        "apply": schedule_files.apply,
        "import": schedule_files.import_,
        "export": schedule_files.export,
        "backfill": schedule_backfill.backfill,
        "lint": schedule.lint,
    },
)

_add(app, "jobs", jobs.jobs, rich_help_panel=_INSPECT)
_add(app, "job", jobs.job, rich_help_panel=_INSPECT)
_dead = _group_that_lists(_INSPECT, "dead-letters", dead.dead)
app.add_typer(_dead, name="dead", hidden=True)  # its short form
_add_all(
    _dead,
    {
        "list": dead.list_,
        "show": dead.show,
        "redrive": redrives.redrive,
        "drop": redrives.drop,
        "redrives": redrives.redrives,
        "stop": redrives.stop,
        "resume": redrives.resume,
    },
)
_parked = _group_that_lists(_INSPECT, "parked", parked.parked)
_add_all(_parked, {"list": parked.list_, "requeue": parked.requeue, "drop": parked.drop})
_add(app, "agents", services.agents, rich_help_panel=_INSPECT)
_add(app, "job-types", services.types, rich_help_panel=_INSPECT)
_add(app, "types", services.types, hidden=True)  # its short form

_breakers = _group(
    _OPERATE,
    "breaker",
    """Circuit breakers, which hold jobs back: list, show, open and close by hand.

    $ warrener breaker list
    $ warrener breaker open dependency:billing-api --for 30m
    """,
    no_args_is_help=True,
)
_add_all(
    _breakers,
    {
        "list": breaker.list_,
        "show": breaker.show,
        "open": breaker.open_,
        "close": breaker.close,
    },
)
_escalations = _group(
    _OPERATE,
    "escalation",
    """Incidents: list, acknowledge, snooze, close; play an escalation policy offline.

    $ warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
    $ warrener escalation list
    $ warrener escalation ack 3f9a1c77e0b2
    """,
    no_args_is_help=True,
)
_add_all(
    _escalations,
    {
        "list": escalation.list_,
        "ack": escalation.ack,
        "snooze": escalation.snooze,
        "close": escalation.close,
    },
)
_add(_escalations, "test", escalation.test, context_settings=_FORWARD_ALL)
_add(app, "doctor", doctor.doctor, rich_help_panel=_OPERATE)
_add(app, "prune", store.prune, rich_help_panel=_OPERATE)
_add(app, "migrate", store.migrate, rich_help_panel=_OPERATE)
_add(app, "topology", topology.topology, rich_help_panel=_OPERATE)
