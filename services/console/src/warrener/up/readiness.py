"""Readiness of `up`: every service is ready and the job types are announced; and the banner of then."""

import asyncio
import json
import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime

from warrener.up.folder import Endpoints
from warrener.up.processes import SupervisedProcess
from warrener_runtime.secrets import mask
from warrener_store import StateStore, StoreError
from warrener_store.agents.rows import JobTypeRow

_POLL_INTERVAL = 0.2  # seconds
_READY_TIMEOUT = 20.0  # seconds; longer than all checks of a service take
_MAX_TYPES_SHOWN = 8


async def wait_until_ready(child: SupervisedProcess) -> None:
    """Wait until the service is ready."""
    while await asyncio.to_thread(not_ready_reason, child) is not None:  # noqa: ASYNC110 - another process
        await asyncio.sleep(_POLL_INTERVAL)


def not_ready_reason(child: SupervisedProcess) -> str | None:
    """Why the service is not ready; None if it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{child.health_port}/ready", timeout=_READY_TIMEOUT):
            return None
    except urllib.error.HTTPError as answer:
        with answer:
            return _checks(answer.read())
    except (OSError, ValueError):
        return "does not answer yet"


def _checks(body: bytes) -> str:
    try:
        checks: dict[str, str] = json.loads(body).get("checks", {})
    except ValueError:
        return "is not ready"
    return (
        "; ".join(f"{name}: {status}" for name, status in checks.items() if status != "ok") or "is not ready"
    )


async def wait_for_job_types(
    store: StateStore, agents: Sequence[SupervisedProcess], since: datetime
) -> list[JobTypeRow]:
    """Wait for every agent and its job types, and return these."""
    while True:
        try:
            known = await store.agents(since)  # not former agents with the same process id
            types = await store.job_types()
        except StoreError:
            known, types = [], {}
        pids = [agent.pid for agent in agents]
        announced = [row for _, row in sorted(types.items()) if row.announced_at >= since]
        if announced and sum(row.pid in pids for row in known) == len(agents):
            return announced
        await asyncio.sleep(_POLL_INTERVAL)


# -- banner ------------------------------------------------------------------------------------------------


def banner_lines(
    endpoints: Endpoints,
    broker: str,
    agents: int,
    types: Sequence[JobTypeRow],
    *,
    private_broker: bool = False,
    console_url: str | None = None,
) -> list[tuple[str, str]]:
    """Endpoints and next steps, as (word, text). Pure.

    A line that is there to be copied never has a masked password: the password of a private broker is known
    to everybody, and `warrener env` prints that of any other.
    """
    url = endpoints.broker_url if private_broker else mask(endpoints.broker_url)
    export = f"export WARRENER_BROKER_URL={shlex.quote(url)}" if private_broker else 'eval "$(warrener env)"'
    names = ", ".join(row.name for row in types[:_MAX_TYPES_SHOWN])
    more = (
        f" and {len(types) - _MAX_TYPES_SHOWN} more: warrener job-types"
        if len(types) > _MAX_TYPES_SHOWN
        else ""
    )
    lines = [
        *([("console", console_url)] if console_url else []),
        ("broker", f"{broker} at {url}"),
        ("store", display_url(endpoints.store_url)),
        ("agents", f"{agents}" if agents else "none: run `warrener agent MODULE` in this folder"),
    ]
    if types:
        lines.append(("jobs", f"{names}{more}"))
    return [
        *lines,
        ("", ""),
        ("request", f"{example_request(types[0]) if types else 'warrener request TYPE key=value --wait'}"),
        ("inspect", "warrener jobs --watch"),
        ("export", export),
        ("stop", "Ctrl-C drains, a second one hurries"),
    ]


def example_request(row: JobTypeRow) -> str:
    """A request with every required argument of the job type."""
    required: list[str] = row.arguments_schema.get("required", [])
    words = "".join(f" {name}=…" for name in required)
    return f"warrener request {row.name}{words} --wait"


def display_url(url: str) -> str:
    """A file as a relative path; any other URL without its password."""
    if url.startswith("sqlite:///"):
        return os.path.relpath(url.removeprefix("sqlite:///"))
    return mask(url)
