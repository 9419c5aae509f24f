"""Compare the attempts that agents list in their heartbeats with the store.

A supervisor remembers the last list of each agent and which of its lines the store confirms. A confirmed
line costs nothing more. Only differences are looked up: a new line, and a confirmed one that is missing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from warrener_contracts import events
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import RunningAttemptRow
from warrener_supervisor.decisions.signals import job_event, supervisor_event

_UNWANTED = frozenset({JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD})


class HeartbeatLine(NamedTuple):
    """One attempt in a heartbeat."""

    job_id: UUID
    attempt: int


class MissingAttempt(NamedTuple):
    """A running attempt that its living agent does not list: since when (monotonic), and last seen."""

    since: float
    last_seen_at: datetime


@dataclass(slots=True)
class _Agent:
    started_at: datetime  # another value is another process under the same id
    received: float  # monotonic
    seen_at: datetime
    compare_at: float
    lines: frozenset[HeartbeatLine] = frozenset()
    confirmed: set[HeartbeatLine] = field(default_factory=set[HeartbeatLine])
    missing: dict[HeartbeatLine, MissingAttempt] = field(default_factory=dict[HeartbeatLine, MissingAttempt])


class HeartbeatTracker:
    """The last lists of all agents, as one supervisor has received them. Times are monotonic seconds.

    After `silence` seconds without a heartbeat, no line of an agent counts as confirmed: its attempts may
    have been declared lost.
    """

    def __init__(self, compare_every: float, silence: float) -> None:
        self._compare_every, self._silence = compare_every, silence
        self._agents: dict[str, _Agent] = {}

    def note(self, beat: events.AgentHeartbeat, received: float, now: datetime) -> set[HeartbeatLine]:
        """Record a heartbeat; return the lines that are not confirmed yet."""
        data = beat.data
        agent = self._agents.get(data.agent_id)
        if agent is None:
            agent = _Agent(data.started_at, received, now, compare_at=received)
            self._agents[data.agent_id] = agent
        if agent.started_at != data.started_at:
            agent.started_at, agent.compare_at = data.started_at, received
        lines = frozenset(HeartbeatLine(one.job_id, one.attempt) for one in data.running if not one.held)
        for line in agent.confirmed - lines:
            agent.missing.setdefault(line, MissingAttempt(received, agent.seen_at))
        for line in agent.missing.keys() & lines:
            del agent.missing[line]
        if received - agent.received >= self._silence:
            agent.confirmed.clear()
        agent.confirmed &= lines
        agent.lines, agent.received, agent.seen_at = lines, received, now
        return set(lines - agent.confirmed)

    def confirm(self, agent_id: str, lines: Iterable[HeartbeatLine]) -> None:
        """Mark lines that the store has as running under this agent."""
        agent = self._agents[agent_id]
        agent.confirmed.update(agent.lines.intersection(lines))

    def due_for_comparison(self, now: float) -> list[str]:
        """Return the agents to compare with the store: new processes at once, others at intervals."""
        return [agent_id for agent_id, agent in self._agents.items() if agent.compare_at <= now]

    def compare(self, agent_id: str, running: Collection[RunningAttemptRow], now: float) -> None:
        """Compare an agent's list with the attempts that the store has as running under it."""
        agent = self._agents[agent_id]
        agent.compare_at = now + self._compare_every
        known = {HeartbeatLine(one.job_id, one.attempt): one for one in running}
        for line in known.keys() - agent.lines:
            agent.missing.setdefault(line, MissingAttempt(now, agent.seen_at))
        agent.confirmed = {line for line in agent.lines & known.keys() if not known[line].cancelled}

    def missing(self, before: float) -> dict[HeartbeatLine, tuple[str, MissingAttempt]]:
        """Return the attempts that agents have not listed since `before`, despite their heartbeats."""
        return {
            line: (agent_id, missing)
            for agent_id, agent in self._agents.items()
            if agent.received > before
            for line, missing in agent.missing.items()
            if missing.since <= before
        }

    def settle(self, agent_id: str, line: HeartbeatLine) -> None:
        """Forget a missing attempt that does not run under this agent."""
        self._agents[agent_id].missing.pop(line, None)

    def received_since(self, agent_id: str, moment: float) -> bool:
        """True if a heartbeat of this agent was received after this moment."""
        agent = self._agents.get(agent_id)
        return agent is not None and agent.received > moment

    def jobs_listed_since(self, moment: float) -> set[UUID]:
        """Return the jobs in the lists that were received after this moment."""
        agents = [agent for agent in self._agents.values() if agent.received > moment]
        return {line.job_id for agent in agents for line in agent.lines}

    def forget(self, before: float) -> None:
        """Forget the agents that have sent nothing since `before`."""
        self._agents = {name: agent for name, agent in self._agents.items() if agent.received > before}


def matches_store(running: Mapping[UUID, RunningAttemptRow], agent_id: str, line: HeartbeatLine) -> bool:
    """True if the store has the line as running under this agent, and its cancel is not requested."""
    known = running.get(line.job_id)
    if known is None or known.cancelled:
        return False
    return (known.attempt, known.agent_id) == (line.attempt, agent_id)


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """The consequence of a line that the store does not confirm.

    `begun`: a sign of life to judge. `unwanted`: the agent must stop the job; `superseded`: only this
    attempt of it. `not_lost`: a loss must be revoked.
    """

    begun: events.AttemptStarted | None = None
    unwanted: bool = False
    superseded: bool = False
    not_lost: bool = False


def classify_discrepancy(row: JobRow, line: HeartbeatLine, agent_id: str, now: datetime) -> Discrepancy:
    """Classify one line. A stop is repeated with each heartbeat until the agent has carried it out.

    While no later attempt has begun, an earlier one may go on: its claim in the ledger blocks the later
    one, and its success counts.
    """
    if (row.ending or row.state) in _UNWANTED:
        return Discrepancy(unwanted=True)
    if row.state.terminal or line.attempt > row.attempt:
        return Discrepancy()
    if row.state is JobState.SUSPENDED and line.attempt == row.attempt:
        return Discrepancy()  # its report has overtaken the heartbeat
    if line.attempt < row.attempt:
        return Discrepancy(superseded=row.state is JobState.RUNNING, not_lost=True)
    if row.state is not JobState.RUNNING:
        data = events.AttemptStartedData(
            job_id=row.job_id, attempt=row.attempt, job_type=row.job_type, agent_id=agent_id, started_at=now
        )
        return Discrepancy(begun=job_event(events.AttemptStarted, row, f"{row.attempt}:listed", now, data))
    return Discrepancy(unwanted=row.agent_id == agent_id and row.cancel_reason is not None)


def checked_event(
    agent_id: str, held: Iterable[events.HeartbeatAttempt], rows: Mapping[UUID, JobRow], now: datetime
) -> events.AttemptsChecked:
    """Make the answer to an agent that holds attempts back."""
    may_start: list[events.HeartbeatAttempt] = []
    ended: list[UUID] = []
    for one in held:
        row = rows.get(one.job_id)
        if row is None or (row.ending or row.state).terminal or row.cancel_reason is not None:
            ended.append(one.job_id)
        elif row.state is JobState.SUSPENDED:
            continue  # judged already
        elif one.attempt >= row.attempt and (
            row.state is not JobState.RUNNING or row.agent_id in (None, agent_id)
        ):
            may_start.append(one)
    data = events.AttemptsCheckedData(agent_id=agent_id, may_start=tuple(may_start), ended=tuple(ended))
    return supervisor_event(
        events.AttemptsChecked, f"{agent_id}:{now.isoformat()}:checked", agent_id, now, data
    )
