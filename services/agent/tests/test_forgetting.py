"""The ledger does not grow for ever: once an hour an agent deletes what no message can be about any more."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import pytest
from services.agent.tests.stage import HandlerRig, Stage

from warrener_agent.ledger import Claim, ClaimStatus, Completion, DeletedRows, Ledger, open_ledger
from warrener_agent.settings import AgentSettings
from warrener_runtime.settings import SettingsError, load
from warrener_runtime.virtual_clock import VirtualClock

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
        rig.agent, ledger=cast("Ledger", ledger), clock=clock, agent_lease=1e6, agent_heartbeat=1e6
    )
    began = clock.now()
    for _ in range(3):
        async with asyncio.timeout(20):
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
    async with asyncio.timeout(20):
        await noted.has_forgotten.wait()
    claims = [Claim(old, 1), Claim(young, 1)]
    answers = await ledger.claim(claims, agent_id="x", lease=timedelta(seconds=10))
    assert [answer.status for answer in answers] == [ClaimStatus.GRANTED, ClaimStatus.COMPLETED]


def test_a_ledger_that_forgets_sooner_than_a_message_lives_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARRENER_AGENT_REMEMBER", "3600")
    with pytest.raises(SettingsError, match="WARRENER_AGENT_REMEMBER: expected at least 2 h"):
        load(AgentSettings)
