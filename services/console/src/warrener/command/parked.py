"""`warrener parked`: lists parked messages, and has the supervisor requeue or drop them.

The store finds the messages; a request names them by id, at most 200 in one event, so that each event is
carried out in bounded time and a repeat of it finds nothing left to do.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from warrener.context import (
    ResolvedEndpoints,
    connect_client,
    connect_store,
    new_envelope,
    resolve_endpoints,
    run,
    show_list,
)
from warrener.errors import CommandError, ExitCode
from warrener.options import (
    DEFAULT_REASON,
    Broker,
    By,
    Json,
    Limit,
    Store,
    current_user,
    parse_ago,
    parse_seconds,
)
from warrener.render.screen import err, out, print_json

if TYPE_CHECKING:
    from warrener_contracts.events import Event
    from warrener_store import Store as OpenStore
    from warrener_store.parked.rows import ParkedFilter, ParkedGroup, ParkedMessage

_MAX_IDS = 200  # of one event
_POLL_INTERVAL = 0.1  # seconds
_TICK = timedelta(microseconds=1)

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Parked messages, by `parked_id` of `warrener parked --json`."),
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="WORD", help="Reason why the messages are parked.")
]
InQueue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Queue they came from.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="2h", help="Maximum time since they were parked.")
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="30d", help="Minimum time since they were parked.")
]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
Yes = Annotated[bool, typer.Option("--yes", help="Execute the command (default: only show the messages).")]
Wait = Annotated[
    float,
    typer.Option(
        parser=parse_seconds, metavar="SPAN", help="Time to wait for the supervisor after each 200 messages."
    ),
]


def parked(ctx: typer.Context, *, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """Messages that no service could use: list, requeue, drop. Without a further word it lists them.

    They are stored with the reason (and unchanged, in JSON).

    $ warrener parked
    $ warrener parked --json | jq -r '.[0].body'
    $ warrener parked requeue --reason unknown_job_type
    $ warrener parked drop --queue warrener.requests --before 30d --yes
    """
    if ctx.invoked_subcommand is None:
        list_(limit=limit, store=store, as_json=as_json)


def list_(*, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """List the messages that no service could use, the newest first.

    $ warrener parked list
    $ warrener parked list --json | jq -r '.[0].body'
    """
    from warrener.render.jobs import parked_table

    show_list(
        store,
        lambda open_store: open_store.parked(limit=limit),
        parked_table,
        as_json=as_json,
        none="No message is parked.",
        to_json=parked_json,
    )


def parked_json(message: "ParkedMessage") -> dict[str, Any]:
    """`body` is text; `body_base64` is a body that is none."""
    fields = {name: getattr(message, name) for name in message.__slots__ if name != "body"}
    try:
        return fields | {"body": message.body.decode()}
    except UnicodeDecodeError:
        return fields | {"body_base64": b64encode(message.body).decode()}


def requeue(
    ids: Ids = None,
    *,
    reason: Reason = None,
    queue: InQueue = None,
    since: Since = None,
    before: Before = None,
    everything: Everything = False,
    yes: Yes = False,
    by: By = None,
    wait: Wait = 30.0,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Requeue parked messages, once the cause is mended.

    Each goes to the queue that it came from, and is deleted here once the broker has confirmed it. A message
    that still cannot be used is parked again. Without --yes the command only shows the messages.

    $ warrener parked requeue --reason unknown_job_type
    $ warrener parked requeue --queue warrener.status --since 2h --yes
    """
    which = _selection(ids, reason, queue, since, before, everything=everything)
    command = _Command("requeue", which, by or current_user(), "")
    _run(command, resolve_endpoints(broker, store), yes=yes, wait=wait, as_json=as_json)


