"""Agents and job types as frozen values. Pure."""

from dataclasses import dataclass
from datetime import datetime

from warrener_contracts.events import JsonObject
from warrener_contracts.policy import Guarantee, JobPolicy


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
