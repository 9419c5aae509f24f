"""The words of `warrener` as its help lists them: texts alone, so that help and completion import no command.

A test compares them with the commands themselves.
"""

from typing import Any, NamedTuple

import typer

SERVICES, JOBS, INSPECT, OPERATE = "Services", "Jobs", "Inspect", "Operate"


class Word(NamedTuple):
    """A word of the command line, the panel of help for it, and the first paragraph of its own help."""

    name: str
    panel: str | None  # None: a short form, which help does not list
    about: str


_JOB_TYPES = "List the job types that agents have announced, with their policies (and schemas, in JSON)."
_DEAD_LETTERS = "Dead letters: list, show, redrive, drop. Without a further word it lists them."

WORDS = (
    Word("up", SERVICES, "Run a whole Warrener in this terminal."),
    Word(
        "env",
        SERVICES,
        "Print the exports by which programs elsewhere find the `warrener up` of this folder.",
    ),
    Word("agent", SERVICES, "Run an agent that serves the jobs of these modules."),
    Word("scheduler", SERVICES, "Run a scheduler."),
    Word("supervisor", SERVICES, "Run a supervisor."),
    Word("request", JOBS, "Request a job, or one per line of a file."),
    Word("cancel", JOBS, "Cancel a job."),
    Word("jobs", INSPECT, "List jobs, the newest first."),
    Word(
        "job",
        INSPECT,
        "Show one job: its state, its attempts with errors and stacks, its child jobs, and what happens "
        "next.",
    ),
    Word(
        "explain",
        INSPECT,
        "Explain why something does not go on: the one thing that blocks it, since when, and what helps.",
    ),
    Word(
        "trace",
        INSPECT,
        "Show where the time of one job went: its waits with their causes, its attempts, its child jobs.",
    ),
    Word(
        "top",
        INSPECT,
        "Show the whole system: services, queues, job types, agents, breakers, incidents, schedules, "
        "failures.",
    ),
    Word("agents", INSPECT, "List the agents: queues, slots, running attempts."),
    Word("job-types", INSPECT, _JOB_TYPES),
    Word("types", None, _JOB_TYPES),
    Word(
        "doctor",
        OPERATE,
        "Check broker, topology, bindings, permissions, store, clocks, services, agents and limits of "
        "handlers.",
    ),
    Word("prune", OPERATE, "Delete the rows whose retention has passed, now."),
    Word(
        "migrate",
        OPERATE,
        "Create the tables of the state store, or bring them to this version; safe to repeat.",
    ),
    Word(
        "topology",
        OPERATE,
        "Show the exchanges and queues, declare them, or compare them with the broker.",
    ),
    Word(
        "console",
        SERVICES,
        "Serve the console: pages about jobs, schedules and trouble, and their HTTP API.",
    ),
    Word("schedule", JOBS, "Put schedules, and inspect their ticks."),
    Word("dead-letters", INSPECT, _DEAD_LETTERS),
    Word("dead", None, _DEAD_LETTERS),
    Word(
        "parked",
        INSPECT,
        "Messages that no service could use: list, requeue, drop. Without a further word it lists them.",
    ),
    Word(
        "breaker",
        OPERATE,
        "Circuit breakers, which hold jobs back: list, show, open and close by hand.",
    ),
    Word(
        "escalation",
        OPERATE,
        "Incidents: list, acknowledge, snooze, close; play an escalation policy offline.",
    ),
)


def add_overview(app: typer.Typer, *, without: tuple[str, ...] = ()) -> None:
    """Add a command with help and without a body for each word, but for those that are there already."""
    for word in WORDS:
        if word.name not in without:
            settings: dict[str, Any] = {} if word.panel is None else {"rich_help_panel": word.panel}
            app.command(word.name, help=word.about, hidden=word.panel is None, **settings)(_nothing)


def _nothing() -> None:
    """Stand for a command that is listed, and not run."""
