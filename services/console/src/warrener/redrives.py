"""Asking for a campaign over dead letters, and looking on while a scheduler carries it out."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import typer

from warrener.command_runner import connect_client
from warrener.endpoints import ResolvedEndpoints
from warrener.errors import ExitCode
from warrener.render.dead_letters import redrive_line
from warrener.render.screen import err, print_json
from warrener_contracts.events import (
    Event,
    JobDropRequested,
    JobDropRequestedData,
    JobRedriveRequested,
    JobRedriveRequestedData,
)
from warrener_runtime.clock import SystemEntropy
from warrener_store import StateStore
from warrener_store.dead_letters.rows import CampaignRow, CampaignState

SOURCE = "warrener.command"
_EVERY = 0.3
_PICKUP_TIMEOUT = 5.0
_FINISHED_STATES = frozenset({CampaignState.STOPPED, CampaignState.DONE})
_FAILED_STATES = ("returned", "died", "ended", "refused")


async def start_redrive(
    endpoints: ResolvedEndpoints, data: JobRedriveRequestedData | JobDropRequestedData
) -> UUID:
    """Ask for it; returns its id when the broker keeps the request."""
    campaign_id = SystemEntropy().new_id()
    name: dict[str, Any] = {
        "id": str(campaign_id),
        "source": SOURCE,
        "time": datetime.now(UTC),
        "subject": str(campaign_id),
    }
    event: Event[Any] = (
        JobDropRequested(**name, data=data)
        if isinstance(data, JobDropRequestedData)
        else JobRedriveRequested(**name, data=data)
    )
    async with connect_client(endpoints) as client:
        await client.send(event)
    return campaign_id


async def follow_redrive(store: StateStore, campaign_id: UUID) -> CampaignRow:
    """Until it is over or has stopped. Interrupted, it says that the campaign goes on."""
    waited = 0.0
    with err().status("[soft]the broker keeps it; a scheduler takes it up[/]") as status:
        try:
            while True:
                rows = await store.dead_letter_store.campaigns([campaign_id])
                if rows and rows[0].state in _FINISHED_STATES:
                    return rows[0]
                if rows:
                    status.update(redrive_line(rows[0]))
                elif waited > _PICKUP_TIMEOUT:
                    status.update("[odd]no scheduler has taken it up yet; it is kept until one does[/]")
                await asyncio.sleep(_EVERY)
                waited += _EVERY
        except asyncio.CancelledError:
            end = str(campaign_id)[-8:]
            err().print(f"[odd]![/] not looked at any more; it goes on: warrener dead campaigns {end}")
            raise


def print_redrive(row: CampaignRow, *, as_json: bool) -> None:
    """How it has ended, by words and by the exit code."""
    if as_json:
        print_json(row)
    else:
        screen = err()
        screen.print(redrive_line(row))
        if row.why:
            screen.print(f"  {row.why}", style="bad", markup=False)
        screen.print(f"  [soft]→[/] its journal: warrener dead campaigns {str(row.campaign_id)[-8:]}")
        if row.state is CampaignState.STOPPED:
            screen.print(f"  [soft]→[/] once it is mended: warrener dead resume {str(row.campaign_id)[-8:]}")
    if row.state is CampaignState.STOPPED or any(row.counts.get(state) for state in _FAILED_STATES):
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)
