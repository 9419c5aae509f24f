"""The command `warrener`, put together. A call imports the modules of its own command alone; help, none."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from warrener.command.overview import INSPECT, JOBS, OPERATE, SERVICES, add_overview
from warrener.errors import report_errors

_FORWARD: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}
_FORWARD_ALL: dict[str, Any] = {**_FORWARD, "help_option_names": []}  # --help too


class _Part(NamedTuple):
    """First words of the command line, and the function that adds their commands."""

    words: tuple[str, ...]
    add: Callable[[typer.Typer], None]


def make_app_for(arguments: Sequence[str], completed: str | None = None) -> typer.Typer:
    """Make as much of the command as these arguments call.

    `completed` is the command line that a shell completes, if the shell has called.
    """
    words = [] if completed is None else completed.split()
    first_word = next(iter(words[1:] if words else arguments), None)
    if first_word in _KNOWN_WORDS:
        return make_app(first_word, with_overview=completed is not None)
    if (
        completed is None
        and first_word is not None
        and first_word.startswith("-")
        and first_word not in _ABOUT
    ):
        return make_app()
    app = _make_root()
    add_overview(app)
    return app


def make_app(first_word: str | None = None, *, with_overview: bool = False) -> typer.Typer:
    """Make the command that this first word calls; with another word, or none, that of all words.

    `with_overview`: the other words too, without their commands.
    """
    app = _make_root(has_options=first_word is None or with_overview)
    parts = [part for part in _PARTS if first_word in part.words] or _PARTS
    for part in parts:
        part.add(app)
    if with_overview:
        add_overview(app, without=tuple(word for part in parts for word in part.words))
    return app


def _make_root(*, has_options: bool = True) -> typer.Typer:
    """Make the command without words. Its own options stand before a word: the command of a word has none.

    Typer imports pydantic to read an option that is not given: a third of what help costs.
    """
    app = typer.Typer(
        name="warrener",
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        add_completion=has_options,
        add_help_option=has_options,
        help="Background jobs over RabbitMQ for teams that cannot afford to lose one.",
        epilog="Begin with [bold]warrener up MODULE[/bold], then [bold]warrener request TYPE --wait[/bold] "
        "in another terminal.",
    )
    app.callback()(_main)
    return app


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        from importlib.metadata import version

        typer.echo(f"warrener {version('warrener')}")
        raise typer.Exit


def _main(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """Options of all commands."""


def _module(name: str) -> Any:
    return import_module(f"warrener.command.{name}")


def _add(group: typer.Typer, name: str, body: Callable[..., Any], **settings: Any) -> None:
    text, examples = _split_text(inspect.getdoc(body) or "")
    group.command(name, help=text, epilog=examples, **settings)(report_errors(body))


def _add_all(group: typer.Typer, commands: Mapping[str, Callable[..., Any]]) -> None:
    for name, body in commands.items():
        _add(group, name, body)


def _group(app: typer.Typer, panel: str, name: str, about: str, **settings: Any) -> typer.Typer:
    """Add a group of commands, such as `warrener breaker`; `about` is its help."""
    text, examples = _split_text(inspect.cleandoc(about))
    group = typer.Typer(rich_markup_mode="rich", help=text, epilog=examples, **settings)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


def _group_that_lists(app: typer.Typer, panel: str, name: str, body: Callable[..., Any]) -> typer.Typer:
    """Add a group whose body runs without a further word."""
    about = inspect.getdoc(body) or ""
    return _group(app, panel, name, about, invoke_without_command=True, callback=report_errors(body))


def _split_text(text: str) -> tuple[str, str]:
    """Split a docstring into help and examples, which are its last lines and begin with `$ `."""
    about, _, examples = text.partition("\n\n$ ")
    lines = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in examples.split("\n$ "))
    return about, f"[bold]Examples[/bold]\n\n{lines}"


# -- the commands, in the order of the help ----------------------------------------------------------------


def _add_services(app: typer.Typer) -> None:
    services = _module("services")
    _add(app, "up", services.up, rich_help_panel=SERVICES)
    _add(app, "env", services.env, rich_help_panel=SERVICES)
    _add(app, "agent", services.agent, rich_help_panel=SERVICES, context_settings=_FORWARD)
    _add(app, "scheduler", services.scheduler, rich_help_panel=SERVICES, context_settings=_FORWARD)
    _add(app, "supervisor", services.supervisor, rich_help_panel=SERVICES, context_settings=_FORWARD)


def _add_console(app: typer.Typer) -> None:
    console = _module("console")
    _add(_group_that_lists(app, SERVICES, "console", console.console), "token", console.token)


def _add_requests(app: typer.Typer) -> None:
    requests = _module("requests")
    _add(app, "request", requests.request, rich_help_panel=JOBS)
    _add(app, "cancel", requests.cancel, rich_help_panel=JOBS)


def _add_schedules(app: typer.Typer) -> None:
    schedule = _module("schedule")
    schedule_files = _module("schedule_files")
    schedule_backfill = _module("schedule_backfill")
    schedules = _group(
        app,
        JOBS,
        "schedule",
        """Put schedules, and inspect their ticks.

        $ warrener schedule put flights.hourly flights.load path=today.csv --cron "30 * * * *"
        $ warrener schedule preview flights.hourly -n 5
        $ warrener schedule show flights.hourly
        """,
        no_args_is_help=True,
    )
    _add_all(
        schedules,
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


def _add_jobs(app: typer.Typer) -> None:
    jobs = _module("jobs")
    _add(app, "jobs", jobs.jobs, rich_help_panel=INSPECT)
    _add(app, "job", jobs.job, rich_help_panel=INSPECT)


def _add_explain(app: typer.Typer) -> None:
    _add(app, "explain", _module("explain").explain, rich_help_panel=INSPECT)


def _add_trace(app: typer.Typer) -> None:
    _add(app, "trace", _module("trace").trace, rich_help_panel=INSPECT)


def _add_top(app: typer.Typer) -> None:
    _add(app, "top", _module("top").top, rich_help_panel=INSPECT)


def _add_dead_letters(app: typer.Typer) -> None:
    dead = _module("dead")
    redrives = _module("redrives")
    group = _group_that_lists(app, INSPECT, "dead-letters", dead.dead)
    app.add_typer(group, name="dead", hidden=True)  # its short form
    _add_all(
        group,
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


def _add_parked(app: typer.Typer) -> None:
    parked = _module("parked")
    group = _group_that_lists(app, INSPECT, "parked", parked.parked)
    _add_all(group, {"list": parked.list_, "requeue": parked.requeue, "drop": parked.drop})


def _add_agents(app: typer.Typer) -> None:
    services = _module("services")
    _add(app, "agents", services.agents, rich_help_panel=INSPECT)
    _add(app, "job-types", services.types, rich_help_panel=INSPECT)
    _add(app, "types", services.types, hidden=True)  # its short form


def _add_breakers(app: typer.Typer) -> None:
    breaker = _module("breaker")
    group = _group(
        app,
        OPERATE,
        "breaker",
        """Circuit breakers, which hold jobs back: list, show, open and close by hand.

        $ warrener breaker list
        $ warrener breaker open dependency:billing-api --for 30m
        """,
        no_args_is_help=True,
    )
    _add_all(
        group,
        {
            "list": breaker.list_,
            "show": breaker.show,
            "open": breaker.open_,
            "close": breaker.close,
        },
    )


def _add_escalations(app: typer.Typer) -> None:
    escalation = _module("escalation")
    group = _group(
        app,
        OPERATE,
        "escalation",
        """Incidents: list, acknowledge, snooze, close; play an escalation policy offline.

        $ warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
        $ warrener escalation list
        $ warrener escalation ack 3f9a1c77e0b2
        """,
        no_args_is_help=True,
    )
    _add_all(
        group,
        {
            "list": escalation.list_,
            "ack": escalation.ack,
            "snooze": escalation.snooze,
            "close": escalation.close,
        },
    )
    _add(group, "test", escalation.test, context_settings=_FORWARD_ALL)


def _add_doctor(app: typer.Typer) -> None:
    doctor = _module("doctor")
    _add(app, "doctor", doctor.doctor, rich_help_panel=OPERATE)


def _add_store(app: typer.Typer) -> None:
    store = _module("store")
    _add(app, "prune", store.prune, rich_help_panel=OPERATE)
    _add(app, "migrate", store.migrate, rich_help_panel=OPERATE)


def _add_topology(app: typer.Typer) -> None:
    topology = _module("topology")
    _add(app, "topology", topology.topology, rich_help_panel=OPERATE)


_PARTS = (
    _Part(("up", "env", "agent", "scheduler", "supervisor"), _add_services),
    _Part(("console",), _add_console),
    _Part(("request", "cancel"), _add_requests),
    _Part(("schedule",), _add_schedules),
    _Part(("jobs", "job"), _add_jobs),
    _Part(("explain",), _add_explain),
    _Part(("trace",), _add_trace),
    _Part(("top",), _add_top),
    _Part(("dead-letters", "dead"), _add_dead_letters),
    _Part(("parked",), _add_parked),
    _Part(("agents", "job-types", "types"), _add_agents),
    _Part(("breaker",), _add_breakers),
    _Part(("escalation",), _add_escalations),
    _Part(("doctor",), _add_doctor),
    _Part(("prune", "migrate"), _add_store),
    _Part(("topology",), _add_topology),
)
_KNOWN_WORDS = frozenset(word for part in _PARTS for word in part.words)
_ABOUT = frozenset({"--help", "-h", "--version", "--install-completion", "--show-completion"})
"""Options that are about the whole command: it ends behind them."""
