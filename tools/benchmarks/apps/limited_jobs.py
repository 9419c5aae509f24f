"""The jobs of limits.py: they do nothing, with and without a limit."""

from warrener_agent import Agent, Limit

agent = Agent()


@agent.job("plain")
async def plain(tenant: str) -> None:
    """End at once."""


@agent.job("limited", gates=[Limit(100, key="{{ arguments.tenant }}")])
async def limited(tenant: str) -> None:
    """End at once."""
