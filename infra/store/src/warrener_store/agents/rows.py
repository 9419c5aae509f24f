"""Agents and job types as frozen values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warrener_contracts.events import JsonObject
from warrener_contracts.policy import Guarantee, JobPolicy

SILENT_AFTER = timedelta(seconds=15)
"""Silence after which an agent is not taken for alive: seven heartbeats."""

_OF_AN_ANNOUNCEMENT = ("description", "announced_by", "announced_at", "broker_user", "started_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypeRow:
    """A job type as the latest agent announced it."""

    name: str
    queue: str
    arguments_schema: JsonObject
    result_schema: JsonObject | None
    guarantee: Guarantee
    policy: JobPolicy
    description: str
    announced_by: str
    announced_at: datetime
    broker_user: str | None = None  # whose announcement it was; None: not known
    started_at: datetime | None = None  # when its agent started; None: the agent does not say

    def declares(self, other: "JobTypeRow") -> bool:
        """True if both have one declaration, by any agent."""
        return replace(self, **{name: getattr(other, name) for name in _OF_AN_ANNOUNCEMENT}) == other


def declared_queues(job_types: Mapping[str, JobTypeRow]) -> set[str]:
    """The queues that job types declare: their own, and those to which their retry rules send attempts."""
    return set[str]().union(*({row.queue} | row.policy.rule_queues for row in job_types.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """An agent as of its last heartbeat."""

    agent_id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    running: int
    draining: bool
    started_at: datetime
    last_seen_at: datetime
    # None: the agent does not say, as those of earlier versions.
    job_types: tuple[str, ...] | None = None  # the names of those that it knows
    free_slots: Mapping[str, int] | None = None  # by queue
    trouble: str | None = None  # why it cannot handle messages now; None: it can, or does not say
    code_version: str | None = None  # of its handlers
    broker_user: str | None = None  # whose heartbeats it sends; None: not known
