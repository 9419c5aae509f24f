"""The stories of escalated incidents, alike in every store."""

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest
from tests.store_rows import NOON, after
from tests.store_rows import raised_incident as raised

from warrener_contracts.events import JsonObject
from warrener_store import StateStore
from warrener_store.incidents.rows import (
    ALL_STEPS_DONE,
    IncidentChange,
    IncidentFilter,
    IncidentRow,
    PolicyAdoption,
    PolicyHistory,
    PolicyVersionRow,
)
from warrener_store.incidents.store import Escalations


@pytest.fixture
def incidents(store: StateStore) -> Escalations:
    return store.escalations


async def only(incidents: Escalations) -> IncidentRow:
    (row,) = await incidents.incidents(IncidentFilter(closed=True))
    return row


async def claimed(incidents: Escalations, at: float = 0, claim: str = "me", until: float = 30) -> IncidentRow:
    """The one incident that is due."""
    (row,) = await incidents.claim_incidents(after(at), after(at + until), claim, 10)
    return row


async def raised_and_claimed(incidents: Escalations) -> IncidentRow:
    await incidents.raise_incidents([raised()])
    return await claimed(incidents)


def fresh(sample: JsonObject, at: datetime) -> IncidentRow:
    """An incident that was raised once, and no more."""
    return IncidentRow(
        fingerprint="f1",
        kind="job.dead",
        subject="the job",
        job_type="flights.load",
        sample=sample,
        times=1,
        first_seen_at=at,
        last_seen_at=at,
        wake_at=at,
    )


class TestRaising:
    async def test_everything_of_what_is_raised_comes_back(self, incidents: Escalations) -> None:
        incident = raised(subject="nul \x00", job_type=None, kind="agent.lost")
        await incidents.raise_incidents([incident])
        expected = fresh(incident.sample, NOON)
        assert await only(incidents) == replace(
            expected, kind="agent.lost", subject="nul \x00", job_type=None
        )

    async def test_a_thousand_of_one_fingerprint_are_one_incident(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised("f2", raised_at=after(n)) for n in range(1000)])
        await incidents.raise_incidents([raised("f2", raised_at=after(2000), subject="last"), raised("f1")])
        rows = await incidents.incidents()
        assert [(row.fingerprint, row.times) for row in rows] == [("f2", 1001), ("f1", 1)]
        assert (rows[0].first_seen_at, rows[0].last_seen_at) == (NOON, after(2000))
        assert (rows[0].subject, rows[0].wake_at) == ("last", after(999))

    async def test_an_occurrence_is_counted_once(self, incidents: Escalations) -> None:
        one, other = raised(occurrence="a"), raised(occurrence="b")
        await incidents.raise_incidents([one, one])
        await incidents.raise_incidents([one, other])
        await asyncio.gather(*(incidents.raise_incidents([one, other]) for _ in range(5)))
        assert (await only(incidents)).times == 2
        assert [entry.occurrence for entry in await incidents.pending("f1", 1, 10)] == ["a", "b"]

    async def test_raised_again_after_it_was_closed_it_starts_over(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised(occurrence="a")])
        held = await claimed(incidents)
        await incidents.save_incident(
            replace(held, step=2, failed_tries=3, delivered=("ops",), last_error="no", wake_at=NOON)
        )
        await incidents.change_incidents(
            [IncidentChange(fingerprint="f1", at=NOON, acknowledged_by="ann", snoozed_until=after(9))]
        )
        assert await incidents.change_incidents(
            [IncidentChange(fingerprint="f1", at=NOON, close_reason="mended")]
        ) == {"f1"}
        closed = await only(incidents)
        assert (closed.closed_at, closed.close_reason, closed.wake_at) == (NOON, "mended", None)
        assert await incidents.incidents() == []
        assert await incidents.pending("f1", ALL_STEPS_DONE, 10) == [], "nothing more is to be done"

        await incidents.raise_incidents([raised(occurrence="a"), raised(occurrence="b", raised_at=after(60))])
        assert await only(incidents) == replace(fresh(closed.sample, after(60)), round=2)
        assert [entry.occurrence for entry in await incidents.pending("f1", ALL_STEPS_DONE, 10)] == ["b"]


