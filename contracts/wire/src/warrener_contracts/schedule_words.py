"""The words of schedules: choices of their owners, and the outcomes of ticks. They need no pydantic."""

from enum import StrEnum


class MisfirePolicy(StrEnum):
    """Handling of ticks that no scheduler has handled in time."""

    SKIP = "skip"  # none of them makes a job
    ONCE = "once"  # the last one stands for all
    ALL = "all"  # the newest `max_catch_up` make jobs
    WINDOW = "window"  # those within `catch_up_window` make jobs


class OverlapPolicy(StrEnum):
    """Handling of a tick while the job of an earlier one has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"  # one tick waits for its end; further ticks are skipped meanwhile
    QUEUE_ALL = "queue_all"
    CANCEL = "cancel"  # the running job is cancelled, and this one starts without waiting for it


class TickStatus(StrEnum):
    """The outcome of a tick."""

    FIRED = "fired"
    CAUGHT_UP = "caught_up"  # fired though it was missed
    COALESCED = "coalesced"  # a later tick stands for it
    SKIPPED = "skipped"
    WAITING = "waiting"  # for the end of an earlier tick's job
    TRIGGERED = "triggered"  # by a command
