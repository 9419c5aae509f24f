"""Limits on real processes, a real broker and both databases: three schedulers and two supervisors are killed
again and again, and the handlers note who runs. That a limit bears a crash at any call is proved by
`tests/simulation/test_limits.py`."""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.limit_handlers import SLOTS
from tests.acceptance.store_queries import look, rows_of, state_of
from tests.acceptance.test_agent_frozen import SILENT, TALKATIVE
from tests.acceptance.warren import Warren, locked, until, with_heartbeat

from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState

MODULE = "tests.acceptance.limit_handlers"
JOBS, KILLS = 240, 8
MARKS = """
from warrener_agent import Agent, JobContext

agent = Agent()

@agent.job("mark", queue="marks")
async def mark(job: JobContext) -> None:
    pass
"""


@pytest.fixture(params=["sqlite", "postgres"])
def stored_warren(request: pytest.FixtureRequest, tmp_path: Path, vhost_url: str) -> Iterator[Warren]:
    store_url = str(request.getfixturevalue(f"{request.param}_store_url"))
    one = Warren(tmp_path, vhost_url, store_url, f"sqlite:///{tmp_path}/ledger.db", forks=True)
    yield one
    one.end()
    if request.session.testsfailed:
        for service in one.services:
            print(f"--- {service.name}\n{service.log_text()[-3000:]}")


@pytest.mark.timeout(300)
def test_a_limit_holds_while_schedulers_and_supervisors_are_killed(stored_warren: Warren) -> None:
    warren, dice = stored_warren, random.Random(7)
    living = [warren.start(name) for name in ("scheduler",) * 3 + ("supervisor",) * 2]
    for _ in range(2):
        warren.start("agent", MODULE)
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        jobs = [
            client.request("push", {"tenant": "abc"[number % 3], "fails": number % 10 == 0})
            for number in range(JOBS)
        ]
        for kill in range(1, KILLS + 1):
            until(lambda: len(ended(warren)) >= kill * JOBS // (KILLS + 2), "more jobs to end", within=90)  # noqa: B023
            victim = living.pop(dice.randrange(len(living)))
            victim.kill()
            living.append(warren.start(victim.name))
        for job in jobs:
            job.result(timeout=120)
    rows = rows_of(warren, [job.job_id for job in jobs])
    assert {row.state for row in rows.values()} == {JobState.SUCCEEDED}
    assert len(rows) == JOBS
    most = most_at_once(warren)
    assert set(most) == set("abc")
    assert set(most.values()) == {SLOTS}, "never more, and all slots are used"
    until(lambda: not look(warren, lambda store: store.slots_after(("", 0), 9)), "all slots to be free")
    assert look(warren, lambda store: store.waited_gates("", 9)) == []


@pytest.mark.parametrize(
    ("manners", "heartbeat"),
    [
        pytest.param(SILENT, 3, id="the broker gives its message to the other agent"),
        pytest.param(TALKATIVE, 6, id="a supervisor finds it lost"),
    ],
)
def test_a_limit_holds_while_an_agent_is_stopped_beyond_its_lease(
    warren: Warren, manners: dict[str, str], heartbeat: int
) -> None:
    """The job that it runs begins again elsewhere, on its slot. No later report of the agent frees that."""
    warren.environment = {"WARRENER_AGENT_CLAIM_TTL": "2", **manners}
    (warren.folder / "marks.py").write_text(MARKS)
    for number in (1, 2, 3):
        make_gate(warren.folder / f"gate-{number}")
    warren.start("scheduler")
    warren.start("supervisor", WARRENER_SUPERVISOR_AGENT_TIMEOUT="5")
    url = with_heartbeat(warren.broker_url, heartbeat)
    stopped = warren.start("agent", MODULE, "marks", WARRENER_BROKER_URL=url)
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        first, second = [client.request("hold", {"tenant": tenant}) for tenant in "ab"]
        until(lambda: starts(warren) == [first.job_id], "the first job to begin")
        until(lambda: state_of(warren, second.job_id) is JobState.WAITING, "the second one to wait")
        if manners is TALKATIVE:
            until(lambda: state_of(warren, first.job_id) is JobState.RUNNING, "the start to be judged")
        with locked(warren.folder / "ledger.db"), locked(warren.folder / "ledger.db-claims"):
            stopped.freeze()
        other = warren.start("agent", MODULE)
        until(lambda: starts(warren) == [first.job_id] * 2, "the first job to begin elsewhere", within=90)
        stopped.signal(signal.SIGCONT)
        open_gate(warren.folder / "gate-1")
        until(lambda: ended(warren) == {first.job_id}, "its handler to go on")
        client.request("mark").result(timeout=60)  # its reports of before are judged
        assert state_of(warren, second.job_id) is JobState.WAITING
        assert starts(warren) == [first.job_id] * 2
        open_gate(warren.folder / "gate-2")
        assert first.result(timeout=60) == other.process.pid
        until(
            lambda: starts(warren) == [first.job_id, first.job_id, second.job_id], "the second one to begin"
        )
        open_gate(warren.folder / "gate-3")
        second.result(timeout=60)
    until(lambda: not look(warren, lambda store: store.slots_after(("", 0), 9)), "the slot to be free")


def starts(warren: Warren) -> list[UUID]:
    return [job_id for what, _, job_id in turns(warren) if what == "start"]


def ended(warren: Warren) -> set[UUID]:
    return {job_id for what, _, job_id in turns(warren) if what == "end"}


def most_at_once(warren: Warren) -> Counter[str]:
    """The most jobs of each tenant that ever ran at once."""
    running: dict[str, set[UUID]] = {}
    most: Counter[str] = Counter()
    for what, tenant, job_id in turns(warren):
        own = running.setdefault(tenant, set())
        if what == "start":
            own.add(job_id)
        else:
            own.discard(job_id)
        most[tenant] = max(most[tenant], len(own))
    return most


def turns(warren: Warren) -> list[tuple[str, str, UUID]]:
    """The starts and ends that were noted, in their order."""
    return [(what, tenant, UUID(job)) for what, tenant, job in map(str.split, warren.lines("turns"))]
