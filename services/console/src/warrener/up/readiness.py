"""When everything works: each service says so, and the agents' job types are known."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime

from warrener.up.supervised_process import SupervisedProcess
from warrener_store import StateStore, StoreError
from warrener_store.agents.rows import AgentRow, JobTypeRow

_LOOK_EVERY = 0.2  # seconds
_ANSWER_WITHIN = 20.0  # longer than a service takes to ask all its checks


async def wait_until_ready(child: SupervisedProcess) -> None:
    """Until the member's /ready says yes."""
    while await asyncio.to_thread(not_ready_reason, child) is not None:  # noqa: ASYNC110 - no event of ours tells
        await asyncio.sleep(_LOOK_EVERY)


def not_ready_reason(child: SupervisedProcess) -> str | None:
    """What keeps the member from being ready; None if it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{child.health_port}/ready", timeout=_ANSWER_WITHIN):
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
    """Until every agent is known and its job types too; returns those."""
    while True:
        try:
            known = await store.agents(since)
            types = list((await store.job_types()).values())
        except StoreError:
            known, types = [], []
        ours = own_agents(known, [agent.pid for agent in agents], since)
        announced = announced_since(types, since)
        if len(ours) == len(agents) and announced:
            return announced
        await asyncio.sleep(_LOOK_EVERY)


def own_agents(known: Sequence[AgentRow], pids: Sequence[int | None], since: datetime) -> list[AgentRow]:
    """The agents that are our processes: a process id alone may be an older one's."""
    return [row for row in known if row.pid in pids and row.last_seen_at >= since]


def announced_since(types: Sequence[JobTypeRow], since: datetime) -> list[JobTypeRow]:
    """The job types that were announced since `up` began."""
    return sorted((row for row in types if row.announced_at >= since), key=lambda row: row.name)
