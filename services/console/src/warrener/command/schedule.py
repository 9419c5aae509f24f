"""`warrener schedule …`: put, list, show, preview, pause, resume, trigger, remove."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import ValidationError

from warrener.arguments import parse_arguments
from warrener.calendar import preview_ticks
from warrener.command.listing import show_list
from warrener.command.schedule_rule import (
    BusinessDays,
    DaysOfMonth,
    ExceptCron,
    Holidays,
    Nth,
    RollTo,
    RuleJson,
    Weekdays,
    business_days_rule,
    narrowed,
    whole_rule,
)
from warrener.command_runner import connect_client, connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Limit, Store
from warrener.render.schedules import preview_table, schedules_table, ticks_table
from warrener.render.screen import err, out, print_json
from warrener.render.triggers import no_times_line
from warrener.trigger_options import after_rule, event_rule, require_event_rule
from warrener_client.client import ScheduleCommandEvent
from warrener_contracts.events import (
    SchedulePauseRequested,
    SchedulePutData,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
)
from warrener_contracts.schedule_rules import DstGap, DstOverlap, MisfirePolicy, OverlapPolicy
from warrener_store import Store as OpenStore
from warrener_store.schedules.rows import ScheduleRow, TickRow

EXAMPLES = """
warrener schedule put flights.hourly flights.load path=today.csv --cron "30 * * * *" --timezone Europe/Berlin
warrener schedule preview flights.hourly -n 5
warrener schedule show flights.hourly
"""
PUT_EXAMPLES = """
warrener schedule put flights.hourly flights.load path=today.csv --cron "30 * * * *" --timezone Europe/Berlin
warrener schedule put payroll pay --business-days 09:00 --nth -1 --holidays bavaria.ics
warrener schedule put heartbeat ping --every 1s --overlap skip
warrener schedule put new.year greet --at 2027-01-01T00:00:00
warrener schedule put alert mail.send --on-event "job.dead.#" --debounce 1m
warrener schedule put load flights.load --on-event landed --exchange airport --where data.country=DE
warrener schedule put report make --after-success flights.load --after-success schedule:fares --within 1h
"""
LIST_EXAMPLES = """
warrener schedule list
warrener schedule list --json | jq -r '.[] | select(.paused).asked.name'
"""
SHOW_EXAMPLES = """
warrener schedule show flights.hourly
warrener schedule show flights.hourly -n 100 --json
"""
PREVIEW_EXAMPLES = """
warrener schedule preview flights.hourly -n 5
"""
PAUSE_EXAMPLES = """
warrener schedule pause flights.hourly --reason "the files are late today"
"""
RESUME_EXAMPLES = """
warrener schedule resume flights.hourly
"""
TRIGGER_EXAMPLES = """
warrener schedule trigger flights.hourly --reason "the file of noon was mended"
"""
REMOVE_EXAMPLES = """
warrener schedule remove flights.hourly
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why.")]
Ticks = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="So many ticks.")]


def _option(name: str, about: str) -> Any:
    return typer.Option(name, help=about, show_default=False)


