"""Parked messages and the id of the installation, alike in every store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tests.store_rows import parked_message

from warrener_runtime.bus import Delivery
from warrener_store import Store
from warrener_store.parked.crashed_readers import STALE_AFTER, StoredTries
from warrener_store.parked.rows import ParkedAt, ParkedFilter, ParkedGroup, ParkedMessage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLDEST = ParkedFilter(oldest_first=True)


def message(name: str, *, queue: str = "warrener.requests", reason: str = "not_json") -> ParkedMessage:
    return parked_message(
        name,
        queue=queue,
        reason=reason,
        content_type="application/json",
        body=bytes(range(256)) + name.encode(),
        parked_at=NOW + timedelta(seconds=int(name.rpartition(" ")[2])),
        exchange="warrener.requests",
        routing_key="flights.load",
        message_id=f"id of {name}",
        type="job.requested.v1",
        headers={"traceparent": "00-1"},
    )


def received(name: str) -> Delivery:
    return Delivery(name.encode(), "many", "warrener.requests", True, 1, 1, message_id=name)  # noqa: FBT003 - as it is made everywhere


def ids(found: list[ParkedMessage]) -> list[str]:
    return [one.parked_id for one in found]


async def test_they_are_chosen_by_reason_queue_time_and_id_and_come_in_pages(store: Store) -> None:
    status = [message(f"s {n}", queue="warrener.status", reason="unknown_job") for n in range(5)]
    await store.park([message(f"r {n}") for n in range(5)])
    await store.park(status)
    for oldest_first in (True, False):
        chosen = ParkedFilter(reason="unknown_job", oldest_first=oldest_first)
        first = await store.parked(chosen, 3)
        rest = await store.parked(chosen, 3, ParkedAt(first[-1].parked_at, first[-1].parked_id))
        assert [*first, *rest] == (status if oldest_first else status[::-1])
    assert await store.parked(replace(OLDEST, queue="warrener.status"), 10) == status
    times = replace(OLDEST, since=NOW + timedelta(seconds=1), before=NOW + timedelta(seconds=2))
    assert ids(await store.parked(times, 10)) == ["r 1", "s 1"]
    assert ids(await store.parked(replace(OLDEST, ids=["s 4", "r 2", "none"]), 10)) == ["r 2", "s 4"]
    assert await store.parked(ParkedFilter(ids=[]), 10) == []
    keyed = replace(message("k 9"), routing_key="flights.lod")
    await store.park([keyed])
    assert await store.parked(ParkedFilter(routing_keys=["flights.lod", "none"]), 10) == [keyed]
    assert await store.parked(ParkedFilter(routing_keys=[], reason="not_json"), 10) == []
    await store.forget_parked([keyed])
    span = NOW + timedelta(seconds=3), NOW + timedelta(seconds=4)
    assert await store.group_parked(ParkedFilter(since=NOW + timedelta(seconds=3))) == [
        ParkedGroup("warrener.requests", "not_json", 2, *span),
        ParkedGroup("warrener.status", "unknown_job", 2, *span),
    ]


async def test_one_that_was_parked_once_more_meanwhile_is_not_forgotten(store: Store) -> None:
    await store.park([message("a 1"), message("a 1"), message("b 2")])
    seen = await store.parked(OLDEST, 10)
    assert [one.times for one in seen] == [1, 1]
    await store.park([replace(message("a 1"), detail="again")])
    await store.forget_parked(seen)
    [left] = await store.parked()
    assert left == replace(message("a 1"), times=2)
    await store.forget_parked([replace(left, parked_at=NOW)])
    assert await store.parked() == [left], "this one was parked at another time"
    await store.forget_parked([left])
    assert not await store.parked()
    await store.forget_parked([])


async def test_the_first_id_of_the_installation_stays(store: Store) -> None:
    assert await store.installation() is None
    first = uuid4()
    assert await store.installation(first) == first
    assert await store.installation(uuid4()) == first
    assert await store.installation() == first


async def test_the_first_secret_of_the_installation_stays(store: Store) -> None:
    first = uuid4()
    assert await store.installation_secret(first, "one") == "one"
    assert await store.installation_secret(uuid4(), "two") == "one"
    assert await store.installation() == first, "no service had started before"


async def test_an_installation_of_an_earlier_version_gets_a_secret(store: Store) -> None:
    first = uuid4()
    await store.installation(first)
    assert await store.installation_secret(uuid4(), "one") == "one"
    assert await store.installation_secret(uuid4(), "two") == "one"
    assert await store.installation() == first


async def test_tries_are_counted_and_shown_by_no_list_until_the_message_is_parked(store: Store) -> None:
    tries = StoredTries(store, lambda: NOW)
    poison = received("poison")
    other = poison._replace(message_id="o")
    await tries.begin("work", [poison, other])
    for count in range(3):
        assert await tries.tries("work", [poison, other]) == [(1, count), (1, 0)]
        await tries.begin("work", [poison])
    assert await store.parked() == await store.parked(OLDEST, 10) == []
    assert await store.group_parked(ParkedFilter()) == []
    await tries.park("work", poison, "crashed_readers", "3 processes crashed")
    assert await tries.tries("work", [poison, other]) == [(0, 0), (1, 0)]
    [parked_row] = await store.parked()
    shown = (parked_row.reason, parked_row.body, parked_row.queue, parked_row.times)
    assert shown == ("crashed_readers", b"poison", "work", 1)
    await tries.begin("work", [poison])
    await tries.end("work", [poison, other])
    assert await tries.tries("work", [poison, other]) == [(0, 0), (0, 0)]


async def test_6_stale_tries_are_forgotten_some_at_a_time_and_fresh_ones_are_not(store: Store) -> None:
    now = [NOW]
    tries = StoredTries(store, lambda: now[0])
    old = [received(f"old {number}") for number in range(120)]
    for each in old:
        await tries.begin("warrener.requests", [each])
    await store.park([message("a 1")])
    now[0] += STALE_AFTER + timedelta(seconds=1)
    fresh = received("fresh")
    await tries.begin("warrener.requests", [fresh])
    await tries.forget_stale()
    left = await tries.tries("warrener.requests", old)
    assert sum(alone for _, alone in left) == 20, "a bounded number goes at once"
    await tries.forget_stale()
    assert set(await tries.tries("warrener.requests", old)) == {(0, 0)}
    assert await tries.tries("warrener.requests", [fresh]) == [(0, 1)]
    assert ids(await store.parked(OLDEST, 10)) == ["a 1"]
