"""Find running attempts whose agent is silent or no longer lists them, and report them to the judge.

A silent agent receives a request for a heartbeat before its lease is over. It counts as lost only if
neither this supervisor nor the store (that is: any supervisor) has a sign of life since.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.events import AgentHeartbeatRequested, AgentHeartbeatRequestedData
from warrener_contracts.messages import build_message
from warrener_runtime.clock import Entropy
from warrener_runtime.logs import get_logger
from warrener_supervisor.decisions.heartbeat_diff import HeartbeatLine, HeartbeatTracker
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.decisions.timeouts import lost_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.findings import FindingPublisher
from warrener_supervisor.heartbeat_consumer import HeartbeatCoverage

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

    # -- agents that live and do not list an attempt ------------------------------------------------------

    async def _compare(self) -> None:
        """Compare whole lists with the store, for differences that single lines do not show."""
        now = self._clock.monotonic()
        due = self._tracker.due_for_comparison(now)
        running = (await self._store.running_attempts(owners=due)).values()
        for agent_id in due:
            self._tracker.compare(agent_id, [one for one in running if one.agent_id == agent_id], now)
        self._tracker.forget(now - self._forgotten_after)

    @property
    def _forgotten_after(self) -> float:
        return 10 * (self._timings.lease + self._timings.compare).total_seconds()

    async def _look_for_missing(self) -> None:
        missing = self._tracker.missing(self._clock.monotonic() - self._timings.lease.total_seconds())
        if not missing:
            return
        running = await self._store.running_attempts(job_ids={line.job_id for line in missing})
        gone: dict[UUID, datetime] = {}
        for line, (agent_id, since) in missing.items():
            known = running.get(line.job_id)
            if (
                known is None
                or HeartbeatLine(known.job_id, known.attempt) != line
                or known.agent_id != agent_id
            ):
                self._tracker.settle(agent_id, line)
            else:
                gone[line.job_id] = since.last_seen_at
        await self._declare(gone, not_in_heartbeat=True)

    # -- agents that are silent --------------------------------------------------------------------------

    async def _look_for_silent(self) -> None:
        now, moment = self._clock.now(), self._clock.monotonic()
        seen = await self._store.running_owners()
        quiet = {
            agent_id: last
            for agent_id, last in seen.items()
            if last is None or now - last >= self._timings.request_after
        }
        self._requested_at = {
            agent_id: requested_at
            for agent_id, requested_at in self._requested_at.items()
            if agent_id in quiet
        }
        await self._request_heartbeats(
            [agent_id for agent_id in quiet if agent_id not in self._requested_at], moment
        )
        silent = {
            agent_id: last
            for agent_id, last in quiet.items()
            if (last is None or now - last >= self._timings.lease) and self._did_not_answer(agent_id, moment)
        }
        if silent:
            running = (await self._store.running_attempts(owners=silent)).values()
            await self._declare(
                {one.job_id: silent[one.agent_id] for one in running if one.lease_until <= now},
                not_in_heartbeat=False,
            )

    def _did_not_answer(self, agent_id: str, now: float) -> bool:
        requested_at = self._requested_at[agent_id]
        answer = self._timings.answer.total_seconds()
        return now - requested_at >= answer and not self._tracker.received_since(agent_id, requested_at)

    async def _request_heartbeats(self, agents: Sequence[str], now: float) -> None:
        if not agents:
            return
        self._requested_at |= dict.fromkeys(agents, now)
        _log.warning(
            "Agents are silent: heartbeats were requested before they count as lost.",
            action="losses.heartbeats_requested",
            agents=sorted(agents),
        )
        await self._bus.publish([build_message(self._heartbeat_request(agent_id)) for agent_id in agents])

    def _heartbeat_request(self, agent_id: str) -> AgentHeartbeatRequested:
        name, data = self._entropy.new_id_text(), AgentHeartbeatRequestedData(agent_id=agent_id)
        return supervisor_event(AgentHeartbeatRequested, name, agent_id, self._clock.now(), data)

    # -- both --------------------------------------------------------------------------------------------

    async def _declare(self, last_seen: Mapping[UUID, datetime | None], *, not_in_heartbeat: bool) -> None:
        """Claim these attempts and report them lost; one supervisor at a time holds the claim."""
        job_ids = sorted(last_seen)
        for start in range(0, len(job_ids), _BATCH_SIZE):
            now = self._clock.now()
            some = job_ids[start : start + _BATCH_SIZE]
            rows = await self._store.claim_lost(some, now, now + self._timings.claim)
            lost = [
                (
                    row,
                    lost_event(
                        row,
                        last_seen[row.job_id] or row.started_at or now,
                        now,
                        not_in_heartbeat=not_in_heartbeat,
                    ),
                )
                for row in rows
            ]
            jobs, unconfirmed = await self._findings.publish(lost)
            if jobs:
                _log.warning(
                    "Attempts were declared lost.",
                    action="losses.declared",
                    jobs=jobs,
                    unconfirmed=unconfirmed,
                )