def put(
    name: Name,
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Its arguments, or one JSON object.")
    ] = None,
    *,
    cron: Annotated[
        str | None, _option("--cron", 'Five fields, or six with seconds first: "*/5 * * * *".')
    ] = None,
    every: Annotated[str | None, _option("--every", "An interval: 90s, 2h.")] = None,
    anchor: Annotated[datetime | None, _option("--anchor", "Where an interval is counted from.")] = None,
    offset: Annotated[str | None, _option("--offset", "Added to the anchor.")] = None,
    at: Annotated[datetime | None, _option("--at", "Once, at this time (UTC).")] = None,
    after: Annotated[str | None, _option("--after", "Once, after so long.")] = None,
    on_event: Annotated[
        str | None, _option("--on-event", "Whenever a message comes under this key: job.dead.#.")
    ] = None,
    exchange: Annotated[str | None, _option("--exchange", "By this exchange; else warrener.events.")] = None,
    where: Annotated[
        list[str] | None, _option("--where", "And passes: data.country=DE, data.rows>=100, !data.error.")
    ] = None,
    debounce: Annotated[
        str | None, _option("--debounce", "Once no event has come for so long; the last counts.")
    ] = None,
    longest_wait: Annotated[
        str | None, _option("--longest-wait", "But no later after the first; else ten times --debounce.")
    ] = None,
    after_success: Annotated[
        list[str] | None,
        _option("--after-success", "Of jobs of this type, or of schedule:NAME; of all given."),
    ] = None,
    after_failure: Annotated[
        list[str] | None, _option("--after-failure", "As above; dead or expired.")
    ] = None,
    after_end: Annotated[
        list[str] | None, _option("--after-end", "As above; however they have ended.")
    ] = None,
    within: Annotated[str | None, _option("--within", "The window for several of these.")] = None,
    event_as: Annotated[
        str | None, _option("--event-as", "The argument in which the job gets the event.")
    ] = None,
    business_days: BusinessDays = None,
    weekdays: Weekdays = None,
    nth: Nth = None,
    day_of_month: DaysOfMonth = None,
    roll: RollTo = None,
    rule: RuleJson = None,
    holidays: Holidays = None,
    except_cron: ExceptCron = None,
    timezone: Annotated[str, typer.Option(help="An IANA name; for what goes by the wall clock.")] = "UTC",
    skipped_hour: Annotated[DstGap, typer.Option(help="A wall time that the clock jumps over.")] = (
        DstGap.AFTER
    ),
    repeated_hour: Annotated[DstOverlap, typer.Option(help="A wall time that the clock shows twice.")] = (
        DstOverlap.FIRST
    ),
    misfire: Annotated[MisfirePolicy, typer.Option(help="Ticks that were missed.")] = MisfirePolicy.ONCE,
    catch_up_most: Annotated[int, typer.Option(help="For --misfire all.")] = 10,
    catch_up_window: Annotated[str | None, _option("--catch-up-window", "For --misfire window.")] = None,
    grace: Annotated[str, typer.Option(help="Later than that is missed.")] = "10s",
    overlap: Annotated[OverlapPolicy, typer.Option(help="While the job of an earlier tick is not over.")] = (
        OverlapPolicy.ALLOW
    ),
    jitter: Annotated[str | None, _option("--jitter", "Each tick is late by up to this.")] = None,
    start: Annotated[datetime | None, _option("--start", "No tick before (UTC).")] = None,
    end: Annotated[datetime | None, _option("--end", "No tick after (UTC).")] = None,
    max_runs: Annotated[int | None, _option("--max-runs", "Over after so many jobs.")] = None,
    pause_after_failures: Annotated[
        int | None, _option("--pause-after-failures", "Paused when so many of its jobs fail in a row.")
    ] = None,
    expect_success_within: Annotated[
        str | None, _option("--expect-success-within", "An alarm if no job succeeds for so long.")
    ] = None,
    overdue_after: Annotated[
        str | None, _option("--overdue-after", "An alarm if a tick is so late; else 20 s after its grace.")
    ] = None,
    queue: Annotated[str | None, _option("--queue", "Else that of the job type.")] = None,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Make a schedule be as it is said here, new or not. Saying the same again changes nothing."""
    choices = {
        "skipped_hour": skipped_hour,
        "repeated_hour": repeated_hour,
        "misfire": misfire,
        "catch_up_most": catch_up_most,
        "catch_up_window": catch_up_window,
        "grace": grace,
        "overlap": overlap,
        "jitter": jitter,
        "start": _utc(start),
        "end": _utc(end),
        "max_runs": max_runs,
        "pause_after_failures": pause_after_failures,
        "expect_success_within": expect_success_within,
        "overdue_after": overdue_after,
    }
    rules = {
        "cron": {"kind": "cron", "expression": cron} if cron else None,
        "every": {"kind": "interval", "every": every, "anchor": _utc(anchor), "offset": offset}
        if every
        else None,
        "at": {"kind": "once", "at": _utc(at)} if at else None,
        "after": {"kind": "once", "after": after} if after else None,
        "on-event": event_rule(
            on_event,
            where or (),
            {
                "exchange": exchange,
                "debounce": debounce,
                "longest_wait": longest_wait,
                "event_as": event_as,
            },
        ),
        "after-success": after_rule(
            {
                "succeeded": after_success or (),
                "failed": after_failure or (),
                "finished": after_end or (),
            },
            {"within": within, "event_as": event_as},
        ),
        "business_days": business_days_rule(business_days, weekdays, nth, day_of_month, roll),
        "rule": whole_rule(rule),
    }
    require_event_rule(event_as, rules["on-event"], rules["after-success"])
    definition = _parse_definition(
        {
            "name": name,
            "rule": narrowed(_one_of(rules), except_cron or (), holidays or ()),
            "timezone": timezone,
            "job_type": job_type,
            "arguments": parse_arguments(arguments or ()),
            "queue": queue,
            "choices": _drop_none(choices),
        }
    )
    preview = preview_ticks(definition, 3)
    run(_put(definition, broker))
    if as_json:
        print_json({"asked": "put", "schedule": definition.model_dump(mode="json", exclude_none=True)})
    else:
        err().print(f"[good]✓[/] asked to put {name}; its next ticks:")
        err().print(no_times_line(definition.rule) or preview_table(preview))


def preview(
    name: Name,
    *,
    limit: Ticks = 10,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the next ticks, with the clock changes between them."""

    async def fetch() -> ScheduleRow:
        return await _row(name, store)

    row = run(fetch())
    ticks = preview_ticks(row.asked, limit, row.put_at)
    if as_json:
        print_json(ticks)
    else:
        out().print(no_times_line(row.asked.rule) or preview_table(ticks))