class TestClaims:
    async def test_what_is_claimed_is_claimed_by_one(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised(f"f{n}", raised_at=after(n)) for n in range(20)])
        found = await asyncio.gather(
            *(incidents.claim_incidents(after(30), after(60), f"c{n}", 7) for n in range(5))
        )
        names = [row.fingerprint for rows in found for row in rows]
        assert sorted(names) == sorted({*names}), "nobody got what another has"
        rest = await incidents.claim_incidents(after(30), after(60), "rest", 100)
        assert len(names) + len(rest) == 20

    async def test_the_longest_due_comes_first_and_what_is_not_due_stays(
        self, incidents: Escalations
    ) -> None:
        await incidents.raise_incidents(
            [raised("late", raised_at=after(5)), raised("due"), raised("future", raised_at=after(50))]
        )
        found = await incidents.claim_incidents(after(10), after(40), "me", 10)
        assert [(row.fingerprint, row.claimed_by, row.claimed_until) for row in found] == [
            ("due", "me", after(40)),
            ("late", "me", after(40)),
        ]
        assert await incidents.claim_incidents(after(39), after(60), "other", 10) == []

    async def test_a_claim_that_has_lapsed_is_anothers_and_the_first_saves_nothing(
        self, incidents: Escalations
    ) -> None:
        mine = await raised_and_claimed(incidents)
        theirs = await claimed(incidents, 31, "other")
        assert not await incidents.save_incident(replace(mine, step=7))
        assert await incidents.save_incident(replace(theirs, step=1, wake_at=None))
        assert not await incidents.save_incident(replace(theirs, step=2)), "it has given the claim back"
        row = await only(incidents)
        assert (row.step, row.wake_at, row.claimed_by, row.claimed_until) == (1, None, None, None)

    async def test_all_of_its_progress_comes_back(self, incidents: Escalations) -> None:
        incident = replace(
            await raised_and_claimed(incidents),
            step=2,
            due_at=after(1),
            failed_tries=3,
            delivered=("ops", "nul \x00"),
            last_error="refused \x00",
            wake_at=after(5),
        )
        assert await incidents.save_incident(incident)
        assert await only(incidents) == replace(incident, claimed_by=None, claimed_until=None)

    async def test_what_is_raised_meanwhile_keeps_it_awake_and_open(self, incidents: Escalations) -> None:
        mine = await raised_and_claimed(incidents)
        await incidents.raise_incidents([raised(raised_at=after(3))])
        over = replace(
            mine, step=1, wake_at=None, closed_at=after(4), close_reason="its policy is at its end"
        )
        assert await incidents.save_incident(over)
        row = await only(incidents)
        assert (row.step, row.times, row.wake_at, row.closed_at, row.close_reason) == (1, 2, NOON, None, None)

    async def test_an_incident_at_rest_is_woken_by_what_is_raised(self, incidents: Escalations) -> None:
        await incidents.save_incident(replace(await raised_and_claimed(incidents), wake_at=None))
        assert await incidents.claim_incidents(after(9), after(40), "me", 10) == []
        await incidents.raise_incidents([raised(raised_at=after(9))])
        assert (await claimed(incidents, 9)).times == 2

    async def test_closing_a_claimed_incident_ends_its_entries(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised(), raised("f2")])
        mine, _ = await incidents.claim_incidents(NOON, after(9), "me", 2)
        assert await incidents.save_incident(
            replace(mine, wake_at=None, closed_at=after(1), close_reason="done")
        )
        assert await incidents.pending("f1", ALL_STEPS_DONE, 10) == []
        assert len(await incidents.pending("f2", ALL_STEPS_DONE, 10)) == 1


class TestPeople:
    async def test_their_changes_are_stored_and_wake_the_incident(self, incidents: Escalations) -> None:
        await incidents.save_incident(replace(await raised_and_claimed(incidents), wake_at=None))
        acknowledge = IncidentChange(fingerprint="f1", at=after(1), acknowledged_by="ann \x00")
        snooze = IncidentChange(fingerprint="f1", at=after(2), snoozed_until=after(100))
        assert await incidents.change_incidents([acknowledge, snooze]) == {"f1"}
        row = await only(incidents)
        assert (row.acknowledged_by, row.acknowledged_at) == ("ann \x00", after(1))
        assert (row.snoozed_until, row.wake_at, row.closed_at) == (after(100), after(2), None)

    async def test_what_is_closed_or_unknown_is_not_changed(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised()])
        close = IncidentChange(fingerprint="f1", at=after(1), close_reason="mended")
        mine = await claimed(incidents)
        assert await incidents.change_incidents([close]) == {"f1"}
        again = replace(close, at=after(2), close_reason="again")
        assert await incidents.change_incidents([again, replace(again, fingerprint="unknown")]) == set()
        assert not await incidents.save_incident(mine), "who holds it hears that it is over"
        assert (await only(incidents)).close_reason == "mended"


