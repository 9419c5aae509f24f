"""Pages of parked messages, of the audit log, of the search, and of the console itself."""

import json
from base64 import b64decode
from importlib.metadata import version

from warrener.operations.audit import AUDIT, AuditEntry, AuditQuery, list_records
from warrener.operations.parked import ParkedDetails, ParkedQuery, list_parked, read_parked
from warrener.operations.search import SearchQuery, search
from warrener.web.page import PageRequest, View, page
from warrener_contracts.events.requests import Reason
from warrener_runtime.secrets import mask
from warrener_runtime.terminal import escape_json

_MAX_BODY = 20_000  # characters that a page shows
_SECTIONS = {"job": "/jobs/{}", "schedule": "/schedules/{}", "redrive": "/redrives/{}"}
"""The page of an action's subject, by the first word of the action."""


@page("/parked", topics=("parked",))
async def show_parked(request: PageRequest) -> View:
    """Show the parked messages, the newest first; each is requeued or dropped there."""
    query = request.read(ParkedQuery)
    found = await list_parked(request.console, query)
    context = {
        "parked": found,
        "queues": sorted({message.queue for message in found.messages}),
        "reasons": list(dict.fromkeys(["", query.reason, *(reason.value for reason in Reason)])),
        "ids": [{"type": "hidden", "name": "ids", "value": message.parked_id} for message in found.messages],
        "is_filtered": bool(query.queue or query.reason),
        "is_first": not query.after,
    }
    return View("Parked messages", context)


@page("/parked/{parked_id:path}", refresh=None)
async def show_parked_message(request: PageRequest) -> View:
    """Show one parked message: reason, headers and body."""
    found = await read_parked(request.console, request.path["parked_id"])
    text, is_json = _lay_out(found)
    context = {"message": found, "body": text[:_MAX_BODY], "is_json": is_json}
    return View("Parked message", context | {"shows_all": len(text) <= _MAX_BODY})


def _lay_out(message: ParkedDetails) -> tuple[str, bool]:
    """The body as text, and if it is JSON. Only a body that is shown whole is parsed; bytes are dumped."""
    if message.body is None:
        body = b64decode(message.body_base64 or "")[: _MAX_BODY // 4]
        return "\n".join(_hex_line(body[start : start + 16]) for start in range(0, len(body), 16)), False
    if len(message.body) <= _MAX_BODY:
        try:
            document = json.dumps(json.loads(message.body), indent=2, ensure_ascii=False)
            return escape_json(document), True
        except (ValueError, RecursionError):
            pass
    return message.body, False


def _hex_line(line: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
    return f"{line.hex(' '):<47}  {text}"


@page("/audit", role=AUDIT.role)
async def show_audit(request: PageRequest) -> View:
    """Show the newest records: who did what, when and why, and how it ended. For admins."""
    query = request.read(AuditQuery)
    found = await list_records(request.console, query)
    context = {
        "audit": found,
        "query": query,
        "given": request.query,
        "is_filtered": bool(query.actor or query.action or query.subject),
        "suggestions": {
            name: sorted({getattr(one, name) for one in found.records}) for name in ("actor", "action")
        },
        "address_of": _address_of_subject,
    }
    return View("Audit log", context)


def _address_of_subject(entry: AuditEntry) -> str | None:
    """The page of what the action was about, if it has one of its own."""
    pattern, subject = _SECTIONS.get(entry.action.partition(".")[0]), entry.subject
    is_plain = bool(subject) and all(one.isalnum() or one in "-_." for one in subject)
    return pattern.format(subject) if pattern and is_plain else None


@page("/search", refresh=None)
async def show_search(request: PageRequest) -> View:
    """Show the hits of a text; without one, the texts that are found."""
    query = request.read(SearchQuery)
    found = await search(request.console, query) if query.q else None
    return View("Search", {"searched": query.q, "found": found})


@page("/about", refresh=None)
async def show_about(request: PageRequest) -> View:
    """Show versions and endpoints, without passwords."""
    endpoints = request.console.endpoints
    facts = [
        ("Version", version("warrener")),
        ("Broker", mask(endpoints.broker_url)),
        ("Namespace", endpoints.namespace),
        ("Store", mask(endpoints.store_url)),
        ("Zone of times", request.zone.key),
    ]
    return View("About this console", {"facts": facts})