def show(name: Name, *, limit: Limit = 20, store: Store = None, as_json: Json = False) -> None:
    """Show a schedule and the newest rows of its ledger."""

    async def fetch() -> tuple[ScheduleRow, list[TickRow]]:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            rows = await open_store.schedules([name])
            if name not in rows:
                raise _unknown(name)
            return rows[name], list(await open_store.ticks_of(name, limit))

    row, ticks = run(fetch())
    if as_json:
        print_json({"schedule": row, "ticks": ticks})
    else:
        now = datetime.now(UTC)
        out().print(schedules_table([row], now))
        if sentence := no_times_line(row.asked.rule):
            out().print(sentence)
        out().print(ticks_table(ticks, now))


def list_(*, store: Store = None, as_json: Json = False) -> None:
    """List the schedules."""

    async def fetch(open_store: OpenStore) -> list[ScheduleRow]:
        return list((await open_store.schedules()).values())

    show_list(
        store,
        fetch,
        schedules_table,
        as_json=as_json,
        none="There is no schedule: `warrener schedule put --help` shows how to make one.",
    )


def pause(name: Name, *, reason: Reason = "asked for", broker: Broker = None, as_json: Json = False) -> None:
    """Skip the ticks of a schedule until it is resumed; the ledger keeps them."""
    _send_command(SchedulePauseRequested, "pause", name, reason, broker, as_json=as_json)


def resume(name: Name, *, reason: Reason = "asked for", broker: Broker = None, as_json: Json = False) -> None:
    """Let a paused schedule tick again."""
    _send_command(ScheduleResumeRequested, "resume", name, reason, broker, as_json=as_json)


def remove(name: Name, *, reason: Reason = "asked for", broker: Broker = None, as_json: Json = False) -> None:
    """Forget a schedule; its ledger stays."""
    _send_command(ScheduleRemoveRequested, "remove", name, reason, broker, as_json=as_json)


def trigger(
    name: Name, *, reason: Reason = "asked for", broker: Broker = None, as_json: Json = False
) -> None:
    """Ask for the job of a schedule now, beside its ticks."""
    _send_command(ScheduleTriggerRequested, "trigger", name, reason, broker, as_json=as_json)


def _send_command(
    kind: ScheduleCommandEvent, verb: str, name: str, reason: str, broker: str | None, *, as_json: bool
) -> None:
    async def fetch() -> UUID:
        async with connect_client(resolve_endpoints(broker)) as client:
            return await client.send_schedule_command(kind, name, reason)

    event_id = run(fetch())
    if as_json:
        document = {"schedule": name, "asked": verb, "reason": reason}
        print_json(document | ({"job_id": event_id} if verb == "trigger" else {}))
    else:
        err().print(
            f"[good]✓[/] asked to {verb} {name}; [soft]what becomes of it: warrener schedule show {name}[/]"
        )


async def _put(definition: SchedulePutData, broker: str | None) -> None:
    async with connect_client(resolve_endpoints(broker)) as client:
        await client.put_schedules([definition])


async def _row(name: str, store: str | None) -> ScheduleRow:
    async with connect_store(resolve_endpoints(store=store)) as open_store:
        row = (await open_store.schedules([name])).get(name)
    if row is None:
        raise _unknown(name)
    return row


def _unknown(name: str) -> CommandError:
    return CommandError(
        f"expected the name of a schedule that the store knows, got {name!r}",
        do="look at `warrener schedule list`",
    )


def _one_of(rules: dict[str, Any]) -> dict[str, Any]:
    """The one rule that was given."""
    given = [rule for rule in rules.values() if rule is not None]
    if len(given) != 1:
        raise CommandError(
            "expected one of --cron, --every, --at, --after, --business-days, --rule, --on-event and "
            f"--after-success, got {len(given)} of them",
            code=ExitCode.USAGE,
        )
    return _drop_none(given[0])


def _drop_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC)


def _parse_definition(fields: dict[str, Any]) -> SchedulePutData:
    try:
        return SchedulePutData.model_validate(_drop_none(fields))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, found['loc']))}: {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors(include_url=False)
        )
        raise CommandError(f"the schedule cannot be put: {problems}", code=ExitCode.USAGE) from None
