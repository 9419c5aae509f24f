"""Parked messages: those that no service could use, with the reason, and their verbs.

A verb over the messages of a selection names them by id, at most 200 in one event, so that each event is
carried out in bounded time and a repeat of it finds nothing left to do.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from warrener.errors import NothingFound
from warrener.operations import noun
from warrener.operations.masking import Masker
from warrener.operations.roles import Role
from warrener_contracts.messages import is_complete
from warrener_store.parked.rows import ParkedAt, ParkedFilter, ParkedMessage, ParkedSummary

_MAX_IDS = 200  # of one event
_POLL_INTERVAL = 0.1  # seconds
_TICK = timedelta(microseconds=1)


class ParkedQuery(noun.ListQuery):
    """The messages to list."""

    reason: str = Field(default="", max_length=100, description="Reason why they are parked: not_json …")
    queue: str = Field(default="", max_length=200, description="Queue they came from.")
    since: noun.Time = Field(default=None, description="Maximum time since they were parked, such as 2h.")


class ListedMessage(BaseModel):
    """A parked message in a list."""

    parked_id: str
    queue: str
    reason: str
    detail: str
    content_type: str | None
    type: str | None
    routing_key: str | None
    size: int = Field(description="Of its body, in bytes.")
    times: int = Field(description="How often it was parked.")
    parked_at: datetime
    beginning: str = Field(description="Of its body, as text.")


class ParkedPage(BaseModel):
    """A page of parked messages, the newest first. `next`: pass it as `after`."""

    messages: list[ListedMessage]
    next: str | None = None


class ParkedDetails(ListedMessage):
    """One parked message. Its body is text; else `body_base64` has it."""

    exchange: str | None
    message_id: str | None
    headers: dict[str, str]
    body: str | None
    body_base64: str | None
    is_whole: bool = Field(description="False: the beginning alone is stored, and it cannot be requeued.")


async def list_parked(backend: noun.Backend, query: ParkedQuery) -> ParkedPage:
    """List the messages that no service could use, the newest first.

    $ warrener parked list
    $ warrener parked list --reason unknown_job_type --since 2h
    """
    which = ParkedFilter(reason=query.reason or None, queue=query.queue or None, since=query.since)
    after = noun.read_position(query.after, ParkedAt)
    found = await backend.store.parked_summaries(which, query.limit + 1, after)
    shown, following = noun.cut_page(found, query.limit, lambda one: (one.parked_at, one.parked_id))
    masker = (await backend.learn()).every
    messages = [ListedMessage.model_validate(_fields(one, one.beginning, masker)) for one in shown]
    return ParkedPage(messages=messages, next=following)


def _fields(one: ParkedSummary | ParkedMessage, beginning: bytes, masker: Masker) -> dict[str, Any]:
    return noun.fields_from(ParkedDetails, one) | {
        "detail": masker.text(one.detail),
        "beginning": masker.body(beginning.decode(errors="replace"))[:200],
    }


async def read_parked(backend: noun.Backend, parked_id: str) -> ParkedDetails:
    """Show one parked message: the reason, how it came, and its body; secrets are hidden.

    $ warrener parked show 7d1b9f52-5f0e-5d4b-9c39-0a8f6a3b1c44
    $ warrener parked show 7d1b9f52-5f0e-5d4b-9c39-0a8f6a3b1c44 --json | jq -r .body
    """
    found = await backend.store.parked(ParkedFilter(ids=[parked_id]), 1)
    if not found:
        raise NothingFound(
            f"expected a parked message, got none with the id {parked_id!r:.140}; it was requeued or dropped"
        )
    return parked_details(found[0], (await backend.learn()).every)


def parked_details(message: ParkedMessage, masker: Masker) -> ParkedDetails:
    """Make the details of a message, without secrets. Pure."""
    headers = [(name[:200], str(value)[:1000]) for name, value in sorted(message.headers.items())[:100]]
    text, encoded = None, None
    try:
        text = masker.body(message.body.decode())
    except UnicodeDecodeError:
        encoded = b64encode(message.body).decode()
    fields = _fields(message, message.body[:400], masker) | {
        "size": len(message.body),
        "headers": masker.value(dict(headers)),
        "body": text,
        "body_base64": encoded,
        "is_whole": is_complete(message.detail),
    }
    return ParkedDetails.model_validate(fields)


# -- verbs -------------------------------------------------------------------------------------------------


class ParkedBody(noun.Selection):
    """The messages: by their ids, or all that meet these conditions."""

    parked_reason: Annotated[str, noun.Flag("--reason")] = Field(
        default="", max_length=100, description="Reason why the messages are parked: not_json …"
    )
    queue: str = Field(default="", max_length=200, description="Queue they came from.")
    since: noun.Time = Field(default=None, description="Maximum time since they were parked, such as 2h.")
    before: noun.Time = Field(default=None, description="Minimum time since they were parked, such as 30d.")
    everything: Annotated[bool, noun.Flag("--all")] = Field(default=False, description="All of them.")
    reason: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=500), noun.Flag("--comment")
    ] = Field(default="", description="Reason of the command, for the log (default: requested).")

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        conditions = (self.ids, self.parked_reason, self.queue, self.since, self.before, self.everything)
        if not any(conditions):
            raise ValueError(
                "expected a selection of parked messages, got none; give ids, --reason, --queue, --since or "
                "--before; or --all"
            )
        return self

    @property
    def conditions(self) -> str:
        return " ".join(filter(None, (self.parked_reason, self.queue))) or "all"

    @property
    def selected(self) -> ParkedFilter:
        return ParkedFilter(
            reason=self.parked_reason or None,
            queue=self.queue or None,
            since=self.since,
            before=self.before,
            ids=tuple(self.ids) or None,
        )


async def preview(call: noun.VerbCall[ParkedBody]) -> noun.Preview:
    """Count the messages of a selection, by queue and reason."""
    groups = await call.backend.store.group_parked(call.body.selected)
    return noun.Preview(sum(group.messages for group in groups), [group._asdict() for group in groups])


async def requeue(call: noun.VerbCall[ParkedBody]) -> noun.Outcome:
    """Requeue parked messages, once the cause is mended.

    Each goes to the queue that it came from, and is deleted here once the broker has confirmed it. A message
    that still cannot be used is parked again. Without --yes the command only shows the messages.

    $ warrener parked requeue --reason unknown_job_type
    $ warrener parked requeue --queue warrener.status --since 2h --yes
    """
    client = await call.backend.client()
    return await _carry_out(call, partial(client.requeue_parked, by=call.by), "requeued")


async def drop(call: noun.VerbCall[ParkedBody]) -> noun.Outcome:
    """Delete parked messages. Without --yes the command only shows them.

    $ warrener parked drop --reason not_json --before 30d
    $ warrener parked drop 7d1b9f52-5f0e-5d4b-9c39-0a8f6a3b1c44 --yes --comment "sent by a test"
    """
    client = await call.backend.client()
    return await _carry_out(call, partial(client.drop_parked, by=call.by, reason=call.reason), "dropped")


_Page = Mapping[str, tuple[int, datetime]]
"""Messages by id, with the number of times and the time they were parked."""


async def _carry_out(
    call: noun.VerbCall[ParkedBody], send: Callable[[list[str]], Awaitable[None]], done: str
) -> noun.Outcome:
    """Send the command page by page, and wait for each page to change in the store."""
    store, which = call.backend.store, call.body.selected
    handled, parked_again, left = 0, list[str](), list[str]()
    groups = await store.group_parked(which)
    if not groups:
        return noun.Outcome(accepted=False, sentence="refused: no such message is parked any longer")
    # Messages that are parked from now on, again or for the first time, are not part of the selection.
    until = max(group.last for group in groups) + _TICK
    which = replace(which, before=min(until, which.before or until))
    total = sum(group.messages for group in groups)
    async for page in _pages(call.backend, which):
        await send(list(page))
        if call.reply_timeout is not None:
            still = await _wait_for_changes(call.backend, page, call.reply_timeout)
            handled += len(page) - len(still)
            parked_again += [name for name in still if still[name] != page[name]]
            left += [name for name in still if still[name] == page[name]]
        if call.progress is not None:
            call.progress(f"{handled} of {total}")
    parts = [f"{handled} {done}"]
    if parked_again:
        parts.append(f"{len(parked_again)} could not be used again and are parked once more")
    if left:
        parts.append(f"{len(left)} not handled yet by a supervisor, or refused, or stored only in part")
    is_rest = bool(left or parked_again)
    return noun.Outcome(
        accepted=not left and (not is_rest or call.progress is None),
        sentence="; ".join(parts),
        details={"done": handled, "parked_again": parked_again, "left": left},
        location=None if is_rest else "/parked",
    )


async def _pages(backend: noun.Backend, which: ParkedFilter) -> AsyncIterator[_Page]:
    after: ParkedAt | None = None
    while page := await backend.store.parked_summaries(replace(which, oldest_first=True), _MAX_IDS, after):
        after = ParkedAt(page[-1].parked_at, page[-1].parked_id)
        yield {message.parked_id: (message.times, message.parked_at) for message in page}


async def _wait_for_changes(backend: noun.Backend, page: _Page, seconds: float) -> _Page:
    """Wait until each message has changed, or the time is over; return those that are still parked."""
    still: _Page = page
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while any(still.get(name) == parked for name, parked in page.items()):
                await asyncio.sleep(_POLL_INTERVAL)
                found = await backend.store.parked_summaries(ParkedFilter(ids=tuple(page)), len(page))
                still = {one.parked_id: (one.times, one.parked_at) for one in found}
    return still


PARKED = noun.Noun(
    word="parked",
    plural="parked",
    rows="messages",
    key="parked_id",
    key_help="Id of a parked message, from the column `message` of `warrener parked`.",
    query=ParkedQuery,
    list=list_parked,
    read=read_parked,
    verbs=(
        noun.Verb("requeue", ParkedBody, requeue, signed=True, keys="ids", preview=preview),
        noun.Verb("drop", ParkedBody, drop, role=Role.ADMIN, signed=True, keys="ids", preview=preview),
    ),
    columns={
        "message": "parked_id",
        "queue": "queue",
        "reason": "reason",
        "parked": "parked_at",
        "size": "size",
        "detail": "detail",
    },
    empty="No message is parked.",
)
