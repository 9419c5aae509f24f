"""Decide what to do with a message of a dispatch queue."""

import json
from datetime import datetime, timedelta
from enum import StrEnum

from warrener_agent.ledger.port import SavedCheckpoint
from warrener_contracts.events import AttemptDispatched, Checkpoint
from warrener_contracts.messages import is_early
from warrener_contracts.topology import DELAY_LEVELS, DelayLevel, delay_level_for


class IntakeRoute(StrEnum):
    """The first destination of a dispatched attempt."""

    ADOPT = "adopt"  # it runs here already: this is a later delivery of the same message
    DELAY = "delay"  # it came before its time: back to the delay queues
    NO_SLOT = "no_slot"  # attempts wait in the delay queues, never in an agent
    UNKNOWN = "unknown"  # this agent does not know the job type: another one may
    SPLIT = "split"  # an attempt of the same message may have ended its agent: it comes again alone
    CLAIM = "claim"


def choose_route(
    event: AttemptDispatched, now: datetime, *, runs_here: bool, slot_free: bool, is_shared: bool, known: bool
) -> IntakeRoute:
    """Choose where `event` goes. `known`: True if this agent has its job type, or the ledger may know it."""
    if runs_here:
        return IntakeRoute.ADOPT
    if is_early(event, now):
        return IntakeRoute.DELAY
    if is_shared:
        return IntakeRoute.SPLIT
    if not known:
        return IntakeRoute.UNKNOWN
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
