"""`warrener agents`."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from warrener.command.listing import show_list
from warrener.options import Json, Store
from warrener.render.tables import agents_table
from warrener_store import StateStore
from warrener_store.agents.rows import AgentRow

EXAMPLES = """
warrener agents
warrener agents --all --json
"""

_FORGOTTEN_AFTER = timedelta(hours=1)


def agents(
    *,
    everyone: Annotated[
        bool, typer.Option("--all", help="Those too that have been silent for an hour.")
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the agents: what they serve and run."""
    show_list(
        store,
        lambda open_store: _list_agents(open_store, everyone=everyone),
        agents_table,
        as_json=as_json,
        none="No agent has been heard of: start one with `warrener up MODULE` or `warrener agent MODULE`.",
    )


async def _list_agents(store: StateStore, *, everyone: bool) -> list[AgentRow]:
    return await store.agents(None if everyone else datetime.now(UTC) - _FORGOTTEN_AFTER)
