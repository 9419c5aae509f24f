"""Leases are renewed while the event loop is blocked, and old rows of the ledger are deleted."""

import asyncio
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from services.agent.tests.stage import LONG, WAIT, HandlerRig, Stage

from warrener_agent import Agent, JobContext
from warrener_agent.leases import LeaseState, is_due, must_end
from warrener_agent.ledger import Claim, ClaimStatus, Completion, DeletedRows, Ledger, open_ledger
from warrener_agent.settings import AgentSettings
from warrener_contracts.events import AttemptDispatched, AttemptSucceeded
from warrener_runtime.settings import SettingsError, load
from warrener_runtime.virtual_clock import VirtualClock

# -- while the event loop is blocked (guarantee G3) ---------------------------------------------------------

LEASE = 2.0


class Blocker:
    """A handler that blocks the loop for 2.5 leases, and one in a thread that works beside it."""

    def __init__(self) -> None:
        self.agent = Agent()
        self.blocking = threading.Event()
        self.begun, self.waiting = asyncio.Event(), asyncio.Event()
        self.go_on = asyncio.Event()

        @self.agent.job("blocks")
        async def blocks(job: JobContext, *, goes_on: bool = False) -> int:
            self.begun.set()
            self.blocking.set()
            time.sleep(2.5 * LEASE)  # noqa: ASYNC251 - a mistaken handler
            if goes_on:
                await self.go_on.wait()
            return job.attempt

        @self.agent.job("waits")
        async def waits(job: JobContext) -> int:
            self.waiting.set()
            await self.go_on.wait()
            return job.attempt


class Rival(threading.Thread):
    """Another agent, that claims the next attempts while the loop of the test is blocked. It measures for how
    long the machine kept it waiting, until `over`."""

    def __init__(self, ledger_url: str, blocking: threading.Event, claims: Sequence[Claim]) -> None:
        super().__init__(daemon=True)
        self._url, self._blocking, self._claims = ledger_url, blocking, claims
        self._seen_at = time.monotonic()
        self.statuses: list[list[ClaimStatus]] = []
        self.longest_pause = 0.0
        self.has_competed, self.over = threading.Event(), threading.Event()

    def run(self) -> None:
        self._measure_until(self._blocking)
        asyncio.run(self._compete())
        self.has_competed.set()
        self._measure_until(self.over)

    def _measure_until(self, end: threading.Event) -> None:
        while not end.wait(LEASE / 50) and not self.over.is_set():
            self._note_pause()

    def _note_pause(self) -> None:
        now = time.monotonic()
        self.longest_pause, self._seen_at = max(self.longest_pause, now - self._seen_at), now

    async def _compete(self) -> None:
        ledger = open_ledger(self._url)
        await ledger.start()
        try:
            end = time.monotonic() + 2.0 * LEASE
            while time.monotonic() < end:
                self.statuses.append(await claim(ledger, self._claims))
                self._note_pause()
                await asyncio.sleep(LEASE / 10)
        finally:
            await ledger.close()


async def claim(ledger: Ledger, claims: Sequence[Claim]) -> list[ClaimStatus]:
    statuses = await ledger.claim(claims, agent_id="rival", lease=timedelta(0))
    return [answer.status for answer in statuses]


@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "goes on"])
async def test_g3_what_blocks_the_loop_keeps_its_lease_although_a_later_attempt_waits(
    stage: Stage, *, goes_on: bool
) -> None:
    """An agent keeps a lease while its machine runs. If that has stood still for a good part of a lease, and
    the claim was lost, the trial says nothing, and is made again."""
    for _ in range(4):
        blocker, codes = Blocker(), list[int]()
        one = await stage.enter(
            blocker.agent, agent_claim_ttl=LEASE, end_process=codes.append, ledger_url=stage.ledger_url
        )
        still, job = (stage.dispatched(job_type, timeout=LONG) for job_type in ("waits", "blocks"))
        job.data.arguments["goes_on"] = goes_on
        claims = [Claim(job.data.job_id, 2), Claim(still.data.job_id, 2)]
        rival = Rival(stage.ledger_url, blocker.blocking, claims)
        rival.start()
        try:
            await block_the_loop(stage, blocker, rival, still, job)
            assert not codes
        except (AssertionError, TimeoutError):
            if rival.longest_pause < LEASE / 4:
                raise
        else:
            return
        finally:
            rival.over.set()
            await stage.leave(one)
    pytest.fail("expected a machine that runs, got one that stood still in each of the trials")


async def block_the_loop(
    stage: Stage, blocker: Blocker, rival: Rival, still: AttemptDispatched, job: AttemptDispatched
) -> None:
    async with asyncio.timeout(WAIT):
        await stage.dispatch_together(still)
        await blocker.waiting.wait()
        await stage.dispatch_together(job)
        await blocker.begun.wait()  # the loop turns again when it has blocked
    blocker.go_on.set()
    assert (await stage.wait_for_event(AttemptSucceeded, job.data.job_id)).data.result == 1
    assert await asyncio.to_thread(rival.has_competed.wait, WAIT)
    assert {at_work for at_work, _ in rival.statuses} <= {ClaimStatus.HELD, ClaimStatus.COMPLETED}
    assert ClaimStatus.GRANTED in {standing for _, standing in rival.statuses}, (
        "it stood still, and gives way"
    )
    assert not stage.of(AttemptSucceeded, still.data.job_id)