def drop(
    ids: Ids = None,
    *,
    reason: Reason = None,
    queue: InQueue = None,
    since: Since = None,
    before: Before = None,
    everything: Everything = False,
    comment: Annotated[str, typer.Option("--comment", help="Why they are dropped; logged.")] = DEFAULT_REASON,
    yes: Yes = False,
    by: By = None,
    wait: Wait = 30.0,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Delete parked messages. Without --yes the command only shows them.

    $ warrener parked drop --reason not_json --before 30d
    $ warrener parked drop 7d1b9f52-5f0e-5d4b-9c39-0a8f6a3b1c44 --yes --comment "sent by a test"
    """
    which = _selection(ids, reason, queue, since, before, everything=everything)
    command = _Command("drop", which, by or current_user(), comment)
    _run(command, resolve_endpoints(broker, store), yes=yes, wait=wait, as_json=as_json)


def _selection(
    ids: list[str] | None,
    reason: str | None,
    queue: str | None,
    since: str | None,
    before: str | None,
    *,
    everything: bool,
) -> "ParkedFilter":
    if not (ids or reason or queue or since or before or everything):
        raise CommandError(
            "expected a selection of parked messages, got none",
            do="give ids, --reason, --queue, --since or --before; or --all",
            code=ExitCode.USAGE,
        )
    from warrener_store.parked.rows import ParkedFilter

    return ParkedFilter(
        reason=reason,
        queue=queue,
        since=parse_ago(since),
        before=parse_ago(before),
        ids=tuple(ids) if ids else None,
    )


@dataclass(frozen=True, slots=True)
class _Command:
    """A command about the selected messages, with its author and its reason."""

    what: Literal["requeue", "drop"]
    which: "ParkedFilter"
    by: str
    comment: str

    def event(self, ids: tuple[str, ...]) -> "Event[Any]":
        from warrener_contracts.events import (
            ParkedDropRequested,
            ParkedDropRequestedData,
            ParkedRequeueRequested,
            ParkedRequeueRequestedData,
        )

        if self.what == "drop":
            dropped = ParkedDropRequestedData(ids=ids, by=self.by, reason=self.comment)
            return ParkedDropRequested(**new_envelope(), data=dropped)
        return ParkedRequeueRequested(**new_envelope(), data=ParkedRequeueRequestedData(ids=ids, by=self.by))


@dataclass(slots=True)
class _CommandResult:
    """Result of a command. `left`: messages that no supervisor has handled, or the broker refused."""

    requested: Literal["requeue", "drop"]
    done: int = 0
    parked_again: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


_Page = Mapping[str, tuple[int, datetime]]
"""Messages by id, with the number of times and the time they were parked."""


def _run(command: _Command, endpoints: ResolvedEndpoints, *, yes: bool, wait: float, as_json: bool) -> None:
    groups = run(_group(endpoints, command))
    if not yes or not groups:
        _print_preview(groups, command, yes=yes, as_json=as_json)
        return
    result = run(_execute(endpoints, command, groups, wait=wait))
    if as_json:
        print_json(result)
    else:
        _print_result(result)
    if result.left or result.parked_again:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


async def _group(endpoints: ResolvedEndpoints, command: _Command) -> "Sequence[ParkedGroup]":
    async with connect_store(endpoints) as store:
        return await store.group_parked(command.which)


def _count(groups: "Sequence[ParkedGroup]") -> int:
    return sum(group.messages for group in groups)


async def _execute(
    endpoints: ResolvedEndpoints, command: _Command, groups: "Sequence[ParkedGroup]", *, wait: float
) -> _CommandResult:
    """Publish the command page by page, and wait for each page to change in the store."""
    result = _CommandResult(command.what)
    # Messages that are parked from now on, again or for the first time, are not part of the selection.
    until = max(group.last for group in groups) + _TICK
    which = replace(command.which, before=min(until, command.which.before or until))
    async with connect_store(endpoints) as store, connect_client(endpoints) as client:
        with err().status("[soft]confirmed by the broker; a supervisor carries it out[/]") as status:
            async for page in _pages(store, which):
                await client.send(command.event(tuple(page)))
                await _wait_for_changes(store, page, result, wait)
                status.update(f"{result.done} of {_count(groups)}")
    return result


async def _pages(store: "OpenStore", which: "ParkedFilter") -> AsyncIterator[_Page]:
    from warrener_store.parked.rows import ParkedAt

    after: ParkedAt | None = None
    while page := await store.parked(replace(which, oldest_first=True), _MAX_IDS, after):
        after = ParkedAt(page[-1].parked_at, page[-1].parked_id)
        yield {message.parked_id: (message.times, message.parked_at) for message in page}


async def _wait_for_changes(store: "OpenStore", page: _Page, result: _CommandResult, wait: float) -> None:
    from warrener_store.parked.rows import ParkedFilter

    until = monotonic() + wait
    while True:
        found = await store.parked(ParkedFilter(ids=list(page)), len(page))
        remaining = {one.parked_id: (one.times, one.parked_at) for one in found}
        unchanged = [name for name, parked in remaining.items() if parked == page[name]]
        if not unchanged or monotonic() >= until:
            break
        await asyncio.sleep(_POLL_INTERVAL)
    result.done += len(page) - len(remaining)
    result.parked_again += [name for name in remaining if name not in unchanged]
    result.left += unchanged


def _print_preview(groups: "Sequence[ParkedGroup]", command: _Command, *, yes: bool, as_json: bool) -> None:
    from warrener.render.jobs import parked_groups_table

    messages = _count(groups)
    if as_json:
        print_json({"messages": messages, "groups": [group._asdict() for group in groups]})
        return
    if not messages:
        err().print("[soft]No parked message matches.[/]")
        return
    out().print(parked_groups_table(groups, datetime.now(UTC)))
    if not yes:
        err().print(f"[warning]![/] nothing was done; to {command.what} these {messages}: --yes")


def _print_result(result: _CommandResult) -> None:
    done = "requeued" if result.requested == "requeue" else "dropped"
    err().print(f"[good]✓[/] {result.done} {done}")
    if result.parked_again:
        err().print(
            f"[warning]![/] {len(result.parked_again)} could not be used again and are parked: "
            "warrener parked"
        )
    if result.left:
        err().print(
            f"[warning]![/] {len(result.left)} are still parked: no supervisor has handled them yet, the "
            "broker refused them, or they are stored only in part"
        )
