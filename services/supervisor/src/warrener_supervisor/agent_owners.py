"""The broker user to whom each agent id belongs: its events come from that user, or are not believed.

An id that names a user is that user's. Another belongs to the user of its first heartbeat while the agent
lives. After that another user may take the id, as when a release that names no user is rolled back to. The
store decides between two users, and a supervisor remembers: a batch costs a query only if it has an agent
that this supervisor has not seen.

One user has a limited number of living agents, so that a guest does not fill the store with invented ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from warrener_contracts.topology import is_foreign_agent_id
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.agents.rows import SILENT_AFTER, AgentRow
from warrener_store.store import StateStore

_log = get_logger("presence")

_LOG_INTERVAL = 60.0  # seconds between two lines about refused heartbeats, of which there may be many
_REMEMBERED = 10_000  # agents above which those that are gone are forgotten
MAX_AGENTS = 2_000  # living agents of one user of the broker


class _Owner(NamedTuple):
    user: str | None
    until: float  # monotonic; the agent is gone then, unless it is seen again


class AgentOwners:
    """The owners of agents, as one supervisor knows them."""

    def __init__(self, store: StateStore, clock: Clock, trusted: str | None) -> None:
        """`trusted`: the user of supervisors, who requeue what agents have sent; None: unknown."""
        self._store, self._clock, self._trusted = store, clock, trusted
        self._known: dict[str, _Owner] = {}
        self._refused, self._log_at = 0, 0.0

    async def load(self, agent_ids: AbstractSet[str]) -> None:
        """Read the owners of those that are not known yet; an agent without a heartbeat has none."""
        if unknown := agent_ids - self._known.keys():
            self._note((await self._store.agents_by_id(unknown)).values())

    def may_report(self, agent_id: str, user_id: str | None) -> bool:
        """True if events of this agent, or about its attempts, may come from this user."""
        if user_id is not None and user_id != self._trusted and is_foreign_agent_id(agent_id, user_id):
            return False
        owner = self._known.get(agent_id)
        if owner is None or owner.user is None or owner.user == user_id:
            return True
        return (user_id is not None and user_id == self._trusted) or owner.until <= self._clock.monotonic()

    async def put(self, rows: Sequence[AgentRow], now: datetime) -> list[bool]:
        """Store the agents of heartbeats; say of each if its agent belongs to its user."""
        moment, wanted, unsure = self._clock.monotonic(), list[AgentRow](), set[str]()
        for row in rows:
            if row.broker_user is not None and is_foreign_agent_id(row.agent_id, row.broker_user):
                continue
            owner = self._known.get(row.agent_id)
            if owner is None or owner.until <= moment or (owner.user is None and row.broker_user is not None):
                unsure.add(row.agent_id)
            elif owner.user != row.broker_user:
                continue
            wanted.append(row)
        wanted = self._within_limit(wanted, moment)
        await self._store.put_agents(wanted, now - SILENT_AFTER)
        stored = await self._store.agents_by_id(unsure) if unsure else {}
        counted = {
            (row.agent_id, row.broker_user): row
            for row in wanted
            if (known := stored.get(row.agent_id)) is None or known.broker_user == row.broker_user
        }
        self._note(counted.values())
        self._report(len(rows) - len(counted), moment)
        return [(row.agent_id, row.broker_user) in counted for row in rows]

    def _within_limit(self, rows: list[AgentRow], moment: float) -> list[AgentRow]:
        """Leave out new agents of users that have too many living ones."""
        if all((owner := self._known.get(row.agent_id)) and owner.until > moment for row in rows):
            return rows
        living = {name for name, owner in self._known.items() if owner.until > moment}
        counts = Counter(self._known[name].user for name in living)
        within: list[AgentRow] = []
        for row in rows:
            if row.agent_id not in living:
                if row.broker_user is not None and counts[row.broker_user] >= MAX_AGENTS:
                    continue
                counts[row.broker_user] += 1
                living.add(row.agent_id)
            within.append(row)
        return within

    def _note(self, rows: Iterable[AgentRow]) -> None:
        now, moment = self._clock.now(), self._clock.monotonic()
        for row in rows:
            left = (SILENT_AFTER - (now - row.last_seen_at)).total_seconds()
            if row.draining and not row.running:  # it has ended
                left = 0.0
            self._known[row.agent_id] = _Owner(row.broker_user, moment + left)
        if len(self._known) > _REMEMBERED:
            self._known = {name: owner for name, owner in self._known.items() if owner.until > moment}

    def _report(self, refused: int, moment: float) -> None:
        self._refused += refused
        if self._refused and moment >= self._log_at:
            _log.warning(
                "Heartbeats were dropped: the ids of their agents belong to other users of the broker, or"
                f" their user has {MAX_AGENTS} other agents.",
                action="heartbeats.foreign",
                heartbeats=self._refused,
            )
            self._refused, self._log_at = 0, moment + _LOG_INTERVAL
