"""`warrener schedule put`, `pause`, `resume`, `remove`, `trigger`, `list`, `show`, `preview` and `lint`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from warrener.context import connect_client, query_store, resolve_endpoints, run, show_list
from warrener.errors import CommandError, ExitCode
from warrener.options import (
    DEFAULT_REASON,
    DEFAULT_REPLY_TIMEOUT,
    Broker,
    Json,
    Limit,
    NoWait,
    ReplyTimeout,
    Store,
    parse_arguments,
)
from warrener.render.screen import err, out, print_json
from warrener.selection import find_schedule, find_schedules
from warrener_contracts.json_safety import is_object
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy

if TYPE_CHECKING:
    from warrener.schedules.calendar import LintTarget
    from warrener_contracts.events import SchedulePutData
    from warrener_store import Store as OpenStore
    from warrener_store.schedules.rows import ScheduleRow, TickRow

_TICKS_LINTED = 200
_RULES_OF_FILES = ("rule", "cron", "every", "at", "after")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Reason, stored with the command.")]


def _option(name: str, about: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=about, metavar=metavar, show_default=False)


# -- put ---------------------------------------------------------------------------------------------------


def put(
    name: Name,
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Arguments: one JSON object, or key=value words."),
    ] = None,
    *,
    cron: Annotated[
        str | None,
        _option("--cron", "Cron expression of five fields, or of six with seconds first.", "EXPR"),
    ] = None,
    every: Annotated[str | None, _option("--every", "Interval, such as 90s or 2h.", "SPAN")] = None,
    at: Annotated[datetime | None, _option("--at", "Time of a single tick (UTC).", "TIME")] = None,
    on_event: Annotated[
        str | None, _option("--on-event", "Routing key of the events that make it tick: job.dead.#.", "KEY")
    ] = None,
    after_success: Annotated[
        str | None,
        _option("--after-success", "Job type, or schedule:NAME, whose successes make it tick.", "NAME"),
    ] = None,
    rule: Annotated[
        Path | None,
        _option(
            "--rule",
            "TOML file with any other rule, and with choices, policy, queue and timezone; options win.",
            "FILE",
        ),
    ] = None,
    holidays: Annotated[
        list[Path] | None,
        _option("--holidays", "File of days without ticks: plain dates, TOML or ICS; repeatable.", "FILE"),
    ] = None,
    timezone: Annotated[
        str | None, _option("--timezone", "IANA time zone of cron rules and business days (default UTC).")
    ] = None,
    overlap: Annotated[
        OverlapPolicy | None,
        _option("--overlap", "Tick during the job of an earlier tick (default allow)."),
    ] = None,
    misfire: Annotated[MisfirePolicy | None, _option("--misfire", "Missed ticks (default once).")] = None,
    queue: Annotated[str | None, _option("--queue", "Queue (default: that of the job type).")] = None,
    unchecked: Annotated[
        bool,
        typer.Option(
            "--unchecked", help="Also for a job type that no agent has announced, and without its schema."
        ),
    ] = False,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
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
    from warrener.schedules.rules import upstream

    table = {} if rule is None else _read_rule(rule)
    choices, chosen = table.get("choices", {}), _drop_none({"overlap": overlap, "misfire": misfire})
    short = {"cron": cron, "every": every, "at": _utc(at)}
    events = {"on-event": on_event, "after-success": after_success}
    _require_one_rule(table, short | events)
    if on_event is not None:
        table["rule"] = {"kind": "event", "key": on_event}
    elif after_success is not None:
        table["rule"] = {"kind": "after", "upstreams": [upstream(after_success)]}
    definition = _definition(
        {
            **table,
            **_drop_none(short),
            **_drop_none({"timezone": timezone, "queue": queue}),
            "name": name,
            "job_type": job_type,
            "arguments": parse_arguments(arguments or ()),
            "choices": {**choices, **chosen} if is_object(choices) else choices,
        },
        _read_all_holidays(holidays or ()),
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


def _read_rule(path: Path) -> dict[str, Any]:
    from warrener.schedules.schedules_file import read_rule_file

    try:
        return read_rule_file(path)
    except CommandError as error:
        raise CommandError(f"--rule: {error.sentence}", do=error.do, code=ExitCode.USAGE) from error


def _require_one_rule(table: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    given = [f"--{name}" for name, value in options.items() if value is not None]
    given += [f"{key} in --rule" for key in _RULES_OF_FILES if key in table]
    if len(given) != 1:
        raise CommandError(
            "expected one of --cron, --every, --at, --on-event, --after-success and a rule in --rule FILE, "
            f"got {' and '.join(given) or 'none of them'}",
            code=ExitCode.USAGE,
        )


def _definition(fields: Mapping[str, Any], holidays: Sequence[date]) -> "SchedulePutData":
    from warrener.schedules.rules import expand_rule, without_holidays
    from warrener.schedules.schedules_file import DefinitionError, make_definition
    from warrener_contracts.schedule_rules import SHORT_RULE_FIELDS

    try:
        rule = without_holidays(expand_rule(fields), holidays)
        rest = {key: value for key, value in fields.items() if key not in SHORT_RULE_FIELDS}
        return make_definition({**rest, "rule": rule})
    except (DefinitionError, ValueError) as error:
        raise CommandError(f"the schedule cannot be put: {error}", code=ExitCode.USAGE) from None


def _read_all_holidays(files: Sequence[Path]) -> list[date]:
    from warrener.schedules.holidays import read_holidays

    today = datetime.now(UTC).date()
    return [day for file in files for day in read_holidays(file, today)]


async def _publish(
    definition: "SchedulePutData", broker: str | None, *, checked: bool, reply_timeout: float | None
) -> None:
    async with connect_client(resolve_endpoints(broker)) as client:
        await client.put_schedules([definition], checked=checked, reply_timeout=reply_timeout)


def _drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)


# -- commands ----------------------------------------------------------------------------------------------


def pause(
    name: Name,
    *,
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Skip the ticks of a schedule until it is resumed; its history records them.

    $ warrener schedule pause flights.hourly --reason "the files are late today"
    """
    _send_command("pause", name, reason, broker, None if no_wait else timeout, as_json=as_json)


