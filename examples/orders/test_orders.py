"""The workflow of the order story, run by the test kit in virtual time."""

import pytest
from examples.orders.handlers import PATIENCE, agent

from warrener_agent import ChildJobFailed, Fail
from warrener_agent.testing import WorkflowTrial, run_workflow

JOBS: dict[str, object] = {
    "orders.reserve": None,
    "orders.charge": {"number": "R17", "cents": 4_900},
    "orders.ship": "P17",
}


def fulfil(cents: int, **jobs: object) -> WorkflowTrial:
    given = {"order": 17, "item": "lamp", "cents": cents}
    return run_workflow(agent, "orders.fulfil", given, jobs=JOBS | jobs)


def test_a_small_order_is_shipped_at_once() -> None:
    assert fulfil(4_900).result == {"receipt": "R17", "parcel": "P17", "approved_by": None}


def test_an_order_that_cannot_be_shipped_is_undone_newest_call_first() -> None:
    trial = fulfil(4_900, **{"orders.ship": Fail("the carrier takes no anvils")})
    with pytest.raises(ChildJobFailed, match="takes no anvils"):
        _ = trial.result
    assert [undo.job_type for undo in trial.undos] == ["orders.refund", "orders.release"]


def test_a_large_order_waits_for_an_approval() -> None:
    trial = fulfil(12_000)
    assert trial.waits[0] == "signal approval"
    trial.advance("2d")
    trial.send("approval", {"granted": True, "by": "Ada"})
    assert trial.result["approved_by"] == "Ada"


def test_a_large_order_that_is_refused_or_forgotten_is_not_shipped() -> None:
    refused, forgotten = fulfil(12_000), fulfil(12_000)
    refused.send("approval", {"granted": False, "by": "Ada"})
    forgotten.advance(PATIENCE)
    assert isinstance(refused.error, Fail)
    assert isinstance(forgotten.error, TimeoutError)
    for trial in (refused, forgotten):
        assert "job orders.ship" not in [f"{call.kind} {call.name}" for call in trial.calls]
