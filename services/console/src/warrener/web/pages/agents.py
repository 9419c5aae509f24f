"""The pages of agents. Heartbeats are not worth an event each: the refresh shows what they change."""

from warrener.operations.agents import AGENTS, AgentsQuery, list_agents, read_agent
from warrener.operations.system import explain_agent_row
from warrener.web.page import PageRequest, View, page


@page("/agents", topics=("agents",), refresh=5.0)
async def show_agents(request: PageRequest) -> View:
    """Show the agents, the last seen first."""
    query = request.read(AgentsQuery)
    found = await list_agents(request.console, query)
    context = {
        "agents": found,
        "tones": AGENTS.tones,
        "is_all": query.all,
        "is_filtered": bool(request.query),
    }
    return View("Agents", context)


@page("/agents/{agent_id:path}", topics=("agents",), refresh=5.0)
async def show_agent(request: PageRequest) -> View:
    """Show one agent: what it runs and what was lost with it."""
    agent_id = request.path["agent_id"]
    found = await read_agent(request.console, agent_id)
    row = (await request.console.store.agents_by_id([agent_id]))[agent_id]
    explanation = await explain_agent_row(request.console, row)
    context = {"agent": found, "tones": AGENTS.tones, "explanation": explanation}
    return View(agent_id, context)
