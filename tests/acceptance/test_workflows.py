"""Workflows on real processes, a real broker and SQLite: an agent is killed in a turn, and the supervisor at
the join. That they bear a crash at any call, is proved by `tests/simulation/test_workflows.py`."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.command_line import run_command, run_in
from tests.acceptance.store_queries import effects, make_effects, rows_of, state_of
from tests.acceptance.warren import ROOT, Warren, until
from tests.acceptance.workflow_handlers import PARTS

from warrener_client import JobDied, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_devservers import RabbitMQInstallation, ServerMissing

MODULE = "tests.acceptance.workflow_handlers"


def test_orders_survive_an_agent_killed_in_a_turn_and_a_supervisor_killed_at_the_join(warren: Warren) -> None:
    make_effects(warren)
    warren.start("scheduler")
    supervisor = warren.start("supervisor")
    first = warren.start("agent", MODULE, WAITS="yes")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        shipped, undone = (client.request("fulfil", {"order": order}) for order in (2, 3))
        until(lambda: {"turn-2", "turn-3"} <= files(warren), "both orders to be in their second turn")
        first.kill()
        warren.start("agent", MODULE)
        for job in (shipped, undone):
            until(partial(is_suspended, warren, job), "it to wait for its approval")
            run_command(warren, "send", str(job.job_id), "approved", "--data", "true")

        charges = {f"charging-{order}-{part}" for order in (2, 3) for part in range(PARTS)}
        until(lambda: charges <= files(warren), "all charges to run")
        supervisor.kill()
        (warren.folder / "join").touch()
        until(lambda: len(effects(warren)) == 2 + len(charges), "all charges to be written")
        warren.start("supervisor")
        assert shipped.result(timeout=90) == "P2"
        with pytest.raises(JobDied, match="the carrier takes no odd orders"):
            undone.result(timeout=90)

    written = effects(warren)
    assert set(Counter(written).values()) == {1}, "each effect happened once"
    of_undone = [note for note in written if note.startswith("3 ")]
    charged = {f"3 charged {part}" for part in range(PARTS)}
    assert set(of_undone[: 1 + PARTS]) == {"3 reserved", *charged}
    assert of_undone[1 + PARTS :] == ["3 refunded 2", "3 refunded 1", "3 refunded 0", "3 released"]
    assert sorted(note for note in written if note.startswith("2 ")) == sorted(
        ["2 reserved", "2 shipped", *(f"2 charged {part}" for part in range(PARTS))]
    )
    rows = rows_of(warren, [shipped.job_id, undone.job_id])
    assert all(row.failures == 0 for row in rows.values() if row.state is JobState.SUCCEEDED)
    assert "refund" in run_command(warren, "job", str(undone.job_id), "--journal")


def is_suspended(warren: Warren, job: SyncJob) -> bool:
    return state_of(warren, job.job_id) is JobState.SUSPENDED


def files(warren: Warren) -> set[str]:
    return {path.name for path in warren.folder.iterdir()}


def test_the_example_of_orders_runs_as_its_page_describes(tmp_path: Path) -> None:
    try:
        RabbitMQInstallation.of_this_machine()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    demo = run_in(tmp_path, "env", f"PYTHONPATH={ROOT}", "python", "-m", "examples.orders.demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "order 2: reserved, charged, refunded, released" in demo.stdout
