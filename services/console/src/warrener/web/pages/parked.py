"""The pages of parked messages; a message is requeued or dropped there."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.api.parked import ParkedQuery, list_parked, read_parked
from warrener.web.console import Console
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import form_field, read_query
from warrener_contracts.events import (
    ParkedDropRequested,
    ParkedDropRequestedData,
    ParkedRequeueRequested,
    ParkedRequeueRequestedData,
)
from warrener_contracts.events.requests import Reason
from warrener_runtime.clock import SystemEntropy
from warrener_store.parked.rows import ParkedFilter

_MAX_IDS = 200  # of one event
_TIMEOUT = 5.0  # seconds to wait for the supervisor; it carries the command out later too
_POLL_INTERVAL = 0.1  # seconds


async def show_parked(request: PageRequest) -> View:
    """Show the parked messages, the newest first."""
    query = read_query(ParkedQuery, request.query)
    page = await list_parked(request.console, query)
    fields = [
        form_field("queue", "Queue", query.queue, hint="it came from", suggestions=_queues(page.messages)),
        form_field("reason", "Reason", query.reason, kind="select", options=["", *_reasons(query.reason)]),
    ]
    ids = [{"type": "hidden", "name": "ids", "value": message.parked_id} for message in page.messages]
    context = {"parked": page, "fields": fields, "query": request.query, "ids": ids}
    context |= {"is_filtered": bool(query.queue or query.reason), "is_first": not query.after}
    return View(template="pages/parked.html", title="Parked messages", context=context)


def _queues(messages: Collection[Any]) -> list[str]:
    return sorted({message.queue for message in messages})


def _reasons(chosen: str) -> list[str]:
    known = [reason.value for reason in Reason]
    return known if chosen in known or not chosen else [chosen, *known]


async def show_message(request: PageRequest) -> View:
    """Show one parked message: reason, headers and body."""
    found = await read_parked(request.console, request.path["parked_id"])
    return View(
        template="pages/parked_message.html",
        title="Parked message",
        context={"message": found, "one": found.line},
    )


def topics(_: PageRequest) -> Collection[str]:
    """All parked messages."""
    return ("parked",)


# -- actions -----------------------------------------------------------------------------------------------


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ParkedBody(ActionBody):
    """The messages, by their ids."""

    ids: Annotated[list[str], BeforeValidator(_several), Field(min_length=1, max_length=_MAX_IDS)]


async def requeue(request: ActionRequest) -> Outcome:
    """Return messages to the queues that they came from."""
    ids = _ids(request)
    data = ParkedRequeueRequestedData(ids=ids, by=request.principal.name)
    event = ParkedRequeueRequested(**await _envelope(request.console), data=data)
    return await _carry_out(request, event, "requeued")


async def drop(request: ActionRequest) -> Outcome:
    """Delete messages."""
    ids, why = _ids(request), request.body.reason or "requested"
    data = ParkedDropRequestedData(ids=ids, by=request.principal.name, reason=why)
    event = ParkedDropRequested(**await _envelope(request.console), data=data)
    return await _carry_out(request, event, "dropped")


def _ids(request: ActionRequest) -> tuple[str, ...]:
    assert isinstance(request.body, ParkedBody)
    return tuple(request.body.ids)


async def _envelope(console: Console) -> dict[str, Any]:
    client = await console.client()
    return {"id": str(SystemEntropy().new_id()), "source": client.source, "time": await console.now()}


async def _carry_out(
    request: ActionRequest, event: ParkedRequeueRequested | ParkedDropRequested, done: str
) -> Outcome:
    """Publish the command, and wait until the supervisor has handled each message."""
    console, ids = request.console, _ids(request)
    before = await _parked_times(console, ids)
    if not before:
        return Outcome(accepted=False, sentence="refused: none of these messages is parked any longer")
    client = await console.client()
    await client.send(event)
    left = await _wait_for_changes(console, before)
    unchanged = [name for name, parked in left.items() if parked == before[name]]
    again = len(left) - len(unchanged)
    parts = [f"{len(before) - len(left)} {done}"]
    parts += [f"{again} could not be used again and are parked once more"] if again else []
    parts += [f"{len(unchanged)} not handled yet by a supervisor, or refused"] if unchanged else []
    details = {"done": len(before) - len(left), "parked_again": again, "left": len(unchanged)}
    location = None if left else "/parked"
    return Outcome(accepted=not unchanged, sentence="; ".join(parts), details=details, location=location)


async def _wait_for_changes(console: Console, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """The messages that are still parked, once each has changed, or the time is over."""
    left: Mapping[str, Any] = before
    try:
        async with asyncio.timeout(_TIMEOUT):
            while any(left.get(name) == parked for name, parked in before.items()):
                await asyncio.sleep(_POLL_INTERVAL)
                left = await _parked_times(console, tuple(before))
    except TimeoutError:
        pass
    return left


async def _parked_times(console: Console, ids: tuple[str, ...]) -> dict[str, Any]:
    found = await console.store.parked_summaries(ParkedFilter(ids=ids), len(ids))
    return {one.parked_id: (one.times, one.parked_at) for one in found}


def _subject(_: Mapping[str, str], body: ActionBody) -> str:
    assert isinstance(body, ParkedBody)
    return body.ids[0] if len(body.ids) == 1 else f"{body.ids[0]} and {len(body.ids) - 1} more"


PAGES = (
    Page(name="parked", path="/parked", section="parked", view=show_parked, topics=topics),
    Page(
        name="parked-message",
        path="/parked/{parked_id:path}",
        section="parked",
        view=show_message,
        refresh=None,
    ),
)
ACTIONS = (
    Action(
        name="parked.requeue",
        path="/parked/requeue",
        role=Role.OPERATOR,
        body=ParkedBody,
        subject=_subject,
        perform=requeue,
    ),
    Action(
        name="parked.drop",
        path="/parked/drop",
        role=Role.ADMIN,
        body=ParkedBody,
        subject=_subject,
        perform=drop,
    ),
)
