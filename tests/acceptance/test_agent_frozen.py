"""An agent's process is frozen (SIGSTOP) until everybody believes it dead, and then goes on (G3, G4)."""

import asyncio
import signal

import pytest
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import effects_in, find_job
from tests.acceptance.warren import ServiceProcess, Warren, locked, until, with_heartbeat

from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState

HANDLERS = """
import os
from pathlib import Path
from tests.acceptance.gate import pass_gate
from warrener_agent import Agent, JobContext

agent = Agent()
here = Path(__file__).parent

def note(line: str) -> None:
    with (here / "notes").open("a") as file:
        file.write(f"{line} {os.getpid()}\\n")

@agent.job("note.write", guarantee="transactional")
def write(job: JobContext, text: str, wait: bool = False) -> int:
    first = not (here / "notes").exists()
    note(f"begun {job.attempt}")
    if wait and first:
        pass_gate(here / "gate")
        note("woken")
    transaction = job.transaction_sync()
    transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
    transaction.execute("INSERT INTO effects VALUES (:note)", {"note": f"{text} {os.getpid()}"})
    return os.getpid()
"""


SILENT = {"WARRENER_AGENT_ANNOUNCE_DELAY": "600", "WARRENER_AGENT_HEARTBEAT": "600"}
TALKATIVE = {"WARRENER_AGENT_ANNOUNCE_DELAY": "0", "WARRENER_AGENT_HEARTBEAT": "1"}


@pytest.mark.parametrize(
    ("ledger", "manners", "heartbeat"),
    [
        # Nobody knows that it runs: the broker misses the connection, and the other agent reports the loss.
        pytest.param("sqlite", SILENT, 3, id="by the broker"),
        # It fell silent: the supervisor makes another attempt before the broker misses the connection.
        pytest.param("postgres", TALKATIVE, 6, id="by the supervisor"),
    ],
)
def test_g3_what_a_thawed_agent_does_does_not_count(
    warren: Warren, request: pytest.FixtureRequest, *, ledger: str, manners: dict[str, str], heartbeat: int
) -> None:
    if ledger == "postgres":
        warren.ledger_url = request.getfixturevalue("postgres_url")
    warren.environment = {"WARRENER_AGENT_CLAIM_TTL": "2", **manners}
    (warren.folder / "noting.py").write_text(HANDLERS)
    make_gate(warren.folder / "gate")
    warren.start("scheduler")
    warren.start("supervisor", WARRENER_SUPERVISOR_AGENT_TIMEOUT="5")
    frozen = warren.start("agent", "noting", WARRENER_BROKER_URL=with_heartbeat(warren.broker_url, heartbeat))
    warren.wait_ready()

    with SyncClient(warren.broker_url) as client:
        job = client.request("note.write", {"text": "once", "wait": True})
        until(lambda: warren.lines("notes") == [f"begun 1 {pid(frozen)}"], "the first agent to run it")
        if manners is TALKATIVE:
            until(lambda: find_job(warren, job.job_id)[0].state is JobState.RUNNING, "it to be heard of")
        with locked(warren.folder / "ledger.db"), locked(warren.folder / "ledger.db-claims"):
            frozen.freeze()
        other = warren.start("agent", "noting")
        assert job.result(timeout=90) == pid(other), "another agent took over and finished"
        assert asyncio.run(effects_in(warren.ledger_url)) == [f"once {pid(other)}"]

        open_gate(warren.folder / "gate")
        frozen.signal(signal.SIGCONT)
        until(lambda: f"woken {pid(frozen)}" in warren.lines("notes"), "the thawed handler to go on")
        other.end()
        later = client.request("note.write", {"text": "later"})
        assert later.result(timeout=60) == pid(frozen), "it goes on working"

    assert frozen.end() == 0, "all that it had to say is said"
    effected = [f"once {pid(other)}", f"later {pid(frozen)}"]
    assert asyncio.run(effects_in(warren.ledger_url)) == effected, "what the thawed one did changed nothing"
    assert warren.lines("notes") == [
        f"begun 1 {pid(frozen)}",
        f"begun 2 {pid(other)}",
        f"woken {pid(frozen)}",
        f"begun 1 {pid(frozen)}",
    ]
    row, parked = find_job(warren, job.job_id)
    assert (row.attempt, row.losses, row.failures) == (2, 1, 0)
    assert row.result == pid(other)
    assert not parked


def pid(agent: ServiceProcess) -> int:
    return agent.process.pid
