"""What `up` says when everything works. Pure."""

import os
from collections.abc import Sequence

from warrener.up.folder import Endpoints
from warrener_runtime.settings import mask
from warrener_store.agents.rows import JobTypeRow

_SHOWN = 8


def banner_lines(
    endpoints: Endpoints, broker: str, agents: int, types: Sequence[JobTypeRow]
) -> list[tuple[str, str]]:
    """Where everything is, and what to do next, as (word, text)."""
    names = ", ".join(row.name for row in types[:_SHOWN])
    more = f" and {len(types) - _SHOWN} more: warrener types" if len(types) > _SHOWN else ""
    lines = [
        ("broker", f"{broker} at {mask(endpoints.broker_url)}"),
        ("store", display_url(endpoints.store_url)),
        ("agents", f"{agents}" if agents else "none: run `warrener agent MODULE` in this folder"),
    ]
    if types:
        lines.append(("jobs", f"{names}{more}"))
    return [
        *lines,
        ("", ""),
        ("ask", f"{example_request(types[0]) if types else 'warrener request TYPE key=value --wait'}"),
        ("look", "warrener jobs --watch"),
        ("stop", "Ctrl-C drains, a second one hurries"),
    ]


def example_request(row: JobTypeRow) -> str:
    """A request that has every argument that the job type asks for."""
    required: list[str] = row.arguments_schema.get("required", [])
    words = "".join(f" {name}=…" for name in required)
    return f"warrener request {row.name}{words} --wait"


def display_url(url: str) -> str:
    """A file as seen from here; any other URL without its password."""
    if url.startswith("sqlite:///"):
        return os.path.relpath(url.removeprefix("sqlite:///"))
    return mask(url)
