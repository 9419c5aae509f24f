"""Slots of gates and the lines before them, alike in every store."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.store_access import load_job, opened_store
from tests.store_rows import after, queued_job, waiting_job

from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.gates.rows import (
    SLOT_RECHECK,
    GateRoom,
    GateRow,
    GateWaiter,
    SlotClaim,
    decode_gates,
    encode_gates,
    slot_claim,
)
from warrener_store.jobs.views import Success

ODD = "job/crm.push/\x00 \x1a \ud800 é 🐇 $1 'quoted' \\ \"x\""


def claim(*gates: tuple[str, int], at: float = 0, job_id: UUID | None = None, attempt: int = 1) -> SlotClaim:
    return SlotClaim(job_id or uuid4(), attempt, after(at), gates or (("job/crm.push", 2),))


def taken_by(claims: list[SlotClaim], granted: set[UUID]) -> list[bool]:
    return [each.job_id in granted for each in claims]


@pytest.mark.parametrize("gate", ["job/crm.push", ODD])
async def test_a_gate_gives_its_slots_to_the_first_and_refuses_the_others(store: Store, gate: str) -> None:
    claims = [claim((gate, 2), at=number) for number in range(4)]
    assert taken_by(claims, await store.take_slots(claims, after(9))) == [True, True, False, False]
    slots = await store.slots_of(gate, 9)
    assert [(slot.number, slot.job_id, slot.taken_at) for slot in slots] == [
        (1, claims[0].job_id, after(9)),
        (2, claims[1].job_id, after(9)),
    ]
    assert await store.release_slots([(claims[0].job_id, 1), (uuid4(), 1)]) == {gate}
    assert taken_by(claims, await store.take_slots(claims[1:], after(10))) == [False, True, True, False]
    assert {slot.number for slot in await store.slots_of(gate, 9)} == {1, 2}, "the free number is used again"


async def test_a_job_has_a_slot_of_each_of_its_gates_or_none(store: Store) -> None:
    one, both = (("all", 2),), (("all", 2), ("acme", 1))
    holder, blocked, other, last = claim(*both), claim(*both), claim(*one), claim(*one)
    granted = await store.take_slots([holder], after(1))
    granted |= await store.take_slots([blocked, other, last], after(1))
    assert taken_by([holder, blocked], granted) == [True, False]
    granted = await store.take_slots([other, last], after(2))
    assert taken_by([other, last], granted) == [True, False], "the refused one holds nothing"
    assert {slot.job_id for slot in await store.slots_of("acme", 9)} == {holder.job_id}


async def test_a_claim_of_a_job_that_has_its_slots_counts_for_the_later_attempt(store: Store) -> None:
    first = claim()
    for at in (1, 2):
        assert await store.take_slots([first], after(at)) == {first.job_id}
    again = first._replace(attempt=2)
    assert await store.take_slots([again], after(3)) == {first.job_id}
    [slot] = await store.slots_of("job/crm.push", 9)
    assert (slot.attempt, slot.taken_at) == (2, after(3))
    # The report of the first attempt comes late: the second one runs.
    assert await store.release_slots([(first.job_id, 1)]) == set()
    assert await store.slots_of("job/crm.push", 9) == [slot]
    await store.drop_slots([slot._replace(taken_at=after(2))])
    assert await store.slots_of("job/crm.push", 9) == [slot], "it was taken again since it was read"
    await store.drop_slots([slot])
    assert await store.slots_of("job/crm.push", 9) == []


async def test_nobody_comes_before_those_that_wait_longer(store: Store) -> None:
    waiting, late, early = claim(at=5), claim(at=6), claim(at=4)
    await store.add_waiters([GateWaiter(waiting.job_id, "job/crm.push", waiting.since)])
    assert await store.take_slots([late], after(7)) == set()
    assert await store.take_slots([early], after(7)) == {early.job_id}
    assert await store.take_slots([waiting], after(7)) == {waiting.job_id}, (
        "it is the first of the line itself"
    )
    assert await store.take_slots([late], after(7), in_line=False) == set(), "both slots are taken"


async def test_a_fresh_claim_of_a_job_that_exists_takes_nothing(store: Store) -> None:
    known = waiting_job()
    await store.insert_jobs([known])
    claims = [claim(job_id=known.job_id), claim()]
    assert taken_by(claims, await store.take_slots(claims, after(1), fresh=True)) == [False, True]
    assert await store.take_slots(claims, after(1)) == {each.job_id for each in claims}
    assert await store.take_slots(claims, after(1), fresh=True) == {each.job_id for each in claims}


async def test_a_fresh_claim_changes_how_many_slots_a_gate_has_and_holders_go_on(store: Store) -> None:
    holders = [claim(("g", 3)) for _ in range(3)]
    assert len(await store.take_slots(holders, after(1), fresh=True)) == 3
    fewer = claim(("g", 1))
    assert await store.take_slots([fewer], after(2), fresh=True) == set()
    assert (await store.gate_rooms(["g"]))["g"][1:] == (1, 0, False)
    await store.release_slots([(each.job_id, 1) for each in holders[:2]])
    assert await store.take_slots([claim(("g", 9))], after(3)) == set(), "an old claim changes nothing"
    await store.release_slots([(holders[2].job_id, 1)])
    assert await store.take_slots([fewer], after(4)) == {fewer.job_id}


async def test_of_several_declarations_of_a_gate_the_newest_counts(store: Store) -> None:
    def declared(slots: int, at: float) -> SlotClaim:
        return claim(("pool/crm", slots))._replace(declared_at=after(at))

    async def slots() -> int:
        return (await store.gate_rooms(["pool/crm"]))["pool/crm"].slots

    await store.take_slots([claim(("pool/crm", 7))], after(1))
    for claimed, counts in (
        ([declared(3, 10)], 3),
        ([declared(5, 9)], 3),
        ([declared(6, 12), declared(4, 13), declared(9, 11)], 4),
        ([declared(4, 14)], 4),
        ([declared(8, 13)], 4),
    ):
        await store.take_slots(claimed, after(20), fresh=True)
        assert await slots() == counts
    await store.take_slots([declared(9, 99)], after(20))
    assert await slots() == 4, "of new jobs alone"


async def test_slots_that_were_set_by_hand_hold_against_announcements_until_a_reset(store: Store) -> None:
    first = [claim((ODD, 2)) for _ in range(3)]
    assert len(await store.take_slots(first, after(1), fresh=True)) == 2
    await store.set_slots(ODD, 4, after(2))
    await store.set_slots(ODD, 3, after(2))
    late = claim((ODD, 1), at=1)._replace(declared_at=after(3))
    assert len(await store.take_slots([first[2], late], after(3), fresh=True)) == 1
    await store.add_waiters([GateWaiter(late.job_id, ODD, late.since)])
    [row] = [row for row in await store.gates_from("", 9) if row.gate == ODD]
    assert row == GateRow(ODD, 1, 3, 3, 1)
    assert (await store.gate_rooms([ODD]))[ODD] == GateRoom(ODD, 3, 0, has_line=True)
    assert await store.first_waiters(ODD, 9) == [GateWaiter(late.job_id, ODD, late.since)]
    for _ in range(2):
        await store.set_slots(ODD, None, after(4))
    assert (await store.gate_rooms([ODD]))[ODD].slots == 1
    await store.set_slots("pool/new", 7, after(5))  # before its first job
    assert await store.take_slots([claim(("pool/new", 1)) for _ in range(7)], after(6), fresh=True)
    assert (await store.gate_rooms(["pool/new"]))["pool/new"][1:3] == (7, 0)
    await store.release_slots([(slot.job_id, 1) for slot in await store.slots_of("pool/new", 9)])
    await store.prune_gates("", after(99), 9)
    assert "pool/new" in [row.gate for row in await store.gates_from("pool", 9)], "it would be forgotten"


async def test_two_limits_of_a_job_with_one_gate_take_one_slot(store: Store) -> None:
    row = waiting_job(gates=encode_gates([("pool/accounts/1", 1), ("pool/accounts/1", 1)]))
    assert await store.take_slots([slot_claim(row, after(1))], after(1)) == {row.job_id}
    assert len(await store.slots_of("pool/accounts/1", 9)) == 1


async def test_the_heads_of_lines_are_as_many_as_there_is_room(store: Store) -> None:
    await store.take_slots([claim(("full", 1)), claim(("half", 2))], after(1))
    line = [GateWaiter(uuid4(), gate, after(at)) for gate in ("full", "half", "new") for at in (3, 1, 2)]
    await store.add_waiters(line)
    heads = await store.line_heads(["full", "half", "new", "unknown"], 10)
    assert heads == [
        GateWaiter(line[4].job_id, "half", after(1)),
        GateWaiter(line[7].job_id, "new", after(1)),
    ]
    assert await store.line_heads([], 10) == []
    assert len(await store.line_heads(["half", "new"], 1)) == 1
    behind = await store.line_heads(["half", "new"], 4, beyond=True)
    assert [waiter.since for waiter in behind] == [after(1), after(2)] * 2
    assert await store.waited_gates("", 9) == ["full", "half", "new"]
    assert await store.waited_gates("full", 1) == ["half"]
    assert await store.count_before(line[0], 9) == 2
    assert await store.count_before(line[0], 1) == 1
    await store.remove_waiters([line[4], line[3]._replace(since=after(9))])
    assert (await store.line_heads(["half"], 10))[0].job_id == line[5].job_id
    assert await store.waiter_of(line[3].job_id) == line[3], "it waits again, since another moment"
    assert await store.waiter_of(line[4].job_id) is None


async def test_a_job_waits_before_one_gate_and_an_older_wait_does_not_come_back(store: Store) -> None:
    job_id = uuid4()
    await store.add_waiters([GateWaiter(job_id, "a", after(5)), GateWaiter(job_id, "z", after(3))])
    assert await store.waiter_of(job_id) == GateWaiter(job_id, "a", after(5))
    await store.add_waiters([GateWaiter(job_id, "b", after(5))])
    await store.add_waiters([GateWaiter(job_id, "c", after(4))])
    assert await store.waiter_of(job_id) == GateWaiter(job_id, "b", after(5))


async def test_jobs_in_line_are_left_alone_by_an_announcement_and_are_due_if_there_is_room(
    store: Store,
) -> None:
    far = after(0) + SLOT_RECHECK
    both = encode_gates([("all", 9), ("acme", 1)])
    first, second = (
        replace(row, due_at=after(at), wake_at=far, gates=both)
        for at, row in enumerate((waiting_job(), queued_job(state=JobState.RETRYING)))
    )
    await store.insert_jobs([first, second])
    holder = claim(("acme", 1))
    await store.take_slots([holder], after(1))
    await store.wait_for_slots([slot_claim(row, after(9)) for row in (second, first)], after(9))
    assert await store.waiter_of(first.job_id) == GateWaiter(first.job_id, "acme", after(0)), "it is full"
    assert await store.release_held_jobs(["flights.load"], after(9), after(10), 100) == 0
    assert await store.claim_due([JobState.WAITING, JobState.RETRYING], after(9), after(20), 10) == []
    # A slot becomes free before the second one waits, and nobody has looked since.
    await store.release_slots([(holder.job_id, 1)])
    await store.wait_for_slots([slot_claim(second, after(9))], after(9))
    due = await store.claim_due([JobState.WAITING, JobState.RETRYING], after(9), after(20), 10)
    assert [row.job_id for row in due] == [first.job_id], "it comes first, and there is room for one"
    assert due[0].version == 3


async def test_a_success_in_one_statement_returns_the_gates_of_its_job(store: Store) -> None:
    gates = encode_gates([(ODD, 3), ("b", 1)])
    assert gates is not None
    limited, plain = queued_job(gates=gates), queued_job()
    await store.insert_jobs([limited, plain])
    assert (await load_job(store, limited.job_id)).gates == gates
    assert slot_claim(limited, after(1)).gates == decode_gates(gates) == ((ODD, 3), ("b", 1))
    successes = [Success(row.job_id, 1, "a1", None, after(1), after(2)) for row in (limited, plain)]
    ended = await store.succeed_jobs(successes, after(3))
    assert [ended[row.job_id].gates for row in (limited, plain)] == [gates, None]


async def test_gates_that_are_not_used_are_deleted_and_others_stay(store: Store) -> None:
    await store.take_slots([claim((name, 1)) for name in ("a", "b", "c", "d")], after(1))
    held = await store.slots_after(("", 0), 9)
    assert [slot.gate for slot in held] == ["a", "b", "c", "d"]
    assert [slot.gate for slot in await store.slots_after(("b", 1), 1)] == ["c"]
    await store.drop_slots(held[1:])
    await store.add_waiters([GateWaiter(uuid4(), "b", after(1))])
    assert await store.prune_gates("", after(1), 9) is None, "they are too young"
    assert await store.prune_gates("", after(2), 3) == "c"
    assert await store.prune_gates("c", after(2), 3) is None
    rooms = await store.gate_rooms(["a", "b", "c", "d"])
    assert {name: room.free for name, room in rooms.items()} == {"a": 0, "b": 1, "c": 1, "d": 1}
    assert await store.prune_gates("", after(2), 9) is None


@pytest.mark.parametrize("slots", [1, 5])
async def test_many_at_once_never_exceed_and_use_every_slot(store_url: str, slots: int) -> None:
    """Four stores take and release for the same three gates, in different orders; nothing waits for long."""
    gates: tuple[str, ...] = ("all", "acme", "other")
    holding: dict[str, set[UUID]] = {gate: set() for gate in gates}
    most: dict[str, int] = dict.fromkeys(gates, 0)

    async def work(store: Store, seed: int) -> int:
        done = 0
        while done < 25:
            own = gates[1 + (seed + done) % 2]
            names = (("all", slots), (own, slots)) if seed % 2 else ((own, slots), ("all", slots))
            claims = [claim(*names) for _ in range(3)]
            granted = await store.take_slots(claims, after(1))
            for each in claims:
                for gate, _ in each.gates if each.job_id in granted else ():
                    holding[gate].add(each.job_id)
                    most[gate] = max(most[gate], len(holding[gate]))
                    assert len(holding[gate]) <= slots
            await asyncio.sleep(0)
            for gate in gates:
                holding[gate] -= granted
            await store.release_slots([(job_id, 1) for job_id in granted])
            done += 1
        return done

    async with opened_store(store_url) as one, opened_store(store_url) as other:
        await asyncio.gather(*(work(store, seed) for seed, store in enumerate((one, other, one, other))))
        claims = [claim(("all", slots)) for _ in range(slots + 1)]
        assert len(await one.take_slots(claims, after(1))) == slots
    assert most["all"] >= 1


def test_the_next_dispatch_claims_for_its_attempt_and_by_when_it_was_due() -> None:
    gates = encode_gates([("g", 1)])
    fresh = waiting_job(gates=gates, due_at=None)
    retry = queued_job(gates=gates, state=JobState.RETRYING, attempt=3, due_at=after(7))
    now: datetime = after(0) + timedelta(seconds=20)
    assert slot_claim(fresh, now)[1:3] == (1, now)
    assert slot_claim(retry, now)[1:3] == (3, after(7))
    assert encode_gates([]) is None
