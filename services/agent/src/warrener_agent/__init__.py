"""Run jobs: declare them on an `Agent`, and let `python -m warrener_agent MODULE` serve them."""

from warrener_agent.agent import Agent
from warrener_agent.context import JobContext, SyncTransaction
from warrener_agent.definitions.isolation import Limits, Recycle
from warrener_agent.definitions.job import Gather
from warrener_agent.definitions.program import Program
from warrener_agent.failures import Cancel, Fail, JobDefinitionError, RetryAfter, Snooze
from warrener_agent.ledger.port import Transaction
from warrener_agent.workflows.failures import ChildJobFailed, JournalFull, StepFailed, WorkflowError
from warrener_agent.workflows.maps import MapFailure, MapResult
from warrener_agent.workflows.pages import ResultPage
from warrener_agent.workflows.targets import JobType
from warrener_agent.workflows.workflow import Workflow
from warrener_contracts.circuit_breaker import BreakerPolicy
from warrener_contracts.events import EarlierAttempt, History
from warrener_contracts.policy import Backoff, Limit, RetryRule
from warrener_contracts.unique import Unique, debounce

__all__ = [
    "Agent",
    "Backoff",
    "BreakerPolicy",
    "Cancel",
    "ChildJobFailed",
    "EarlierAttempt",
    "Fail",
    "Gather",
    "History",
    "JobContext",
    "JobDefinitionError",
    "JobType",
    "JournalFull",
    "Limit",
    "Limits",
    "MapFailure",
    "MapResult",
    "Program",
    "Recycle",
    "ResultPage",
    "RetryAfter",
    "RetryRule",
    "Snooze",
    "StepFailed",
    "SyncTransaction",
    "Transaction",
    "Unique",
    "Workflow",
    "WorkflowError",
    "debounce",
]