class TestPolicies:
    async def test_versions_come_back_with_the_times_at_which_they_were_seen(
        self, incidents: Escalations
    ) -> None:
        first = PolicyVersionRow(
            version="v1",
            name="payments \x00",
            definition={"policy": {"name": "payments \x00", "steps": [{"do": "alert"}]}},
            first_seen_at=after(10),
            last_seen_at=after(10),
        )
        second = replace(first, version="v2", first_seen_at=after(5), last_seen_at=after(5))
        await incidents.put_policies([])
        await incidents.put_policies([first, first, second])
        assert await incidents.policies() == [second, first]
        seen_later = replace(first, name="renamed", first_seen_at=after(20), last_seen_at=after(20))
        await asyncio.gather(*(incidents.put_policies([seen_later]) for _ in range(3)))
        assert await incidents.policies() == [second, replace(first, last_seen_at=after(20))]

        set_back = replace(first, first_seen_at=NOON, last_seen_at=NOON)
        await incidents.put_policies([set_back])
        assert await incidents.policies() == [
            replace(first, first_seen_at=NOON, last_seen_at=after(20)),
            second,
        ]

    async def test_an_incident_follows_a_version_until_it_is_raised_again_after_its_end(
        self, incidents: Escalations
    ) -> None:
        await incidents.raise_incidents([raised(occurrence="a")])
        adoption = PolicyAdoption(name="payments \x00", version="v1", since=NOON)
        followed = replace(
            await claimed(incidents), policy_version="v1", policy_history=PolicyHistory(adoptions=(adoption,))
        )
        assert await incidents.save_incident(followed)
        await incidents.raise_incidents([raised(occurrence="b", raised_at=after(1))])
        row = await only(incidents)
        assert (row.policy_version, row.policy_history) == ("v1", followed.policy_history)
        await incidents.change_incidents([IncidentChange(fingerprint="f1", at=NOON, close_reason="mended")])
        assert (await only(incidents)).policy_version == "v1"
        await incidents.raise_incidents([raised(occurrence="c", raised_at=after(2))])
        row = await only(incidents)
        assert (row.round, row.policy_version, row.policy_history) == (2, None, None)

    async def test_a_restart_begins_with_all_entries_that_are_not_settled(
        self, incidents: Escalations
    ) -> None:
        await incidents.raise_incidents([raised(occurrence=f"e{n}", raised_at=after(n)) for n in range(3)])
        await incidents.raise_incidents([raised("f2", occurrence="other")])
        await incidents.settle("f1", ["e0", "e1"], 2)
        await incidents.settle("f1", ["e2"], ALL_STEPS_DONE)
        await incidents.settle("f2", ["other"], 2)
        (mine,) = [
            row
            for row in await incidents.claim_incidents(after(10), after(40), "me", 10)
            if row.fingerprint == "f1"
        ]
        assert not await incidents.save_incident(replace(mine, round=2, claimed_by="another"))
        assert await incidents.pending("f1", 1, 10) == []
        assert await incidents.save_incident(replace(mine, round=2, policy_version="v2"))
        assert [entry.occurrence for entry in await incidents.pending("f1", 1, 10)] == ["e0", "e1"]
        assert await incidents.pending("f2", 1, 10) == []
        (row,) = await incidents.incidents(IncidentFilter(fingerprints=["f1"]))
        assert (row.round, row.policy_version, row.claimed_by) == (2, "v2", None)


class TestEntries:
    async def test_they_are_settled_step_by_step_and_never_back(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised(occurrence=f"e{n}", raised_at=after(n)) for n in range(4)])
        await incidents.settle("f1", ["e0", "e2", "unknown"], 2)
        await incidents.settle("f1", ["e0"], 1)
        await incidents.settle("f1", ["e3"], ALL_STEPS_DONE)
        await incidents.settle("other", ["e1"], 2)
        below = {
            done: [entry.occurrence for entry in await incidents.pending("f1", done, 10)]
            for done in (1, 3, ALL_STEPS_DONE)
        }
        assert below == {1: ["e1"], 3: ["e0", "e1", "e2"], ALL_STEPS_DONE: ["e0", "e1", "e2"]}
        assert [entry.steps_done for entry in await incidents.pending("f1", 3, 2)] == [2, 0]

    async def test_incidents_by_fingerprint(self, incidents: Escalations) -> None:
        await incidents.raise_incidents([raised("a\x00"), raised("b"), raised("closed")])
        await incidents.change_incidents([IncidentChange(fingerprint="closed", at=NOON, close_reason="done")])
        named = ["a\x00", "c", "closed"]
        found = await incidents.incidents(IncidentFilter(fingerprints=named, limit=0))
        assert [row.fingerprint for row in found] == ["a\x00"]
        found = await incidents.incidents(IncidentFilter(fingerprints=named, closed=True))
        assert [row.fingerprint for row in found] == ["closed", "a\x00"]
        assert await incidents.incidents(IncidentFilter(fingerprints=[])) == []
