"""The command `warrener`, put together. A call imports the modules of its own command alone; help, none."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from warrener.errors import report_errors

SERVICES, JOBS, INSPECT, OPERATE = "Services", "Jobs", "Inspect", "Operate"
_FORWARD: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}
_FORWARD_ALL: dict[str, Any] = {**_FORWARD, "help_option_names": []}  # --help too


class Word(NamedTuple):
    """A first word of the command line: its panel in help, and the first paragraph of its own help."""

    name: str
    panel: str
    about: str


def make_app_for(arguments: Sequence[str], completed: str | None = None) -> typer.Typer:
    """Make as much of the command as these arguments call.

    `completed` is the command line that a shell completes, if the shell has called.
    """
    words = [] if completed is None else completed.split()
    first_word = next(iter(words[1:] if words else arguments), None)
    if first_word in _ADD:
        return make_app(first_word, with_overview=completed is not None)
    is_option = completed is None and first_word is not None and first_word.startswith("-")
    if is_option and first_word not in _ABOUT:
        return make_app()
    app = _make_root()
    _add_overview(app, WORDS)
    return app


def make_app(first_word: str | None = None, *, with_overview: bool = False) -> typer.Typer:
    """Make the command that this first word calls; with another word, or none, that of all words.

    `with_overview`: the other words too, without their commands.
    """
    app = _make_root(has_options=first_word is None or with_overview)
    made = [word for word in WORDS if word.name == first_word] or WORDS
    for word in made:
        _ADD[word.name](app, word)
    if with_overview:
        _add_overview(app, [word for word in WORDS if word not in made])
    return app


def _add_overview(app: typer.Typer, words: Sequence[Word]) -> None:
    """Add a command with help and without a body for each word, so that a list of all imports none."""
    for word in words:
        app.command(word.name, help=word.about, rich_help_panel=word.panel)(lambda: None)


def _make_root(*, has_options: bool = True) -> typer.Typer:
    """Make the command without words. Its own options stand before a word: the command of a word has none.

    Typer imports pydantic to read an option that is not given: a third of what help costs.
    """
    app = typer.Typer(
        cls=PlainGroup,
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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of all commands."""


def _module(name: str) -> Any:
    return import_module(f"warrener.command.{name}")


def _noun(plural: str, module: str = "") -> Any:
    return getattr(import_module(f"warrener.operations.{module or plural}"), plural.upper())


def _commands_of(plural: str, page: Callable[..., Any] | None = None) -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[..., Any]] = _module("verbs").commands_of(_noun(plural), page)
    return made


