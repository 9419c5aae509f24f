"""Each service is upgraded by itself, and taken back: every combination of this release and the one before it
works together, under load of clients of both, while one service after another is rolled."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from infra.store.tests.raw_sql import run_sql
from tests.acceptance.store_queries import effects, job_types_of, make_effects, parked_in
from tests.acceptance.upgrade_load import EXPECTED, request_round, wrong_ends
from tests.acceptance.warren import ROOT, ServiceProcess, Warren, until
from tests.servers.kinds import PostgresServer
from tests.store_access import opened_store

from warrener_client import SyncClient
from warrener_store.jobs.rules import CANCEL_MARK

PREVIOUS = os.environ.get("WARRENER_TEST_PREVIOUS", "")
"""The Python of an environment with the previous release, as infra/setup/previous-release prints it."""
HANDLERS = "tests.acceptance.upgrade_handlers"
ROLES = ("scheduler", "supervisor", "agent")
WALK = ("agent", "supervisor", "agent", "scheduler", "agent", "supervisor", "agent", "scheduler")
"""The role that each step moves to the other release: a Gray code, through all 8 combinations and back."""
ROUNDS = 2
_ORDERS = 8

pytestmark = [
    pytest.mark.skipif(not PREVIOUS, reason="rolls the previous release's wheels: make test-upgrade"),
    pytest.mark.timeout(900),
]


class Rolling:
    """One process for each role, of either release."""

    def __init__(self, warren: Warren) -> None:
        self._warren = warren
        self._new: dict[str, bool] = dict.fromkeys(ROLES, False)
        self._running: dict[str, ServiceProcess] = {}
        self.combinations: set[tuple[bool, ...]] = set()

    def start(self, role: str) -> ServiceProcess:
        """Start the role's current release."""
        arguments = (HANDLERS, "--slots", "20") if role == "agent" else ()
        python = None if self._new[role] else PREVIOUS
        return self._warren.start(role, *arguments, python=python, WARRENER_SHUTDOWN_TIMEOUT="20")

    def start_all(self) -> None:
        """Start all roles, in the previous release, and wait until the scheduler knows the job types: that
        release refuses a client's request of a type that comes before its announcement.
        """
        self._running = {role: self.start(role) for role in ROLES}
        self._settle()
        until(lambda: set(job_types_of(self._warren)) >= set(EXPECTED), "the job types to be announced")

    def roll(self, role: str) -> None:
        """Move one role to the other release: the new process starts first, then the old one drains."""
        before, self._new[role] = self._running[role], not self._new[role]
        self._running[role] = self.start(role)
        self._warren.wait_ready()
        assert before.end() == 0, before.log_text()
        self._settle()

    def _settle(self) -> None:
        self._warren.wait_ready()
        self.combinations.add(tuple(self._new.values()))


@contextmanager
def clients_under_load(warren: Warren) -> Generator[Callable[[], list[dict[str, Any]]]]:
    """A client of each release requests jobs; what it yields ends them and returns what each reports."""
    environment = warren.settings(0)
    command = ["-m", "tests.acceptance.upgrade_load", str(warren.folder)]
    clients = [
        subprocess.Popen([python, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for python in (PREVIOUS, sys.executable)
    ]

    def end() -> list[dict[str, Any]]:
        (warren.folder / "stop").touch()
        return [json.loads(client.communicate(timeout=300)[0]) for client in clients]

    try:
        yield end
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def test_20_each_service_rolls_up_and_down_beside_neighbours_of_either_release(
    warren: Warren, postgres_store_url: str
) -> None:
    warren.store_url = warren.ledger_url = postgres_store_url
    asyncio.run(run_sql(warren.store_url, "CREATE TABLE effects (note text PRIMARY KEY)"))
    rolling, requested = Rolling(warren), Counter[str]()
    rolling.start_all()
    with clients_under_load(warren) as end_load, SyncClient(warren.broker_url) as client:
        for role in (*WALK, None):
            jobs = [job for _ in range(ROUNDS) for job in request_round(client)]
            assert wrong_ends(jobs) == []
            requested.update(job.job_type for job in jobs)
            if role is not None:
                rolling.roll(role)
        for report in end_load():
            assert report["wrong"] == []
            requested.update(report["jobs"])
    assert len(rolling.combinations) == 2 ** len(ROLES)
    asyncio.run(check_store(warren.store_url, requested))


def test_20_a_workflow_beside_an_older_supervisor_goes_on_once_that_is_gone(warren: Warren) -> None:
    """An older supervisor parks the reports of turns that it receives. It must be gone before the first
    workflow; where it was not, the newer one puts back what it has parked."""
    make_effects(warren)
    older = warren.start("supervisor", python=PREVIOUS)
    warren.start("scheduler")
    warren.start("supervisor")
    warren.start("agent", "tests.acceptance.workflow_handlers")
    warren.wait_ready()
    (warren.folder / "join").touch()
    orders = range(2, 2 + 2 * _ORDERS, 2)
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request("fulfil", {"order": order}) for order in orders]
        for job in jobs:
            client.send_signal(job.job_id, "approved", data=True)
        until(lambda: parked_in(warren), "the older supervisor to park what it cannot read")
        assert older.end() == 0, older.log_text()
        assert [job.result(timeout=120) for job in jobs] == [f"P{order}" for order in orders]
    assert set(Counter(effects(warren)).values()) == {1}, "each effect happened once"


def test_20_no_schema_that_the_previous_release_had_was_edited() -> None:
    schemas = "infra/store/src/warrener_store/migrations/schemas"
    release = Path(PREVIOUS).parents[2].name  # the folder of its environment has the name of its revision
    for path in git("ls-tree", "-r", "--name-only", release, schemas).splitlines():
        assert (ROOT / path).read_text("utf-8") == git("show", f"{release}:{path}"), f"{path} is released"


def test_20_the_tables_that_the_previous_release_made_are_taken_over(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """The other way round its services run on our tables, as the story above shows."""
    for url in (f"sqlite:///{tmp_path}/theirs.db", postgres.add_database("theirs")):
        for python in (PREVIOUS, sys.executable, sys.executable):
            command = [python, "-m", "warrener_store", "migrate", url]
            subprocess.run(command, cwd=tmp_path, check=True, timeout=60)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


async def check_store(url: str, requested: Counter[str]) -> None:
    """Each job has the end of its kind, effects were written once, and nothing is parked."""
    ends = Counter[tuple[str, str]]()
    async with opened_store(url) as store:
        for row in await store.count_jobs():
            # A cancel that overtakes its request makes the job, whose type it does not know.
            kind = "upgrade.endless" if row.job_type == CANCEL_MARK else row.job_type
            ends[kind, row.state.value] += row.jobs
        parked = await store.parked()
    assert +ends == {(kind, EXPECTED[kind]): jobs for kind, jobs in requested.items()}
    assert parked == []
    ((written,),) = await run_sql(url, "SELECT count(*) FROM effects")
    assert written == requested["upgrade.written"]
