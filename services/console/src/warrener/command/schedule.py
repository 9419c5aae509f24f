"""`warrener schedule put`, `show`, `preview` and `lint`; the other words are made from the noun."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warrener import options
from warrener.context import connect_client, query_store, resolve_endpoints, run
from warrener.errors import CommandError, ExitCode, UsageError
from warrener.options import Json, Store, argument, flag, option, shared
from warrener.render.screen import err, out, print_json, table
from warrener.render.times import ago, clock, span
from warrener.selection import find_schedule, find_schedules, hint_at_job_type
from warrener_contracts.json_safety import is_object
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy

if TYPE_CHECKING:
    from rich.table import Table

    from warrener.operations.schedules import ListedTick
    from warrener_contracts.events import SchedulePutData
    from warrener_store import Store as OpenStore
    from warrener_store.schedules.rows import ScheduleRow

_TICKS_LINTED = 200
_RULES_OF_FILES = ("rule", "cron", "every", "at", "after")


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.", show_default=False)]
Cron = Annotated[str | None, shared("Cron expression of five fields, or of six with seconds first.", "EXPR")]
Every = Annotated[str | None, shared("Interval, such as 90s or 2h.", "SPAN")]
At = Annotated[datetime | None, shared("Time of a single tick (UTC).", "TIME")]
RuleFile = Annotated[
    Path | None,
    shared(
        "TOML file with any other rule, and with choices, policy, queue and timezone; options win.", "FILE"
    ),
]
Holidays = Annotated[
    list[Path] | None, shared("File of days without ticks: plain dates, TOML or ICS; repeatable.", "FILE")
]
Zone = Annotated[str | None, shared("IANA time zone of cron rules and business days (default UTC).", "ZONE")]


def put(
    name: Name,
    job_type: str = argument("The job type.", "TYPE"),
    arguments: options.Arguments = None,
    *,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    on_event: str | None = option("Routing key of the events that make it tick: job.dead.#.", "KEY"),
    after_success: str | None = option("Job type, or schedule:NAME, whose successes make it tick.", "NAME"),
    rule: RuleFile = None,
    holidays: Holidays = None,
    timezone: Zone = None,
    overlap: OverlapPolicy | None = option(
        "A tick while the job of an earlier one is not over (default allow: both run)."
    ),
    misfire: MisfirePolicy | None = option(
        "Ticks that were missed while no scheduler ran (default once: the last one)."
    ),
    queue: str | None = option("Queue (default: that of the job type).", "NAME"),
    unchecked: bool = flag(
        "--unchecked", "Also if no agent has announced the job type, or its schema refuses the arguments."
    ),
    no_wait: options.NoWait = False,
    timeout: options.ReplyTimeout = options.DEFAULT_REPLY_TIMEOUT,
    broker: options.Broker = None,
    as_json: Json = False,
) -> None:
    """Create a schedule, or replace its definition; returns once a scheduler has stored it.

    One of --cron, --every, --at, --on-event, --after-success or a rule in --rule FILE says when it ticks. The
    same put again changes nothing.

    $ warrener schedule put flights.hourly flights.load --cron "30 * * * *" --timezone Europe/Berlin
    $ warrener schedule put heartbeat ping --every 1s --overlap skip
    $ warrener schedule put new.year greet --at 2027-01-01T00:00:00
    $ warrener schedule put alert mail.send --on-event "job.dead.#"
    $ warrener schedule put report make --after-success flights.load
    $ warrener schedule put payroll pay --rule payroll.toml --holidays bavaria.ics
    """
    from warrener.render.schedules import no_times_line, preview_table
    from warrener.schedules.calendar import preview_ticks

    definition = _definition(
        rule,
        {"cron": cron, "every": every, "at": at, "on-event": on_event, "after-success": after_success},
        holidays or (),
        chosen={"overlap": overlap, "misfire": misfire},
        timezone=timezone,
        queue=queue,
        name=name,
        job_type=job_type,
        arguments=options.parse_arguments(arguments or ()),
    )
    preview = preview_ticks(definition, 3)
    reply_timeout = None if no_wait else timeout
    run(_publish(definition, broker, checked=not unchecked, reply_timeout=reply_timeout))
    if as_json:
        schedule = definition.model_dump(mode="json", exclude_none=True)
        print_json({"requested": "put", "accepted": None if no_wait else True, "schedule": schedule})
    else:
        err().print(f"[good]✓[/] {'requested to put' if no_wait else 'put'} {name}; its next ticks:")
        err().print(no_times_line(definition.rule) or preview_table(preview))


def _definition(
    rule: Path | None,
    rules: Mapping[str, Any],
    holidays: Sequence[Path],
    chosen: Mapping[str, Any],
    **fields: Any,
) -> "SchedulePutData":
    """Make the definition of a rule file and the options beside it. Raises CommandError."""
    from warrener.schedules.holidays import read_holidays
    from warrener.schedules.rules import expand_rule, upstream, without_holidays
    from warrener.schedules.schedules_file import make_definition, read_rule_file
    from warrener_contracts.schedule_rules import SHORT_RULE_FIELDS

    try:
        table = {} if rule is None else read_rule_file(rule)
    except CommandError as error:
        raise UsageError(f"--rule: {error.sentence}", do=error.do) from error
    chosen_rules = {key: one for key, one in rules.items() if one is not None}
    given = [f"--{name}" for name in chosen_rules]
    given += [f"{key} in --rule" for key in _RULES_OF_FILES if key in table]
    if len(given) != 1:
        raise UsageError(
            "expected one of --cron, --every, --at, --on-event, --after-success and a rule in --rule FILE, "
            f"got {' and '.join(given) or 'none of them'}"
        )
    match chosen_rules:
        case {"on-event": key}:
            table["rule"] = {"kind": "event", "key": key}
        case {"after-success": name}:
            table["rule"] = {"kind": "after", "upstreams": [upstream(name)]}
        case {"at": moment}:
            table["at"] = moment.replace(tzinfo=moment.tzinfo or UTC)
        case short:
            table |= short
    choices = table.get("choices", {})
    if is_object(choices):
        choices = {**choices, **{key: value for key, value in chosen.items() if value is not None}}
    table |= {key: value for key, value in fields.items() if value is not None} | {"choices": choices}
    today = datetime.now(UTC).date()
    try:
        days = [day for file in holidays for day in read_holidays(file, today)]
        expanded = without_holidays(expand_rule(table), days)
        rest = {key: value for key, value in table.items() if key not in SHORT_RULE_FIELDS}
        return make_definition({**rest, "rule": expanded})
    except ValueError as error:
        raise UsageError(f"the schedule cannot be put: {error}") from None


async def _publish(
    definition: "SchedulePutData", broker: str | None, *, checked: bool, reply_timeout: float | None
) -> None:
    from warrener_client import CommandRefused

    endpoints, job_type = resolve_endpoints(broker), definition.job_type
    async with connect_client(endpoints) as client:
        try:
            await client.put_schedules([definition], checked=checked, reply_timeout=reply_timeout)
        except CommandRefused as error:
            if hint := await hint_at_job_type(endpoints, job_type):
                raise CommandError(str(error), do=hint, code=ExitCode.NOT_SUCCESSFUL) from error
            raise
    if not checked and (hint := await hint_at_job_type(endpoints, job_type)):
        err().print(f"[warning]![/] no agent has announced {job_type}; {hint}")


def show(name: Name, *, limit: options.Limit = 24, store: Store = None, as_json: Json = False) -> None:
    """Show a schedule and its newest ticks.

    $ warrener schedule show flights.hourly
    $ warrener schedule show flights.hourly -n 100 --json
    """
    from warrener.command.verbs import table_of, with_backend
    from warrener.operations.schedules import SCHEDULES, read_schedule
    from warrener.render.schedules import no_times_line

    found = with_backend(resolve_endpoints(store=store), lambda backend: read_schedule(backend, name, limit))
    if as_json:
        print_json(found)
        return
    now = datetime.now(UTC)
    out().print(table_of(SCHEDULES, [found], now))
    if sentence := no_times_line(found.definition.rule):
        out().print(sentence)
    out().print(_ticks_table(found.ticks, now))


def _ticks_table(ticks: "Sequence[ListedTick]", now: datetime) -> "Table":
    from rich.text import Text

    from warrener.render.schedules import TICK_TONES

    made = table("nominal time", "status", "late", "job", "why", right=("late",))
    for tick in ticks:
        made.add_row(
            f"{clock(tick.nominal_at)} ({ago(tick.nominal_at, now)})",
            Text(tick.status.value, style=TICK_TONES[tick.status]),
            span(tick.late, units=1),
            "" if tick.job_id is None else str(tick.job_id),
            Text(tick.reason, style="soft"),
        )
    return made


def preview(
    name: str | None = argument("The name of the schedule.", "NAME", default=None),
    *,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    rule: RuleFile = None,
    holidays: Holidays = None,
    timezone: Zone = None,
    begin: str | None = option("Time behind which the ticks are (default now).", "TIME", names="--from"),
    limit: int = option("Number of ticks.", names="--limit -n", default=10, min=1, max=10_000),
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the next ticks of a schedule, or of a rule, with the clock changes between them.

    $ warrener schedule preview flights.hourly -n 5
    $ warrener schedule preview --cron "30 2 * * *" --timezone Europe/Berlin --from 2027-03-27
    """
    from warrener.render.schedules import no_times_line, preview_table
    from warrener.schedules.backfill import parse_time
    from warrener.schedules.calendar import preview_ticks

    rules = {"cron": cron, "every": every, "at": at}
    after = None if begin is None else parse_time(begin, "--from")
    if name is None:
        fields = {"timezone": timezone, "name": "preview", "job_type": "preview"}
        definition, put_at = _definition(rule, rules, holidays or (), chosen={}, **fields), after
    elif any((*rules.values(), rule, holidays, timezone)):
        raise UsageError("expected the name of a schedule or a rule, got both")
    else:
        row = query_store(store, lambda open_store: find_schedule(open_store, name))
        definition, put_at = row.definition, row.put_at
    ticks = preview_ticks(definition, limit, put_at, after)
    if as_json:
        print_json(ticks)
    else:
        out().print(no_times_line(definition.rule) or preview_table(ticks))


