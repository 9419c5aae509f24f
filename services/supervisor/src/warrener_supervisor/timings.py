"""The periods by which the supervisor judges."""

from dataclasses import dataclass
from datetime import timedelta

from warrener_contracts.topology import DELAY_LEVELS

_ANSWER = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Timings:
    """How long to believe in what is not heard of."""

    lease: timedelta = timedelta(seconds=8)  # an agent that says nothing for so long is gone
    reconnect: timedelta = timedelta(seconds=10)  # after a break, agents may take so long to be heard again
    no_consumer_timeout: timedelta = timedelta(
        seconds=15
    )  # a queue with messages may have no consumer for so long
    ladder_grace: timedelta = timedelta(seconds=15)  # so long after its time, a wake-up is lost
    timeout_grace: timedelta = timedelta(
        seconds=10
    )  # an agent stops its attempts itself, and is given time for it
    max_queue_delay: timedelta = DELAY_LEVELS[-1].delay  # what waits longer waits in the store alone
    min_queue_delay: timedelta = DELAY_LEVELS[0].delay  # no rung is shorter: a shorter delay would spin
    compare: timedelta = timedelta(seconds=20)  # an agent's whole list is compared with the store
    claim: timedelta = timedelta(seconds=10)  # the watchdog's word is repeated after it, if it was not heard
    settled: timedelta = timedelta(seconds=10)  # a dispatch is in its queue by then, or lost
    unpublished_grace: timedelta = timedelta(seconds=5)  # who has just touched a job may be publishing it
    renotify_interval: timedelta = timedelta(
        minutes=1
    )  # a job that waits too long is named again, if it was not heard

    @property
    def answer(self) -> timedelta:
        """Time an agent has to answer before it counts as lost; it is asked so long before its lease ends."""
        return min(_ANSWER, self.lease / 4)
