"""Decide what to do with a message of a dispatch queue, and which attempts an open breaker holds back."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from warrener_agent.ledger.port import SavedCheckpoint
from warrener_contracts.circuit_breaker import BreakerState, breakers_for, queue_breaker
from warrener_contracts.events import AttemptDispatched, BreakerChangedData, Checkpoint
from warrener_contracts.messages import is_early
from warrener_contracts.policy import JobPolicy
from warrener_contracts.topology import DELAY_LEVELS, DelayLevel, delay_level_for

_STATE_TTL = 30.0
"""Seconds for which a breaker's state is valid without being repeated; the supervisor repeats it every 5."""


class IntakeRoute(StrEnum):
    """The first destination of a dispatched attempt."""

    ADOPT = "adopt"  # it runs here already: this is a later delivery of the same message
    DELAY = "delay"  # it came before its time: back to the delay queues
    NO_SLOT = "no_slot"  # attempts wait in the delay queues, never in an agent
    UNKNOWN = "unknown"  # this agent does not know the job type: another one may
    AVOIDED = "avoided"  # earlier attempts have failed here: another agent takes it, if one does soon
    SPLIT = "split"  # an attempt of the same message may have ended its agent: it comes again alone
    CLAIM = "claim"


def choose_route(
    event: AttemptDispatched,
    now: datetime,
    *,
    runs_here: bool,
    slot_free: bool,
    is_shared: bool,
    known: bool,
    avoids: bool = False,
) -> IntakeRoute:
    """Choose where `event` goes. `known`: True if this agent has its job type, or the ledger may know it.
    `avoids`: True if it is still to be given back to another agent."""
    if runs_here:
        return IntakeRoute.ADOPT
    if is_early(event, now):
        return IntakeRoute.DELAY
    if is_shared:
        return IntakeRoute.SPLIT
    if not known:
        return IntakeRoute.UNKNOWN
    if avoids:
        return IntakeRoute.AVOIDED
    return IntakeRoute.CLAIM if slot_free else IntakeRoute.NO_SLOT


def arrival_time(event: AttemptDispatched, now: datetime, *, returned: bool) -> datetime:
    """Return the time by which a delayed attempt is judged: `now`, or the time it was sent plus the delay
    level on which it waited, whichever is later.

    Its sender goes by the store's clock; an agent whose ledger's clock is behind would delay it endlessly.
    """
    due, sent = event.data.not_before, event.time
    if due is None or sent is None or due <= now:
        return now
    level = delay_level_for(due - sent) if returned else None
    return max(now, sent if level is None else sent + level.delay)


def resend_level(returned: int, short_retries: int, max_delay: timedelta) -> DelayLevel:
    """Choose the delay level of a message that was sent back `returned` times: the shortest for the first
    `short_retries` times, then a longer one each time, up to `max_delay`."""
    levels = [level for level in DELAY_LEVELS if level.delay <= max_delay]
    return levels[min(max(returned + 1 - short_retries, 0), len(levels) - 1)]


def newest_checkpoint(saved: SavedCheckpoint | None, dispatched_checkpoint: Checkpoint | None) -> Checkpoint:
    """Return the newer of the ledger's checkpoint and the dispatch's; of the same number, the ledger's.

    An agent elsewhere may have saved a checkpoint that this ledger does not have.
    """
    if saved is None or (dispatched_checkpoint is not None and dispatched_checkpoint.number > saved.number):
        assert dispatched_checkpoint is not None
        return dispatched_checkpoint
    return Checkpoint(number=saved.number, state=json.loads(saved.state_text))


class _TrackedBreaker(NamedTuple):
    """A breaker that is not closed."""

    state: BreakerState
    opened_at: datetime
    valid_until: float  # monotonic

    def applies_to(self, event: AttemptDispatched) -> bool:
        """True if this attempt is given back.

        Attempts sent while the breaker is half open are probes. Attempts sent before it opened are not: they
        waited in a delay queue or a dispatch queue.
        """
        if self.state is BreakerState.OPEN:
            return True
        return event.time is not None and event.time < self.opened_at


class BreakerFilter:
    """Says which attempts are given back instead of run. `queues`: those that the agent serves.

    States expire, so that a lost message costs only time.
    """

    def __init__(self, policies: Mapping[str, JobPolicy], queues: Iterable[str]) -> None:
        self._job_types: defaultdict[str, set[str]] = defaultdict(set)  # by breaker
        for queue in queues:
            self._job_types[queue_breaker(queue)] = set()  # holds by the queue, whatever the type
        for job_type, policy in policies.items():
            for name in breakers_for(job_type, policy.depends_on):
                self._job_types[name].add(job_type)
        self._tracked: dict[str, _TrackedBreaker] = {}

    def update(self, data: BreakerChangedData, now: float) -> bool:
        """Apply a breaker's state; True if that changes anything for this agent."""
        if data.name not in self._job_types:
            return False
        known = self._tracked.pop(data.name, None)
        if known is not None and known.valid_until <= now:
            known = None
        if data.state is BreakerState.OPEN or (data.state is BreakerState.HALF_OPEN and known is not None):
            opened_at = known.opened_at if known and data.state is BreakerState.HALF_OPEN else data.since
            self._tracked[data.name] = _TrackedBreaker(data.state, opened_at, now + _STATE_TTL)
        return (known.state if known else BreakerState.CLOSED) is not data.state

    def hold_reason(self, event: AttemptDispatched, now: float) -> str | None:
        """Return why this attempt is given back; None if it may run."""
        for name, breaker in self._tracked.items():
            is_needed = event.data.job_type in self._job_types[name] or name == queue_breaker(
                event.data.queue
            )
            if is_needed and now < breaker.valid_until and breaker.applies_to(event):
                return f"{name} is {breaker.state.value}"
        return None
