"""Find running attempts whose agent is silent or no longer lists them, and report them to the judge.

A silent agent receives a request for a heartbeat before its lease is over. It counts as lost only if
neither this supervisor nor the store (that is: any supervisor) has a sign of life since.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.events import AgentHeartbeatRequested, AgentHeartbeatRequestedData, Event
from warrener_contracts.messages import build_message
from warrener_runtime.clock import Entropy
from warrener_runtime.logs import get_logger
from warrener_store.jobs.rows import JobRow
from warrener_supervisor.decisions.heartbeat_diff import HeartbeatTracker
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.decisions.timeouts import lost_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.heartbeat_consumer import HeartbeatCoverage
from warrener_supervisor.watchdog import FindingPublisher

_log = get_logger("losses")

_BATCH_SIZE = 500


class LossDetector:
    """Declares attempts lost. A loss that nobody judges is declared again when its claim is over."""

    def __init__(
        self, ports: SupervisorPorts, entropy: Entropy, tracker: HeartbeatTracker, coverage: HeartbeatCoverage
    ) -> None:
        self._bus, self._store, self._clock, self._timings = ports
        self._entropy, self._tracker, self._coverage = entropy, tracker, coverage
        self._requested_at: dict[str, float] = {}
        self._findings = FindingPublisher(ports.bus, ports.clock)

    async def run_once(self) -> None:
        """Look at all agents that run something."""
        if not self._coverage.is_conclusive(self._clock.monotonic()):
            self._requested_at.clear()
            return
        await self._compare()
        await self._look_for_missing()
        await self._look_for_silent()

    async def _compare(self) -> None:
        """Compare whole lists with the store, for differences that single lines do not show."""
        now = self._clock.monotonic()
        due = self._tracker.due_for_comparison(now)
        running = (await self._store.running_attempts(owners=due)).values()
        for agent_id in due:
            self._tracker.compare(agent_id, [one for one in running if one.agent_id == agent_id], now)
        self._tracker.forget(now - 10 * (self._timings.lease + self._timings.compare).total_seconds())

    async def _look_for_missing(self) -> None:
        missing = self._tracker.missing(self._clock.monotonic() - self._timings.lease.total_seconds())
        if not missing:
            return
        running = await self._store.running_attempts(job_ids={line.job_id for line in missing})
        gone: dict[UUID, datetime] = {}
        for line, (agent_id, since) in missing.items():
            known = running.get(line.job_id)
            if known is not None and (known.attempt, known.agent_id) == (line.attempt, agent_id):
                gone[line.job_id] = since.last_seen_at
            else:
                self._tracker.settle(agent_id, line)
        await self._declare(gone, not_in_heartbeat=True)

    async def _look_for_silent(self) -> None:
        now, moment = self._clock.now(), self._clock.monotonic()
        seen = await self._store.running_owners()
        quiet = {
            agent_id: last
            for agent_id, last in seen.items()
            if last is None or now - last >= self._timings.request_after
        }
        self._requested_at = {name: at for name, at in self._requested_at.items() if name in quiet}
        await self._request_heartbeats(quiet.keys() - self._requested_at.keys(), moment)
        lease, answer = self._timings.lease, self._timings.answer.total_seconds()
        silent = {
            agent_id: last
            for agent_id, last in quiet.items()
            if (last is None or now - last >= lease)
            and moment - (requested_at := self._requested_at[agent_id]) >= answer
            and not self._tracker.received_since(agent_id, requested_at)
        }
        if silent:
            running = (await self._store.running_attempts(owners=silent)).values()
            await self._declare(
                {one.job_id: silent[one.agent_id] for one in running if one.lease_until <= now},
                not_in_heartbeat=False,
            )

    async def _request_heartbeats(self, silent: Collection[str], moment: float) -> None:
        if not silent:
            return
        agents, now = sorted(silent), self._clock.now()
        self._requested_at |= dict.fromkeys(agents, moment)
        _log.warning(
            "Agents are silent: heartbeats were requested before they count as lost.",
            action="losses.heartbeats_requested",
            agents=agents,
        )
        requests = [
            supervisor_event(AgentHeartbeatRequested, self._entropy.new_id_text(), data.agent_id, now, data)
            for data in (AgentHeartbeatRequestedData(agent_id=agent_id) for agent_id in agents)
        ]
        await self._bus.publish(list(map(build_message, requests)))

    async def _declare(self, last_seen: Mapping[UUID, datetime | None], *, not_in_heartbeat: bool) -> None:
        """Claim these attempts and report them lost; one supervisor at a time holds the claim."""
        job_ids = sorted(last_seen)
        for start in range(0, len(job_ids), _BATCH_SIZE):
            now = self._clock.now()
            some = job_ids[start : start + _BATCH_SIZE]
            rows = await self._store.claim_lost(some, now, now + self._timings.claim)
            lost: list[tuple[JobRow, Event[Any]]] = []
            for row in rows:
                seen_at = last_seen[row.job_id] or row.started_at or now
                lost.append((row, lost_event(row, seen_at, now, not_in_heartbeat=not_in_heartbeat)))
            jobs, unconfirmed = await self._findings.publish(lost)
            if jobs:
                counts = {"jobs": jobs, "unconfirmed": unconfirmed}
                _log.warning("Attempts were declared lost.", action="losses.declared", **counts)
