"""Parked messages: those that no service could use, with the reason."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.web.access.masking import Masker
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.page import PageNotFound
from warrener.web.queries import read_position, write_position
from warrener_contracts.messages import is_complete
from warrener_store.parked.rows import ParkedAt, ParkedFilter, ParkedMessage, ParkedSummary

router = APIRouter(tags=["parked messages"])

MAX_BODY = 20_000
"""Characters of a body that a page shows."""


class ParkedQuery(BaseModel):
    """The messages to list. `after`: the `next` of the page before."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    reason: Annotated[str, Field(max_length=100)] = ""
    queue: Annotated[str, Field(max_length=200)] = ""
    after: Annotated[str, Field(max_length=400)] = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class ListedMessage(BaseModel):
    """A parked message in a list."""

    parked_id: str
    queue: str
    reason: str
    detail: str
    type: str | None
    routing_key: str | None
    size: int
    times: int
    parked_at: datetime
    beginning: str  # of its body, as text


class ParkedPage(BaseModel):
    """A page of parked messages, the newest first. `next`: pass it as `after`."""

    messages: list[ListedMessage]
    next: str | None


class ParkedDetails(BaseModel):
    """One parked message. `body` is its beginning as text; `is_json`: it was laid out."""

    line: ListedMessage
    content_type: str | None
    exchange: str | None
    message_id: str | None
    headers: dict[str, str]
    body: str
    is_json: bool
    is_text: bool
    is_whole: bool  # False: the store has the beginning of the message alone, and it cannot be requeued
    shows_all: bool


async def list_parked(console: Console, query: ParkedQuery) -> ParkedPage:
    """List parked messages, the newest first, without their bodies."""
    which = ParkedFilter(reason=query.reason or None, queue=query.queue or None)
    found = await console.store.parked_summaries(which, query.limit + 1, _position(query.after))
    shown = found[: query.limit]
    more = len(found) > query.limit
    return ParkedPage(
        messages=[_line(one, console.masker) for one in shown],
        next=write_position(shown[-1].parked_at, shown[-1].parked_id) if more else None,
    )


def _position(text: str) -> ParkedAt | None:
    position = read_position(text)
    return None if position is None else ParkedAt(*position)


def _line(one: ParkedSummary, masker: Masker) -> ListedMessage:
    return ListedMessage(
        parked_id=one.parked_id,
        queue=one.queue,
        reason=one.reason,
        detail=masker.text(one.detail),
        type=one.type,
        routing_key=one.routing_key,
        size=one.size,
        times=one.times,
        parked_at=one.parked_at,
        beginning=masker.text(_as_text(one.beginning))[:200],
    )


def _as_text(body: bytes) -> str:
    return body.decode(errors="replace")


async def read_parked(console: Console, parked_id: str) -> ParkedDetails:
    """Read one parked message. Raises PageNotFound."""
    found = await console.store.parked(ParkedFilter(ids=[parked_id]), 1)
    if not found:
        raise PageNotFound(
            f"expected a parked message, got none with the id {parked_id!r:.140}; it was requeued or dropped"
        )
    return parked_details(found[0], console.masker)


def parked_details(message: ParkedMessage, masker: Masker) -> ParkedDetails:
    """Make the details of a message, without secrets; its body is laid out if it is JSON. Pure."""
    text, is_json, is_text = _lay_out(message.body, masker)
    return ParkedDetails(
        line=ListedMessage(
            parked_id=message.parked_id,
            queue=message.queue,
            reason=message.reason,
            detail=masker.text(message.detail),
            type=message.type,
            routing_key=message.routing_key,
            size=len(message.body),
            times=message.times,
            parked_at=message.parked_at,
            beginning="",
        ),
        content_type=message.content_type,
        exchange=message.exchange,
        message_id=message.message_id,
        headers=masker.value(dict(_headers(message.headers))),
        body=text[:MAX_BODY],
        is_json=is_json,
        is_text=is_text,
        is_whole=is_complete(message.detail),
        shows_all=len(text) <= MAX_BODY,
    )


def _headers(headers: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name[:200], str(value)[:1000]) for name, value in sorted(headers.items())[:100]]


def _lay_out(body: bytes, masker: Masker) -> tuple[str, bool, bool]:
    """The body as text, if it is JSON and if it is text at all. Only a body that is shown whole is parsed."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return _hex_lines(body), False, False
    if len(text) <= MAX_BODY:
        try:
            return json.dumps(masker.value(json.loads(text)), indent=2, ensure_ascii=False), True, True
        except (ValueError, RecursionError):
            pass
    return masker.text(text[: MAX_BODY + 1]), False, True


def _hex_lines(body: bytes) -> str:
    end = min(len(body), MAX_BODY // 4)
    return "\n".join(_hex_line(body[start : start + 16]) for start in range(0, end, 16))


def _hex_line(line: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
    return f"{line.hex(' '):<47}  {text}"


@router.get("/parked")
async def get_parked(console: ConsoleOfApp, query: Annotated[ParkedQuery, Query()]) -> ParkedPage:
    """List parked messages, the newest first."""
    return await list_parked(console, query)


@router.get("/parked/{parked_id:path}")
async def get_parked_message(console: ConsoleOfApp, parked_id: str) -> ParkedDetails:
    """One parked message with its headers and the beginning of its body."""
    return await read_parked(console, parked_id)
