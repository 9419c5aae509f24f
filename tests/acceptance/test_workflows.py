"""Workflows on real processes, a real broker and SQLite: an agent is killed in a turn, and the supervisor at
the join. That they bear a crash at any call, is proved by `tests/simulation/test_workflows.py`."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.command_line import call_command, run_command, run_in
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


def test_a_map_of_two_batches_survives_a_supervisor_killed_at_its_join(warren: Warren) -> None:
    orders = 510
    make_effects(warren)
    warren.start("scheduler")
    supervisor = warren.start("supervisor")
    warren.start("agent", MODULE, WARRENER_AGENT_SLOTS="600")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        mapped = client.request("charge_all", {"orders": orders})
        charges = {f"charging-{order}-0" for order in range(orders)}
        until(lambda: charges <= files(warren), "all charges to run")
        supervisor.kill()
        (warren.folder / "join").touch()
        until(lambda: len(effects(warren)) == orders, "all charges to be written")
        warren.start("supervisor")
        assert mapped.result(timeout=90) == [orders, 0]
    assert set(Counter(effects(warren)).values()) == {1}, "each effect happened once"
    assert "500" in run_command(warren, "job", str(mapped.job_id), "--journal")


def test_a_failed_call_of_a_held_workflow_is_requested_again_though_the_supervisor_is_killed(
    warren: Warren,
) -> None:
    make_effects(warren)
    warren.start("scheduler")
    supervisor = warren.start("supervisor")
    warren.start("agent", MODULE)
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        job = client.request("deliver_patiently", {"order": 4})
        until(lambda: any(row.is_held for row in rows_of(warren, [job.job_id]).values()), "it to be held")
        assert "deliver" in run_command(warren, "explain", str(job.job_id))
        refused = call_command(warren, "resume", str(job.job_id), "--retry", "reserve")
        assert (refused.returncode, "has succeeded" in refused.stderr) == (4, True), refused.stderr
        supervisor.kill()
        (warren.folder / "join").touch()
        run_command(warren, "resume", str(job.job_id), "--retry", "deliver", "--no-wait")
        warren.start("supervisor")
        assert job.result(timeout=90) == "D4"
    assert effects(warren) == ["4 reserved", "4 delivered"]


def is_suspended(warren: Warren, job: SyncJob) -> bool:
    return state_of(warren, job.job_id) is JobState.SUSPENDED


def files(warren: Warren) -> set[str]:
    return {path.name for path in warren.folder.iterdir()}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("example", "line"),
    [
        ("orders", "order 2: reserved, charged, refunded, released"),
        ("export", "Nothing was lost, and no row is there twice."),
    ],
)
def test_an_example_runs_as_its_page_describes(example: str, line: str, tmp_path: Path) -> None:
    try:
        RabbitMQInstallation.of_this_machine()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    command = ("env", f"PYTHONPATH={ROOT}", "python", "-m", f"examples.{example}.demo")
    demo = run_in(tmp_path, *command, timeout=380)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert line in demo.stdout
