"""Which published messages wait for their confirm, and what a confirm or a return decides. Pure."""

from collections import deque
from collections.abc import Callable, Sequence

from warrener_runtime.bus.port import Fate, Outgoing
from warrener_runtime.bus.rabbit.rounds import Round
from warrener_runtime.bus.rabbit.wire import Numbered


class _Flight:
    """Messages sent together, numbered `first` and up. Those before `at` are decided, and those in
    `singly`."""

    __slots__ = ("at", "batch", "first", "last", "round", "singly")

    def __init__(self, first: int, batch: Sequence[Numbered], sent: Round) -> None:
        self.first = first
        self.last = first + len(batch) - 1
        self.batch = batch
        self.round = sent
        self.at = 0
        self.singly: set[int] = set()

    def decide_upto(self, number: int, fate: Fate) -> None:
        """All that are undecided up to this number."""
        end = min(number, self.last) + 1 - self.first
        if end <= self.at:
            return
        undecided = range(self.at, end)
        self.at = end
        if self.singly:
            places = [self.batch[offset].place for offset in undecided if offset not in self.singly]
            self.singly.difference_update(undecided)
        else:
            places = [numbered.place for numbered in self.batch[undecided.start : end]]
        self.round.decide_all(places, fate)

    def decide(self, number: int, fate: Fate) -> None:
        """One; if it is decided already, nothing."""
        offset = number - self.first
        if offset < self.at or offset in self.singly:
            return
        self.round.decide(self.batch[offset].place, fate)
        if offset == self.at:
            self.at += 1
            while self.at in self.singly:
                self.singly.discard(self.at)
                self.at += 1
        else:
            self.singly.add(offset)

    @property
    def over(self) -> bool:
        """Whether all are decided."""
        return self.at == len(self.batch)


class Flights:
    """All that is under way on one channel, in the order of its numbers.

    There is nothing for each message: a confirm of a range costs as much as it has messages, and a batch that
    is confirmed at once is one step.
    """

    def __init__(self) -> None:
        self._flights: deque[_Flight] = deque()
        self._returned = (
            0  # the broker returns in the order of publishing: the search goes on behind this number
        )

    def add(self, first: int, batch: Sequence[Numbered], sent: Round) -> None:
        """These were sent under the numbers `first` and up."""
        self._flights.append(_Flight(first, batch, sent))

    def confirm(self, number: int, fate: Fate, *, multiple: bool) -> None:
        """The broker has decided about this one, or all up to it."""
        if multiple:
            for flight in self._flights:
                if flight.first > number:
                    break
                flight.decide_upto(number, fate)
        elif (one := self._flight_of(number)) is not None:
            one.decide(number, fate)
        while self._flights and self._flights[0].over:
            self._flights.popleft()

    def unroutable(self, exchange: str, routing_key: str, message_id: str | None) -> None:
        """A mandatory message came back. Its confirm follows, and says nothing any more.

        A return has no number: it is the next one with this id that was sent there.
        """
        number = self._next_like(exchange, routing_key, message_id)
        if number is not None and (flight := self._flight_of(number)) is not None:
            self._returned = number
            flight.decide(number, Fate.UNROUTABLE)

    def end(self, fate: Callable[[Outgoing], Fate]) -> None:
        """The channel is gone: `fate` says what became of the undecided."""
        flights, self._flights = self._flights, deque()
        for flight in flights:
            for offset, (_, message) in enumerate(flight.batch):
                flight.decide(flight.first + offset, fate(message))

    def _flight_of(self, number: int) -> _Flight | None:
        return next((flight for flight in self._flights if flight.first <= number <= flight.last), None)

    def _next_like(self, exchange: str, routing_key: str, message_id: str | None) -> int | None:
        for flight in self._flights:
            if flight.last <= self._returned:
                continue
            for offset in range(max(flight.at, self._returned + 1 - flight.first), len(flight.batch)):
                message = flight.batch[offset].message
                if (
                    message.mandatory
                    and message.message_id == message_id
                    and message.routing_key == routing_key
                    and message.exchange == exchange
                ):
                    return flight.first + offset
        return None
