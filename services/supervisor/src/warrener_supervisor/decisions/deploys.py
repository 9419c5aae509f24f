"""Notice the versions of code that agents begin to run. Pure.

A deploy of a job type is the moment from which one of its agents runs another version than the last one. An
older version that is still seen, as in a rolling deploy, is none; one that comes back is, as in a rollback.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b

from warrener_contracts.events import JsonObject
from warrener_store.agents.rows import AgentRow
from warrener_store.statistics.rows import AgentVersion, Deploy

COMES_BACK_AFTER = timedelta(seconds=60)
"""Time without an agent of a version after which the next one is a deploy, and not a restart."""
SEEN_INTERVAL = timedelta(seconds=60)
"""Time after which it is stored again that a version is still seen."""


class VersionHistory:
    """The versions that agents have run."""

    def __init__(self) -> None:
        self._of_agents: dict[str, list[AgentVersion]] = {}

    def __len__(self) -> int:
        return len(self._of_agents)

    def is_known(self, agent_id: str) -> bool:
        """True if the history of this agent is here, even if it is empty."""
        return agent_id in self._of_agents

    def add(self, agent_ids: Iterable[str], versions: Iterable[AgentVersion]) -> None:
        """Add all that is stored of these agents."""
        for agent_id in agent_ids:
            self._of_agents.setdefault(agent_id, [])
        for one in versions:
            history = self._of_agents.setdefault(one.agent_id, [])
            if one not in history:
                history.append(one)
                history.sort(key=lambda each: each.since)

    def version_of(self, agent_id: str | None, moment: datetime) -> str:
        """Return the version that an agent ran at a moment; empty if it is not known."""
        history = self._of_agents.get(agent_id or "", [])
        place = bisect_right(history, moment, key=lambda one: one.since)
        return history[place - 1].code_version if place else ""

    def observe(self, agents: Iterable[AgentRow], now: datetime) -> list[AgentVersion]:
        """Return the versions that are new, and add them. The histories of these agents must be known."""
        found: list[AgentVersion] = []
        for agent in agents:
            history = self._of_agents.get(agent.agent_id, [])
            version = agent.code_version or ""
            last = history[-1].code_version if history else ""
            if version != last:
                since = min(agent.started_at, now)
                if history and since <= history[-1].since:
                    since = now
                found.append(AgentVersion(agent_id=agent.agent_id, since=since, code_version=version))
        self.add((), found)
        return found


def observe_deploys(
    agents: Iterable[AgentRow], known: Iterable[Deploy], schemas: Mapping[str, JsonObject], now: datetime
) -> list[Deploy]:
    """Return the deploys that are new, and those whose versions are still seen.

    `known`: the stored deploys of the agents' job types. `schemas`: those of the arguments, by job type.
    """
    stored: dict[str, list[Deploy]] = defaultdict(list)
    for deploy in sorted(known, key=lambda one: one.first_seen_at):
        stored[deploy.job_type].append(deploy)
    changed: dict[tuple[str, datetime], Deploy] = {}
    for agent in sorted(agents, key=lambda one: (one.started_at, one.agent_id)):
        if not agent.code_version:
            continue
        for job_type in agent.job_types or ():
            history = stored[job_type]
            found = _observe(agent, job_type, history, schemas.get(job_type), now)
            if found is None:
                continue
            history[:] = [one for one in history if one.first_seen_at != found.first_seen_at] + [found]
            history.sort(key=lambda one: one.first_seen_at)
            changed[job_type, found.first_seen_at] = found
    return list(changed.values())


def _observe(
    agent: AgentRow, job_type: str, history: Sequence[Deploy], schema: JsonObject | None, now: datetime
) -> Deploy | None:
    version, started_at, seen_at = agent.code_version or "", min(agent.started_at, now), agent.last_seen_at
    last = next((one for one in reversed(history) if one.code_version == version), None)
    if last is not None and (history[-1] is last or started_at <= last.last_seen_at + COMES_BACK_AFTER):
        is_due = seen_at >= last.last_seen_at + SEEN_INTERVAL
        return replace(last, last_seen_at=seen_at) if is_due else None
    return Deploy(
        job_type=job_type,
        first_seen_at=started_at,
        code_version=version,
        last_seen_at=max(seen_at, started_at),
        schema_hash=hash_schema(schema),
    )


def hash_schema(schema: JsonObject | None) -> str:
    """Return twelve hexadecimal digits, the same for the same schema; nothing for none."""
    if schema is None:
        return ""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