class SlowToRecord:
    """A ledger that records successes when it is let."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.recording, self.let = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        self.recording.set()
        await self.let.wait()
        return await self._ledger.complete(completions, agent_id=agent_id)


async def test_a_later_attempt_waits_until_the_success_of_its_own_agent_is_recorded(stage: Stage) -> None:
    agent, calls = Agent(), list[int]()

    @agent.job("quick")
    async def quick(job: JobContext) -> int:
        calls.append(job.attempt)
        return job.attempt

    ledger = SlowToRecord(open_ledger(stage.ledger_url))
    await stage.enter(agent, ledger=cast("Ledger", ledger))
    job = await stage.dispatch("quick")
    await ledger.recording.wait()
    await stage.dispatch("quick", job_id=job, attempt=2)
    beside = await stage.dispatch("quick")  # handled after it
    await stage.until(lambda: len(calls) == 2, "the one beside to run")
    ledger.let.set()
    assert (await stage.wait_for_event(AttemptSucceeded, beside)).data.result == 1
    assert (await stage.wait_for_event(AttemptSucceeded, job, times=2)).data.result == 1, "told again"
    assert len(calls) == 2


def test_g3_a_lease_is_renewed_from_outside_the_loop_when_the_loop_has_missed_it() -> None:
    assert not is_due([LeaseState(4.3, is_working=True)], lease=6.0)
    assert is_due([LeaseState(5.0, is_working=True), LeaseState(3.8, is_working=False)], lease=6.0)
    assert not is_due([LeaseState(-1.0, is_working=True, refused=True)], lease=6.0), (
        "it would be refused again"
    )


def test_g3_a_process_ends_for_the_lease_of_a_handler_at_work() -> None:
    assert must_end(
        [LeaseState(5.0, is_working=True), LeaseState(1.4, is_working=True, refused=True)], lease=6.0
    )
    assert not must_end([LeaseState(1.6, is_working=True), LeaseState(-3.0, is_working=False)], lease=6.0)


# -- deletion of old rows -----------------------------------------------------------------------------------

WEEK = timedelta(days=7)


class NotedLedger:
    """A ledger whose deletions are noted."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.forgot: list[datetime] = []
        self.has_forgotten = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def delete_old(self, before: datetime, *, after: datetime | None = None) -> DeletedRows:
        self.forgot.append(before)
        batch = await self._ledger.delete_old(before, after=after)
        if batch.after is None:
            self.has_forgotten.set()
        return batch


async def test_once_an_hour_what_is_older_than_a_week_is_forgotten(stage: Stage, rig: HandlerRig) -> None:
    clock = VirtualClock()
    ledger = NotedLedger(open_ledger(stage.ledger_url))
    # Everything else that an agent does again and again, as rarely as can be: two hours pass in a moment.
    await stage.enter(
        rig.agent, ledger=cast("Ledger", ledger), clock=clock, agent_claim_ttl=1e6, agent_heartbeat=1e6
    )
    began = clock.now()
    for _ in range(3):
        async with asyncio.timeout(WAIT):
            await ledger.has_forgotten.wait()
        ledger.has_forgotten.clear()
        await clock.advance(3600.0)
    assert ledger.forgot[:3] == [began - WEEK + timedelta(hours=hours) for hours in range(3)]


async def test_what_is_old_is_gone_and_what_is_young_stays(stage: Stage, rig: HandlerRig) -> None:
    now = datetime.now(UTC) + 2 * WEEK
    old, young = uuid4(), uuid4()
    ledger = open_ledger(stage.ledger_url)
    await ledger.start()
    for job_id, age in ((old, WEEK + timedelta(minutes=1)), (young, WEEK - timedelta(minutes=1))):
        await ledger.claim([Claim(job_id, 1)], agent_id="past", lease=timedelta(0))
        ended = Completion(job_id, 1, '"recorded"', (), now - age, now - age)
        assert await ledger.complete([ended], agent_id="past") == {job_id}

    noted = NotedLedger(ledger)
    await stage.enter(rig.agent, ledger=cast("Ledger", noted), clock=VirtualClock(now))
    async with asyncio.timeout(WAIT):
        await noted.has_forgotten.wait()
    claims = [Claim(old, 1), Claim(young, 1)]
    answers = await ledger.claim(claims, agent_id="x", lease=timedelta(seconds=10))
    assert [answer.status for answer in answers] == [ClaimStatus.GRANTED, ClaimStatus.COMPLETED]


def test_a_ledger_that_forgets_sooner_than_a_message_lives_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_RETENTION", "3600")
    with pytest.raises(SettingsError, match="WARRENER_AGENT_CLAIM_RETENTION: expected at least 2 h"):
        load(AgentSettings)
