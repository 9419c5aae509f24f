"""Point 7 of supervision, on real processes and a real broker: what a handler has saved, its next attempt
finds."""

import pytest
from tests.acceptance.store_queries import look
from tests.acceptance.warren import QUICK_LOSSES, Warren, until
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_client import SyncClient

MODULE = "tests.acceptance.steered_handlers"


def test_7_a_failed_attempt_and_a_killed_agent_leave_the_last_checkpoint_to_the_next(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    warren.environment = QUICK_LOSSES
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

        killed = client.request("rests")
        saved = lambda: look(warren, lambda store: store.checkpoints_of([killed.job_id]))  # noqa: E731
        until(saved, "the checkpoint to be in the store")
        shown = CliRunner().invoke(app, ["job", str(killed.job_id), "--store", warren.store_url])
        assert '{"rows": 512}' in shown.stdout
        warren.services[-1].kill()
        warren.start("agent", MODULE)
        assert killed.result(timeout=60)["found"] == {"rows": 512}
