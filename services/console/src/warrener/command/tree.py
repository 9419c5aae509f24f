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
    """A first word of the command line: the panel of help for it, the first paragraph of its own help, and
    the function that adds its commands."""

    name: str
    panel: str
    about: str
    add: Callable[[typer.Typer, "Word"], None]


def make_app_for(arguments: Sequence[str], completed: str | None = None) -> typer.Typer:
    """Make as much of the command as these arguments call.

    `completed` is the command line that a shell completes, if the shell has called.
    """
    words = [] if completed is None else completed.split()
    first_word = next(iter(words[1:] if words else arguments), None)
    if any(word.name == first_word for word in WORDS):
        return make_app(first_word, with_overview=completed is not None)
    if (
        completed is None
        and first_word is not None
        and first_word.startswith("-")
        and first_word not in _ABOUT
    ):
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
        word.add(app, word)
    if with_overview:
        _add_overview(app, [word for word in WORDS if word not in made])
    return app


def _add_overview(app: typer.Typer, words: Sequence[Word]) -> None:
    """Add a command with help and without a body for each word, so that a list of all imports none."""
    for word in words:
        app.command(word.name, help=word.about, rich_help_panel=word.panel)(_nothing)


def _nothing() -> None:
    """Stand for a command that is listed, and not run."""


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


def _noun(plural: str) -> Any:
    return getattr(import_module(f"warrener.operations.{plural}"), plural.upper())


def _commands_of(plural: str, page: Callable[..., Any] | None = None) -> dict[str, Callable[..., Any]]:
    """Make the commands of a noun."""
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


def _add_all(group: typer.Typer, commands: Mapping[str, Callable[..., Any]]) -> None:
    for name, body in commands.items():
        _add(group, name, body)


def _split_text(text: str) -> tuple[str, str]:
    """Split a docstring into help and examples, which are its last lines and begin with `$ `."""
    about, _, examples = text.partition("\n\n$ ")
    about = "\n\n".join(" ".join(paragraph.split()) for paragraph in about.split("\n\n"))
    lines = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in examples.split("\n$ "))
    return about, f"[bold]Examples[/bold]\n\n{lines}"


def _command(module: str, function: str = "", **settings: Any) -> Callable[[typer.Typer, Word], None]:
    """Make what adds one command; its function has its name, unless another is given."""

    def add(app: typer.Typer, word: Word) -> None:
        body = getattr(_module(module), function or word.name)
        _add(app, word.name, body, rich_help_panel=word.panel, **settings)

    return add


def _made(module: str) -> Callable[[typer.Typer, Word], None]:
    """Make what adds the command that a function of this module makes: `find_command` for `find`."""

    def add(app: typer.Typer, word: Word) -> None:
        _add(app, word.name, getattr(_module(module), f"{word.name}_command")(), rich_help_panel=word.panel)

    return add


def _look(app: typer.Typer, word: Word) -> None:
    """Add the command that lists a noun, or shows one."""
    _add(app, word.name, _module("verbs").look_command(_noun(word.name)), rich_help_panel=word.panel)


