"""The pages of parked messages; a message is requeued or dropped there."""

import json
from base64 import b64decode
from collections.abc import Iterator

from warrener.operations.masking import Masker
from warrener.operations.parked import ParkedDetails, ParkedQuery, list_parked, read_parked
from warrener.web.page import PageRequest, View, page
from warrener_contracts.events.requests import Reason

MAX_BODY = 20_000
"""Characters of a body that a page shows."""


@page("/parked", topics=("parked",))
async def show_parked(request: PageRequest) -> View:
    """Show the parked messages, the newest first."""
    query = request.read(ParkedQuery)
    found = await list_parked(request.console, query)
    queues = sorted({message.queue for message in found.messages})
    reasons = list(dict.fromkeys(["", query.reason, *(reason.value for reason in Reason)]))
    ids = [{"type": "hidden", "name": "ids", "value": message.parked_id} for message in found.messages]
    context = {"parked": found, "queues": queues, "reasons": reasons, "ids": ids}
    context |= {"is_filtered": bool(query.queue or query.reason), "is_first": not query.after}
    return View("Parked messages", context)


@page("/parked/{parked_id:path}", refresh=None)
async def show_parked_message(request: PageRequest) -> View:
    """Show one parked message: reason, headers and body."""
    found = await read_parked(request.console, request.path["parked_id"])
    text, is_json = lay_out(found, request.console.masker)
    context = {"message": found, "body": text[:MAX_BODY], "is_json": is_json}
    return View("Parked message", context | {"shows_all": len(text) <= MAX_BODY})


def lay_out(message: ParkedDetails, masker: Masker) -> tuple[str, bool]:
    """The body as text, and if it is JSON. Only a body that is shown whole is parsed; bytes are dumped."""
    if message.body is None:
        return "\n".join(_hex_lines(b64decode(message.body_base64 or ""))), False
    if len(message.body) <= MAX_BODY:
        try:
            return json.dumps(masker.value(json.loads(message.body)), indent=2, ensure_ascii=False), True
        except (ValueError, RecursionError):
            pass
    return message.body, False


def _hex_lines(body: bytes) -> Iterator[str]:
    for start in range(0, min(len(body), MAX_BODY // 4), 16):
        line = body[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        yield f"{line.hex(' '):<47}  {text}"
