"""The command `warrener`, put together."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer

from warrener.command import (
    agent,
    agents,
    breaker,
    cancel,
    dead,
    doctor,
    escalation,
    job,
    jobs,
    migrate,
    parked,
    prune,
    request,
    schedule,
    schedule_apply,
    schedule_backfill,
    schedule_import,
    schedule_lint,
    scheduler,
    supervisor,
    topology,
    types,
    up,
)
from warrener.command_runner import report_errors

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

_SERVICES, _JOBS, _INSPECT, _OPERATE = "Run", "Ask", "Look", "Look after"


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(f"warrener {version('warrener')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """What all commands share: nothing but the version."""


def _add(panel: str, name: str, body: Callable[..., Any], examples: str, **settings: Any) -> None:
    _add_to(app, name, body, examples, rich_help_panel=panel, **settings)


def _add_to(group: typer.Typer, name: str, body: Callable[..., Any], examples: str, **settings: Any) -> None:
    group.command(name, epilog=_shown(examples), **settings)(report_errors(body))


def _group(panel: str, name: str, about: str, examples: str) -> typer.Typer:
    """A command of several words, such as `warrener escalation list`."""
    made = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=about, epilog=_shown(examples))
    app.add_typer(made, name=name, rich_help_panel=panel)
    return made


def _shown(examples: str) -> str:
    lines = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in examples.strip().splitlines())
    return f"[bold]Examples[/bold]\n\n{lines}"


_PASS: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}

_add(_SERVICES, "up", up.up, up.EXAMPLES)
_add(_SERVICES, "agent", agent.agent, agent.EXAMPLES, context_settings=_PASS)
_add(_SERVICES, "scheduler", scheduler.scheduler, scheduler.EXAMPLES, context_settings=_PASS)
_add(_SERVICES, "supervisor", supervisor.supervisor, supervisor.EXAMPLES, context_settings=_PASS)
_add(_JOBS, "request", request.request, request.EXAMPLES)
_add(_JOBS, "cancel", cancel.cancel, cancel.EXAMPLES)
_schedule = _group(
    _JOBS, "schedule", "Keep schedules, and look at what became of their ticks.", schedule.EXAMPLES
)
_add_to(_schedule, "put", schedule.put, schedule.PUT_EXAMPLES)
_add_to(_schedule, "list", schedule.list_, schedule.LIST_EXAMPLES)
_add_to(_schedule, "show", schedule.show, schedule.SHOW_EXAMPLES)
_add_to(_schedule, "preview", schedule.preview, schedule.PREVIEW_EXAMPLES)
_add_to(_schedule, "pause", schedule.pause, schedule.PAUSE_EXAMPLES)
_add_to(_schedule, "resume", schedule.resume, schedule.RESUME_EXAMPLES)
_add_to(_schedule, "trigger", schedule.trigger, schedule.TRIGGER_EXAMPLES)
_add_to(_schedule, "remove", schedule.remove, schedule.REMOVE_EXAMPLES)
_add_to(_schedule, "apply", schedule_apply.apply, schedule_apply.APPLY_EXAMPLES)
_add_to(_schedule, "import", schedule_import.import_, schedule_import.EXAMPLES)
_add_to(_schedule, "export", schedule_apply.export, schedule_apply.EXPORT_EXAMPLES)
_add_to(_schedule, "backfill", schedule_backfill.backfill, schedule_backfill.EXAMPLES)
_add_to(_schedule, "lint", schedule_lint.lint, schedule_lint.EXAMPLES)
_add(_INSPECT, "jobs", jobs.jobs, jobs.EXAMPLES)
_add(_INSPECT, "job", job.job, job.EXAMPLES)
app.add_typer(dead.app, name="dead", rich_help_panel=_INSPECT)
app.add_typer(parked.app, name="parked", rich_help_panel=_INSPECT)
_add(_INSPECT, "agents", agents.agents, agents.EXAMPLES)
_add(_INSPECT, "types", types.types, types.EXAMPLES)
_breaker = _group(
    _OPERATE,
    "breaker",
    "Circuit breakers: what holds jobs back; opened and closed by hand too.",
    breaker.EXAMPLES,
)
_add_to(_breaker, "list", breaker.list_, breaker.LIST_EXAMPLES)
_add_to(_breaker, "show", breaker.show, breaker.SHOW_EXAMPLES)
_add_to(_breaker, "open", breaker.open_, breaker.OPEN_EXAMPLES)
_add_to(_breaker, "close", breaker.close, breaker.CLOSE_EXAMPLES)
_escalation = _group(
    _OPERATE,
    "escalation",
    "What follows when something is wrong: cases, and what you say.",
    escalation.EXAMPLES,
)
_add_to(_escalation, "list", escalation.list_, escalation.LIST_EXAMPLES)
_add_to(_escalation, "ack", escalation.ack, escalation.ACK_EXAMPLES)
_add_to(_escalation, "snooze", escalation.snooze, escalation.SNOOZE_EXAMPLES)
_add_to(_escalation, "close", escalation.close, escalation.CLOSE_EXAMPLES)
_ALL: dict[str, Any] = {**_PASS, "help_option_names": []}  # --help too is the service's
_add_to(_escalation, "test", escalation.test, escalation.TEST_EXAMPLES, context_settings=_ALL)
_add(_OPERATE, "doctor", doctor.doctor, doctor.EXAMPLES)
_add(_OPERATE, "prune", prune.prune, prune.EXAMPLES)
_add(_OPERATE, "migrate", migrate.migrate, migrate.EXAMPLES)
_add(_OPERATE, "topology", topology.topology, topology.EXAMPLES)
