"""Run jobs: declare them on an `Agent`, and let `python -m warrener_agent MODULE` serve them."""

from warrener_agent.agent import Agent
from warrener_agent.context import JobContext, SyncTransaction
from warrener_agent.failures import Fail, JobDefinitionError, RetryAfter
from warrener_agent.ledger.port import Transaction

__all__ = [
    "Agent",
    "Fail",
    "JobContext",
    "JobDefinitionError",
    "RetryAfter",
    "SyncTransaction",
    "Transaction",
]
