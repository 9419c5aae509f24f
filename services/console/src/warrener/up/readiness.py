"""When everything works: each service says so, and the agents' job types are known."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime

from warrener.up.child import Child
from warrener_store import StateStore, StoreError
from warrener_store.rows import AgentRow, JobTypeRow

_LOOK_EVERY = 0.2  # seconds
_ANSWER_WITHIN = 20.0  # longer than a service takes to ask all its checks


async def until_ready(child: Child) -> None:
    """Until the member's /ready says yes."""
    while await asyncio.to_thread(trouble_of, child) is not None:  # noqa: ASYNC110 - no event of ours tells
        await asyncio.sleep(_LOOK_EVERY)


def trouble_of(child: Child) -> str | None:
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
    return "; ".join(f"{name}: {told}" for name, told in checks.items() if told != "ok") or "is not ready"


async def until_announced(store: StateStore, agents: Sequence[Child], since: datetime) -> list[JobTypeRow]:
    """Until every agent is known and its job types too; returns those."""
    while True:
        try:
            known = await store.agents(since)
            types = list((await store.job_types()).values())
        except StoreError:
            known, types = [], []
        ours = ours_of(known, [agent.pid for agent in agents], since)
        announced = announced_since(types, since)
        if len(ours) == len(agents) and announced:
            return announced
        await asyncio.sleep(_LOOK_EVERY)


def ours_of(known: Sequence[AgentRow], pids: Sequence[int | None], since: datetime) -> list[AgentRow]:
    """The agents that are our processes: a process id alone may be an older one's."""
    return [row for row in known if row.pid in pids and row.last_seen_at >= since]


def announced_since(types: Sequence[JobTypeRow], since: datetime) -> list[JobTypeRow]:
    """The job types that were announced since `up` began."""
    return sorted((row for row in types if row.announced_at >= since), key=lambda row: row.name)
