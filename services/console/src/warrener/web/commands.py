"""Commands that actions send through the broker, and the wait for their effect."""

import asyncio
import json
from typing import Any
from uuid import UUID

from warrener.web.action import Outcome
from warrener.web.console import Console
from warrener_client import Client
from warrener_contracts.events import (
    JobDropRequested,
    JobDropRequestedData,
    JobRedriveRequested,
    JobRedriveRequestedData,
)
from warrener_runtime.clock import SystemEntropy
from warrener_store.dead_letters.rows import RedriveRow

REPLY_TIMEOUT = 5.0
"""Seconds to wait for the service that carries a command out; it is carried out later too."""
_PICKUP_TIMEOUT = 3.0  # seconds
_POLL_INTERVAL = 0.1  # seconds


def json_object(value: Any) -> Any:
    """Read a JSON object from the text of a form. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return {}
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"expected a JSON object, got {value!r:.60} ({error})") from None


async def cancel_job(client: Client, job_id: UUID, reason: str, *, tree: bool = False) -> str:
    """Cancel a job and return what the service says of it. Raises as `Client.cancel` does."""
    return await client.cancel(job_id, reason or "requested", tree=tree, reply_timeout=REPLY_TIMEOUT)


async def start_redrive(
    console: Console, data: JobRedriveRequestedData | JobDropRequestedData, *, follow: bool = True
) -> Outcome:
    """Request a redrive or a drop, and wait until a scheduler has picked it up.

    `follow`: the outcome leads to the page of the redrive.
    """
    client = await console.client()
    redrive_id = SystemEntropy().new_id()
    envelope: dict[str, Any] = {
        "id": str(redrive_id),
        "source": client.source,
        "time": await console.now(),
        "subject": str(redrive_id),
    }
    if isinstance(data, JobDropRequestedData):
        await client.send(JobDropRequested(**envelope, data=data))
    else:
        await client.send(JobRedriveRequested(**envelope, data=data))
    location, short = f"/redrives/{redrive_id}", str(redrive_id)[-8:]
    details = {"redrive_id": str(redrive_id)}
    row = await _picked_up(console, redrive_id)
    if row is None:
        return Outcome(
            accepted=True,
            sentence=f"the broker has confirmed redrive {short}; no scheduler has picked it up yet",
            details=details,
        )
    counts = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in row.counts.items() if count)
    sentence = f"a scheduler carries out {row.kind.value.replace('_', ' ')} {short}" + (
        f": {counts}" if counts else ""
    )
    return Outcome(accepted=True, sentence=sentence, details=details, location=location if follow else None)


async def _picked_up(console: Console, redrive_id: UUID) -> RedriveRow | None:
    """Wait for the redrive in the store; None if no scheduler has picked it up in time."""
    try:
        async with asyncio.timeout(_PICKUP_TIMEOUT):
            while True:
                if rows := await console.store.dead_letter_store.redrives([redrive_id]):
                    return rows[0]
                await asyncio.sleep(_POLL_INTERVAL)
    except TimeoutError:
        return None
