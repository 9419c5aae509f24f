"""Point 7 of supervision, on real processes and a real broker: what a handler has saved, its next attempt
finds."""

from uuid import UUID

import pytest
from tests.acceptance.store_queries import look, rows_of
from tests.acceptance.warren import Warren, until
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.views import CheckpointRow

MODULE = "tests.acceptance.steered_handlers"


def checkpoint(warren: Warren, job_id: UUID) -> CheckpointRow | None:
    return look(warren, lambda store: store.checkpoints_of([job_id])).get(job_id)


def test_7_a_failed_attempt_leaves_its_last_checkpoint_to_the_next_whatever_runs_it(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        jobs = {where: client.request(f"climbs.{where}") for where in ("coroutine", "thread", "process")}
        hoards = client.request("hoards")
        for where, job in jobs.items():
            with subtests.test(where):
                assert job.result(timeout=60) == {"step": 3, "found_by": [1, 2, 3]}
        size, kind, unportable = hoards.result(timeout=60)
        assert size.startswith("expected a checkpoint of at most 16384 bytes of JSON, got 20002")
        assert "written as JSON, got object" in kind
        assert "U+0000" in unportable


def test_7_a_checkpoint_survives_the_kill_of_its_agent(warren: Warren) -> None:
    manners = {
        "WARRENER_AGENT_CLAIM_TTL": "2",
        "WARRENER_AGENT_HEARTBEAT": "1",
        "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "5",
    }
    warren.environment = manners
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("rests")
        until(lambda: checkpoint(warren, job.job_id), "the checkpoint to be in the store")
        shown = CliRunner().invoke(app, ["job", str(job.job_id), "--store", warren.store_url])
        assert '{"rows": 512}' in shown.stdout
        warren.services[-1].kill()
        warren.start("agent", MODULE)
        assert job.result(timeout=60)["found"] == {"rows": 512}


def test_7_an_agent_with_a_ledger_of_its_own_finds_it_with_the_dispatch(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("moves")

        def retrying() -> bool:
            row = rows_of(warren, [job.job_id]).get(job.job_id)
            return row is not None and row.state is JobState.RETRYING

        until(retrying, "the first attempt to have failed")
        assert warren.services[-1].end() == 0
        warren.start("agent", MODULE, WARRENER_LEDGER_URL=f"sqlite:///{warren.folder}/elsewhere.db")
        assert job.result(timeout=60) == "half way"