class PlainCommand(TyperCommand):
    """A command whose help shows flags without a type: they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands, whose help shows flags as that of a command does."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(found: list[Any]) -> list[Any]:
    for one in found:
        if getattr(one, "is_flag", False):
            one.metavar = ""
    return found


def _add(group: typer.Typer, name: str, body: Callable[..., Any], **settings: Any) -> None:
    text, examples = _split_text(inspect.getdoc(body) or "")
    group.command(name, cls=PlainCommand, help=text, epilog=examples, **settings)(report_errors(body))


def _split_text(text: str) -> tuple[str, str]:
    """Split a docstring into help and examples, which are its last lines and begin with `$ `."""
    about, _, examples = text.partition("\n\n$ ")
    about = "\n\n".join(" ".join(paragraph.split()) for paragraph in about.split("\n\n"))
    lines = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in examples.split("\n$ "))
    return about, f"[bold]Examples[/bold]\n\n{lines}"


def _command(module: str, **settings: Any) -> Callable[[typer.Typer, Word], None]:
    """Make what adds one command. Its function has its name; `find_command` makes that of `find`."""

    def add(app: typer.Typer, word: Word) -> None:
        found, name = _module(module), word.name
        made = getattr(found, f"{name}_command", None)
        body = getattr(found, name) if made is None else made()
        _add(app, word.name, body, rich_help_panel=word.panel, **settings)

    return add


def _look(app: typer.Typer, word: Word) -> None:
    noun = _noun(word.name.replace("-", "_"))
    _add(app, word.name, _module("verbs").look_command(noun), rich_help_panel=word.panel)


def _group(
    app: typer.Typer,
    word: Word,
    more: str,
    commands: Mapping[str, Callable[..., Any]],
    callback: Callable[..., Any] | None = None,
) -> typer.Typer:
    """Add a group of commands, such as `warrener breaker`. `more` is its help behind the first paragraph;
    `callback` runs without a further word."""
    text, examples = _split_text(f"{word.about}\n\n{inspect.cleandoc(more)}")
    group = typer.Typer(
        cls=PlainGroup,
        rich_markup_mode="rich",
        help=text,
        epilog=examples,
        no_args_is_help=callback is None,
        invoke_without_command=callback is not None,
        callback=None if callback is None else report_errors(callback),
    )
    app.add_typer(group, name=word.name, rich_help_panel=word.panel)
    for name, body in commands.items():
        _add(group, name, body)
    return group


# -- groups of commands ------------------------------------------------------------------------------------


def _add_console(app: typer.Typer, word: Word) -> None:
    services = _module("services")
    _, _, more = (inspect.getdoc(services.console) or "").partition("\n\n")
    _group(app, word, more, {"token": services.token}, services.console)


def _add_topology(app: typer.Typer, word: Word) -> None:
    doctor, roles = _module("doctor"), _module("roles")
    _, _, more = (inspect.getdoc(doctor.topology) or "").partition("\n\n")
    _group(app, word, more, {"permissions": roles.permissions, "apply": roles.apply}, doctor.topology)


def _add_schedules(app: typer.Typer, word: Word) -> None:
    more = """Each time for which a schedule requests a job is a tick. The tick history has all of them.

    $ warrener schedule put flights.hourly flights.load path=today.csv --cron "30 * * * *"
    $ warrener schedule preview flights.hourly -n 5
    $ warrener schedule show flights.hourly
    """
    schedule, files = _module("schedule"), _module("schedule_files")
    backfill = _module("verbs").verb_command(_noun("schedules"), _noun("backfill", "backfills"))
    reads = {"show": schedule.show, "preview": schedule.preview}
    of_files = {"apply": files.apply, "import": files.import_, "export": files.export}
    commands = {"put": schedule.put, **_commands_of("schedules"), **reads, **of_files}
    _group(app, word, more, {**commands, "backfill": backfill, "lint": schedule.lint})


def _add_dead_letters(app: typer.Typer, word: Word) -> None:
    more = """
    $ warrener dead-letters causes
    $ warrener dead-letters show 456789ab
    $ warrener dead-letters redrive --fingerprint 9f86d0 --dry-run
    $ warrener dead-letters drop --fingerprint 9f86d0 --reason "the files were withdrawn"
    """
    verbs, redrives = _module("verbs"), _commands_of("redrives")

    def page(found: Any, now: datetime) -> Any:
        return _module("job_page").job_page(found, now)

    commands = {
        **_commands_of("dead_letters", page),
        "causes": verbs.look_command(_noun("causes", "dead_letters")),
        "redrives": verbs.look_command(_noun("redrives")),
        "stop": redrives["stop"],
        "resume": redrives["resume"],
    }
    _group(app, word, more, commands, verbs.listing_callback(_noun("dead_letters")))


def _add_parked(app: typer.Typer, word: Word) -> None:
    more = """They are stored with the reason, and unchanged.

    $ warrener parked
    $ warrener parked requeue --reason unknown_job_type
    $ warrener parked drop --queue warrener.requests --before 30d --yes
    """
    _group(app, word, more, _commands_of("parked"), _module("verbs").listing_callback(_noun("parked")))


def _add_breakers(app: typer.Typer, word: Word) -> None:
    more = """
    $ warrener breaker list
    $ warrener breaker open dependency:billing-api --for 30m
    """
    _group(app, word, more, _commands_of("breakers"))


def _add_gates(app: typer.Typer, word: Word) -> None:
    more = """
    $ warrener gate list
    $ warrener gate set pool/crm --slots 2
    """
    _group(app, word, more, _commands_of("gates"))


def _add_outbox(app: typer.Typer, word: Word) -> None:
    more = """`Outbox.enqueue` of the client writes requests in its caller's transaction; relays publish them.

    $ warrener outbox create --database postgresql://shop@db/shop
    $ warrener outbox relay --database postgresql://shop@db/shop
    $ warrener outbox show --database postgresql://shop@db/shop --json
    """
    outbox = _module("outbox")
    _group(app, word, more, {"create": outbox.create, "relay": outbox.relay, "show": outbox.show})


def _add_escalations(app: typer.Typer, word: Word) -> None:
    more = """
    $ warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
    $ warrener escalation list
    $ warrener escalation ack 3f9a1c77e0b2
    """
    commands = {
        "ack" if verb == "acknowledge" else verb: body for verb, body in _commands_of("incidents").items()
    }
    group = _group(app, word, more, commands)
    _add(group, "test", _module("services").test, context_settings=_FORWARD_ALL)


_ADD: Mapping[str, Callable[[typer.Typer, Word], None]] = {
    **dict.fromkeys(("up", "env", "migrate"), _command("services")),
    "keys": _command("keys"),
    **dict.fromkeys(("agent", "scheduler", "supervisor"), _command("services", context_settings=_FORWARD)),
    **dict.fromkeys(("jobs", "job", "cancel", "send", "resume", "undo"), _command("jobs")),
    **dict.fromkeys(("explain", "trace", "find", "top"), _command("inspect")),
    "doctor": _command("doctor"),
    "topology": _add_topology,
    **dict.fromkeys(("agents", "queues", "job-types", "audit"), _look),
    "request": _command("requests"),
    "console": _add_console,
    "schedule": _add_schedules,
    "dead-letters": _add_dead_letters,
    "parked": _add_parked,
    "breaker": _add_breakers,
    "gate": _add_gates,
    "escalation": _add_escalations,
    "outbox": _add_outbox,
}
"""The function that adds the commands of a word; it imports the modules of this word alone."""
_ABOUTS = {
    SERVICES: {
        "up": "Run a whole Warrener in this terminal.",
        "env": "Print the exports by which programs elsewhere find the `warrener up` of this folder.",
        "agent": "Run an agent that serves the jobs of these modules.",
        "scheduler": "Run a scheduler: it accepts requests, dispatches attempts, and decides the ticks of "
        "schedules.",
        "supervisor": "Run a supervisor: it judges the ends of attempts, retries jobs, and raises incidents.",
        "console": "Serve the console: pages about jobs, schedules and trouble, and their HTTP API.",
    },
    JOBS: {
        "request": "Request a job, or one per line of a file.",
        "cancel": "Cancel a job, or several.",
        "send": "Send a signal to a workflow, which receives those of one name in their order.",
        "resume": "Resume a held workflow: the turn that failed is tried again.",
        "undo": "End a held workflow: its calls are undone, the newest first, then it is dead.",
        "schedule": "Schedules request jobs by the clock, or after events: put, pause, backfill and inspect "
        "them.",
    },
    INSPECT: {
        "find": "Find a text among jobs, parked messages, schedules, queues and job types.",
        "jobs": "List jobs, the newest first.",
        "job": "Show one job: its state, its attempts with errors and stacks, its child jobs, and what "
        "happens next.",
        "explain": "Explain why something does not go on: the one thing that blocks it, since when, and what "
        "helps.",
        "trace": "Show where the time of one job went: its waits with their causes, its attempts, its child "
        "jobs.",
        "top": "Show the whole system: services, queues, job types, agents, breakers, incidents, schedules, "
        "failures.",
        "agents": "List the agents: queues, slots, running attempts, ids of their processes.",
        "queues": "List the queues that have jobs, agents or job types, with what waits in them.",
        "job-types": "List the job types that agents have announced, with their arguments and policies "
        "(schemas in JSON).",
        "audit": "List who has called which action of the console, why, and how it ended. The newest come "
        "first.",
        "dead-letters": "Dead letters, jobs whose attempts are used up: list, show, redrive, drop. Without a "
        "further word it lists them.",
        "parked": "Messages that no service could use: list, requeue, drop. Without a further word it lists "
        "them.",
    },
    OPERATE: {
        "doctor": "Check broker, topology, bindings, permissions, store, clocks, services, agents and limits "
        "of handlers.",
        "keys": "Make a key that encrypts payloads, or one that signs requests.",
        "migrate": "Create the tables of the state store, or bring them to this version; safe to repeat.",
        "topology": "Show the exchanges and queues, make them, compare them with the broker; print "
        "permissions of roles.",
        "breaker": "Circuit breakers, which hold jobs back: list, show, open and close by hand.",
        "gate": "Gates of limits, which jobs pass in turns: list, show, set their slots by hand, reset.",
        "outbox": "The outbox of requesters, a table of their own database: create, relay, show.",
        "escalation": "Incidents: list, show, acknowledge, snooze, close; play an escalation policy offline.",
    },
}
WORDS = [Word(name, panel, about) for panel, abouts in _ABOUTS.items() for name, about in abouts.items()]
"""All words. A test compares `about` with the commands."""
_ABOUT = frozenset({"--help", "-h", "--version", "--install-completion", "--show-completion"})
"""Options that are about the whole command: it ends behind them."""