def _group(
    app: typer.Typer, word: Word, more: str, callback: Callable[..., Any] | None = None
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
    return group


# -- groups of commands ------------------------------------------------------------------------------------


def _add_console(app: typer.Typer, word: Word) -> None:
    console = _module("console")
    _, _, more = (inspect.getdoc(console.console) or "").partition("\n\n")
    _add(_group(app, word, more, console.console), "token", console.token)


def _add_schedules(app: typer.Typer, word: Word) -> None:
    more = """Each time for which a schedule requests a job is a tick. The tick history has all of them.

    $ warrener schedule put flights.hourly flights.load path=today.csv --cron "30 * * * *"
    $ warrener schedule preview flights.hourly -n 5
    $ warrener schedule show flights.hourly
    """
    schedule, schedule_files, verbs = _module("schedule"), _module("schedule_files"), _module("verbs")
    backfill = import_module("warrener.operations.backfills").BACKFILL
    _add_all(
        _group(app, word, more),
        {
            "put": schedule.put,
            **_commands_of("schedules"),
            "show": schedule.show,
            "preview": schedule.preview,
            "apply": schedule_files.apply,
            "import": schedule_files.import_,
            "export": schedule_files.export,
            "backfill": verbs.verb_command(_noun("schedules"), backfill),
            "lint": schedule.lint,
        },
    )


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

    _add_all(
        _group(app, word, more, verbs.listing_callback(_noun("dead_letters"))),
        {
            **_commands_of("dead_letters", page),
            "causes": verbs.look_command(_noun("causes")),
            "redrives": verbs.look_command(_noun("redrives")),
            "stop": redrives["stop"],
            "resume": redrives["resume"],
        },
    )


def _add_parked(app: typer.Typer, word: Word) -> None:
    more = """They are stored with the reason, and unchanged.

    $ warrener parked
    $ warrener parked requeue --reason unknown_job_type
    $ warrener parked drop --queue warrener.requests --before 30d --yes
    """
    callback = _module("verbs").listing_callback(_noun("parked"))
    _add_all(_group(app, word, more, callback), _commands_of("parked"))


def _add_breakers(app: typer.Typer, word: Word) -> None:
    more = """
    $ warrener breaker list
    $ warrener breaker open dependency:billing-api --for 30m
    """
    _add_all(_group(app, word, more), _commands_of("breakers"))


def _add_escalations(app: typer.Typer, word: Word) -> None:
    more = """
    $ warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
    $ warrener escalation list
    $ warrener escalation ack 3f9a1c77e0b2
    """
    group, commands = _group(app, word, more), _commands_of("incidents")
    _add_all(group, {"ack" if verb == "acknowledge" else verb: body for verb, body in commands.items()})
    _add(group, "test", _module("services").test, context_settings=_FORWARD_ALL)


WORDS = (
    Word("up", SERVICES, "Run a whole Warrener in this terminal.", _command("services")),
    Word(
        "env",
        SERVICES,
        "Print the exports by which programs elsewhere find the `warrener up` of this folder.",
        _command("services"),
    ),
    Word(
        "agent",
        SERVICES,
        "Run an agent that serves the jobs of these modules.",
        _command("services", context_settings=_FORWARD),
    ),
    Word(
        "scheduler",
        SERVICES,
        "Run a scheduler: it accepts requests, dispatches attempts, and decides the ticks of schedules.",
        _command("services", context_settings=_FORWARD),
    ),
    Word(
        "supervisor",
        SERVICES,
        "Run a supervisor: it judges the ends of attempts, retries jobs, and raises incidents.",
        _command("services", context_settings=_FORWARD),
    ),
    Word("request", JOBS, "Request a job, or one per line of a file.", _command("requests")),
    Word("cancel", JOBS, "Cancel a job, or several.", _made("jobs")),
    Word(
        "find",
        INSPECT,
        "Find a text among jobs, parked messages, schedules, queues and job types.",
        _made("find"),
    ),
    Word("jobs", INSPECT, "List jobs, the newest first.", _made("jobs")),
    Word(
        "job",
        INSPECT,
        "Show one job: its state, its attempts with errors and stacks, its child jobs, and what happens "
        "next.",
        _command("jobs"),
    ),
    Word(
        "explain",
        INSPECT,
        "Explain why something does not go on: the one thing that blocks it, since when, and what helps.",
        _command("explain"),
    ),
    Word(
        "trace",
        INSPECT,
        "Show where the time of one job went: its waits with their causes, its attempts, its child jobs.",
        _command("trace"),
    ),
    Word(
        "top",
        INSPECT,
        "Show the whole system: services, queues, job types, agents, breakers, incidents, schedules, "
        "failures.",
        _command("top"),
    ),
    Word(
        "agents", INSPECT, "List the agents: queues, slots, running attempts, ids of their processes.", _look
    ),
    Word(
        "queues",
        INSPECT,
        "List the queues that have jobs, agents or job types, with what waits in them.",
        _look,
    ),
    Word(
        "job-types",
        INSPECT,
        "List the job types that agents have announced, with their arguments and policies (schemas in JSON).",
        _command("services", "types"),
    ),
    Word(
        "audit",
        INSPECT,
        "List who has called which action of the console, why, and how it ended. The newest come first.",
        _look,
    ),
    Word(
        "doctor",
        OPERATE,
        "Check broker, topology, bindings, permissions, store, clocks, services, agents and limits of "
        "handlers.",
        _command("doctor"),
    ),
    Word(
        "migrate",
        OPERATE,
        "Create the tables of the state store, or bring them to this version; safe to repeat.",
        _command("store"),
    ),
    Word(
        "topology",
        OPERATE,
        "Show the exchanges and queues, declare them, or compare them with the broker.",
        _command("topology"),
    ),
    Word(
        "console",
        SERVICES,
        "Serve the console: pages about jobs, schedules and trouble, and their HTTP API.",
        _add_console,
    ),
    Word(
        "schedule",
        JOBS,
        "Schedules request jobs by the clock, or after events: put, pause, backfill and inspect them.",
        _add_schedules,
    ),
    Word(
        "dead-letters",
        INSPECT,
        "Dead letters, jobs whose attempts are used up: list, show, redrive, drop. Without a further word it "
        "lists them.",
        _add_dead_letters,
    ),
    Word(
        "parked",
        INSPECT,
        "Messages that no service could use: list, requeue, drop. Without a further word it lists them.",
        _add_parked,
    ),
    Word(
        "breaker",
        OPERATE,
        "Circuit breakers, which hold jobs back: list, show, open and close by hand.",
        _add_breakers,
    ),
    Word(
        "escalation",
        OPERATE,
        "Incidents: list, show, acknowledge, snooze, close; play an escalation policy offline.",
        _add_escalations,
    ),
)
"""All words, groups last: Typer lists them in this order. A test compares `about` with the commands."""
_ABOUT = frozenset({"--help", "-h", "--version", "--install-completion", "--show-completion"})
"""Options that are about the whole command: it ends behind them."""