def resume(
    name: Name,
    *,
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Resume a paused schedule.

    $ warrener schedule resume flights.hourly
    """
    _send_command("resume", name, reason, broker, None if no_wait else timeout, as_json=as_json)


def remove(
    name: Name,
    *,
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Delete a schedule; its history stays.

    $ warrener schedule remove flights.hourly
    """
    _send_command("remove", name, reason, broker, None if no_wait else timeout, as_json=as_json)


def trigger(
    name: Name,
    *,
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Request the job of a schedule now, beside its ticks.

    $ warrener schedule trigger flights.hourly --reason "the file of noon was mended"
    """
    _send_command("trigger", name, reason, broker, None if no_wait else timeout, as_json=as_json)


_DONE = {"pause": "paused", "resume": "resumed", "remove": "removed", "trigger": "triggered"}


def _send_command(
    verb: str, name: str, reason: str, broker: str | None, reply_timeout: float | None, *, as_json: bool
) -> None:
    async def send() -> UUID | None:
        async with connect_client(resolve_endpoints(broker)) as client:
            commands: dict[str, Callable[..., Awaitable[UUID | None]]] = {
                "pause": client.pause_schedule,
                "resume": client.resume_schedule,
                "remove": client.remove_schedule,
                "trigger": client.trigger_schedule,
            }
            return await commands[verb](name, reason, reply_timeout=reply_timeout)

    event_id = run(send())
    is_done = reply_timeout is not None
    if as_json:
        document = {
            "schedule": name,
            "requested": verb,
            "reason": reason,
            "accepted": True if is_done else None,
        }
        print_json(document | ({"job_id": event_id} if verb == "trigger" else {}))
    else:
        done = _DONE[verb] if is_done else f"requested to {verb}"
        look = f"warrener job {event_id}" if verb == "trigger" else f"warrener schedule show {name}"
        err().print(f"[good]✓[/] {done} {name}; [soft]see {look}[/]", soft_wrap=True)


# -- queries -----------------------------------------------------------------------------------------------


def list_(*, store: Store = None, as_json: Json = False) -> None:
    """List the schedules.

    $ warrener schedule list
    $ warrener schedule list --json | jq -r '.[] | select(.paused).definition.name'
    """

    from warrener.render.schedules import schedules_table

    async def query(open_store: "OpenStore") -> "list[ScheduleRow]":
        return list((await open_store.schedules()).values())

    none = "There is no schedule: `warrener schedule put --help` shows how to make one."
    show_list(store, query, schedules_table, as_json=as_json, none=none)


def show(name: Name, *, limit: Limit = 20, store: Store = None, as_json: Json = False) -> None:
    """Show a schedule and its newest ticks.

    $ warrener schedule show flights.hourly
    $ warrener schedule show flights.hourly -n 100 --json
    """

    from warrener.render.schedules import no_times_line, schedules_table, ticks_table

    async def query(open_store: "OpenStore") -> "tuple[ScheduleRow, list[TickRow]]":
        return await find_schedule(open_store, name), list(await open_store.ticks_of(name, limit))

    row, ticks = query_store(store, query)
    if as_json:
        print_json({"schedule": row, "ticks": ticks})
        return
    now = datetime.now(UTC)
    out().print(schedules_table([row], now))
    if sentence := no_times_line(row.definition.rule):
        out().print(sentence)
    out().print(ticks_table(ticks, now))


def preview(
    name: Name,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Number of ticks.")] = 10,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the next ticks, with the clock changes between them.

    $ warrener schedule preview flights.hourly -n 5
    """
    from warrener.render.schedules import no_times_line, preview_table
    from warrener.schedules.calendar import preview_ticks

    row = query_store(store, lambda open_store: find_schedule(open_store, name))
    ticks = preview_ticks(row.definition, limit, row.put_at)
    if as_json:
        print_json(ticks)
    else:
        out().print(no_times_line(row.definition.rule) or preview_table(ticks))


def lint(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Schedules (default all).")
    ] = None,
    *,
    store: Store = None,
    as_json: Json = False,
) -> None:
    r"""Warn of rules that never tick again, meet clock changes, or tick faster than their jobs end.

    Exit code 0: no warning; 1: warnings; 2: a name that the store does not know.

    $ warrener schedule lint
    $ warrener schedule lint flights.hourly
    $ warrener schedule lint --json | jq -r '.[] | "\(.schedule): \(.kind)"'
    """

    from warrener.render.schedules import warning_text
    from warrener.schedules.calendar import LintTarget, lint_schedules

    async def query(open_store: "OpenStore") -> "list[LintTarget]":
        rows = await find_schedules(open_store, names or (), code=ExitCode.USAGE)
        return [
            LintTarget(rows[name].definition, rows[name].put_at, await _durations(open_store, name))
            for name in sorted(rows)
        ]

    schedules = query_store(store, query)
    answers = zip(schedules, lint_schedules(schedules), strict=True)
    found = [{"schedule": one.definition.name, **warning} for one, some in answers for warning in some]
    if as_json:
        print_json(found)
    else:
        for warning in found:
            out().print(warning_text(warning))
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