def lint(names: options.ScheduleNames = None, *, store: Store = None, as_json: Json = False) -> None:
    r"""Warn of rules that never tick again, meet clock changes, or tick faster than their jobs end.

    Exit code 0: no warning; 1: warnings; 2: a name that the store does not know.

    $ warrener schedule lint
    $ warrener schedule lint flights.hourly
    $ warrener schedule lint --json | jq -r '.[] | "\(.schedule): \(.kind)"'
    """

    from rich.text import Text

    from warrener_calendar.lint import lint_schedule

    async def query(open_store: "OpenStore") -> "list[tuple[ScheduleRow, list[timedelta]]]":
        rows = await find_schedules(open_store, names or (), code=ExitCode.USAGE)
        return [(rows[name], await _durations(open_store, name)) for name in sorted(rows)]

    schedules, now = query_store(store, query), datetime.now(UTC)
    found = [
        {"schedule": row.name, **asdict(warning)}
        for row, durations in schedules
        for warning in lint_schedule(row.definition, now, put_at=row.put_at, durations=durations)
    ]
    if as_json:
        print_json(found)
    else:
        for warning in found:
            kind, text = warning["kind"], warning["text"]
            out().print(Text.assemble((str(warning["schedule"]), "warning"), f" {kind}: {text}"))
    if found:
        raise typer.Exit(ExitCode.FAILED)
    if not as_json:
        err().print(f"[good]✓[/] nothing to warn of in {len(schedules)} schedules")


async def _durations(store: "OpenStore", name: str) -> list[timedelta]:
    """Durations of the jobs of the last ticks, from request to end, in which another tick overlaps."""
    ticks = await store.ticks_of(name, _TICKS_LINTED)
    begun = {tick.job_id: tick.fired_at or tick.decided_at for tick in ticks if tick.job_id is not None}
    jobs = await store.jobs_by_id(begun)
    return [job.finished_at - begun[job_id] for job_id, job in jobs.items() if job.finished_at is not None]
