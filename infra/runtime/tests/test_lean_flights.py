"""What confirms and returns decide, whatever their order; held against the plainest model there is."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.bus_rigs import letter

from warrener_runtime.bus import Fate, Outgoing
from warrener_runtime.bus.lean.flights import Flights
from warrener_runtime.bus.rabbit.rounds import Round
from warrener_runtime.bus.rabbit.wire import Numbered

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=6)
confirms = st.lists(st.tuples(st.integers(1, 36), st.booleans(), st.booleans()), max_size=30)


class Sent:
    """Batches on one channel, numbered from 1."""

    def __init__(self, batches: list[list[Outgoing]]) -> None:
        self.flights = Flights()
        self.fates: list[Fate | None] = []
        self.rounds: list[Round] = []
        first = 1
        for batch in batches:
            fates: list[Fate] = []
            numbered = [Numbered(place, message) for place, message in enumerate(batch)]
            sent = _Noting(self, first, len(batch), fates)
            self.flights.add(first, numbered, sent)
            self.rounds.append(sent)
            self.fates += [None] * len(batch)
            first += len(batch)


class _Noting(Round):
    """Notes each fate once."""

    def __init__(self, sent: Sent, first: int, size: int, fates: list[Fate]) -> None:
        super().__init__(fates, size)
        self._sent = sent
        self._first = first

    def decide(self, place: int, fate: Fate) -> None:
        at = self._first - 1 + place
        assert self._sent.fates[at] is None, "decided twice"
        self._sent.fates[at] = fate
        self.count_down()

    def decide_all(self, places: Sequence[int], fate: Fate) -> None:
        for place in places:
            self.decide(place, fate)


@given(sizes, confirms)
def test_every_message_has_the_fate_that_was_said_first(
    sizes: list[int], said: list[tuple[int, bool, bool]]
) -> None:
    async def story() -> None:
        sent = Sent([[letter(f"{n}-{m}") for m in range(size)] for n, size in enumerate(sizes)])
        expected: list[Fate | None] = [None] * sum(sizes)
        for number, multiple, positive in said:
            fate = Fate.CONFIRMED if positive else Fate.REFUSED
            sent.flights.confirm(number, fate, multiple=multiple)
            for at in range(0 if multiple else number - 1, number):
                if at < len(expected):
                    expected[at] = expected[at] or fate
        assert sent.fates == expected

        sent.flights.end(lambda _: Fate.UNKNOWN)

        assert sent.fates == [fate or Fate.UNKNOWN for fate in expected]
        assert all(one.over.done() for one in sent.rounds)

    asyncio.run(story())


@given(st.lists(st.sampled_from(["routed", "stray", "lost"]), min_size=1, max_size=12))
def test_twins_have_the_fate_of_their_own_address(keys: list[str]) -> None:
    async def story() -> None:
        batch: list[Outgoing] = [letter("twin", key) for key in keys]
        sent = Sent([batch[:5], batch[5:]] if keys[5:] else [batch])
        for key in keys:  # the broker returns in the order of publishing
            if key != "routed":
                sent.flights.unroutable("ask", key, "twin")
        sent.flights.confirm(len(keys), Fate.CONFIRMED, multiple=True)
        assert sent.fates == [Fate.CONFIRMED if key == "routed" else Fate.UNROUTABLE for key in keys]

    asyncio.run(story())


async def test_a_return_that_fits_nothing_decides_nothing() -> None:
    sent = Sent([[letter("a")]])
    sent.flights.unroutable("ask", "job.x", "somebody else's")
    assert sent.fates == [None]


@pytest.mark.parametrize("multiple", [False, True])
async def test_a_confirm_of_what_was_never_sent_decides_nothing_more(*, multiple: bool) -> None:
    sent = Sent([[letter("a"), letter("b")]])
    sent.flights.confirm(2, Fate.CONFIRMED, multiple=True)
    sent.flights.confirm(99, Fate.REFUSED, multiple=multiple)
    assert sent.fates == [Fate.CONFIRMED] * 2
