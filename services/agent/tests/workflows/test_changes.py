"""Changed code: running workflows keep their way where they came past it, and take the new one elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
from services.agent.tests.workflows.turns import Turns, succeeded

from warrener_agent import Agent, Workflow
from warrener_agent.testing import replay, run_workflow
from warrener_agent.workflows import turn
from warrener_agent.workflows.failures import CodeChanged
from warrener_contracts.events import CallKind


async def _pack_then_ship(flow: Workflow) -> str:
    await flow.call("pack")
    return str(await flow.call("ship"))


async def _weigh_or_pack(flow: Workflow) -> str:
    await flow.call("weigh" if flow.changed("weigh") else "pack")
    return str(await flow.call("ship"))


async def _only_weigh(flow: Workflow) -> str:
    await flow.call("weigh")
    return str(await flow.call("ship"))


def _names(turns: Turns) -> list[str]:
    return [call.name for call in turns.calls if call.kind is not CallKind.MARKER]


def test_an_old_journal_goes_on_in_the_old_way_and_a_new_one_takes_the_new_way() -> None:
    old = Turns(_pack_then_ship)
    old.body = _weigh_or_pack
    old.go(succeeded(old.calls[0]))
    old.go(succeeded(old.calls[1], "old"))
    assert (old.value, _names(old)) == ("old", ["pack", "ship"])
    assert not [call for call in old.calls if call.kind is CallKind.MARKER]

    new = Turns(_weigh_or_pack)
    new.go(succeeded(new.calls[-1]))
    new.go(succeeded(new.calls[-1], "new"))
    assert (new.value, _names(new)) == ("new", ["weigh", "ship"])
    (marker,) = (call for call in new.calls if call.kind is CallKind.MARKER)
    assert (marker.name, marker.line) == ("weigh", f"test_changes.py:{_line(_weigh_or_pack, 1)}")
    assert marker.call_id not in [call.call_id for call in new.calls if call is not marker]


def test_a_change_behind_the_end_of_the_journal_reaches_a_running_workflow() -> None:
    async def insure_or_not(flow: Workflow) -> str:
        await flow.call("pack")
        if flow.changed("insure"):
            await flow.call("insure")
        return str(await flow.call("ship"))

    running, past = Turns(_pack_then_ship), Turns(_pack_then_ship)
    past.go(succeeded(past.calls[0]))
    for turns, calls in ((running, ["pack", "insure"]), (past, ["pack", "ship"])):
        turns.body = insure_or_not
        turns.go(succeeded(turns.calls[-1], "sent"))
        assert _names(turns) == calls
    assert past.value == "sent"


def test_a_loop_keeps_its_way() -> None:
    async def before(flow: Workflow) -> int:
        for _ in range(4):
            await flow.call("pack")
        return 0

    async def now(flow: Workflow) -> int:
        seen = list[bool]()
        for _ in range(4):
            seen.append(flow.changed("weigh"))
            await flow.call("weigh" if seen[-1] else "pack")
        return sum(seen)

    for body, name, ways in ((before, "pack", 0), (now, "weigh", 4)):
        turns = Turns(body)
        turns.go(succeeded(turns.calls[-1]))
        turns.body = now
        for _ in range(3):
            turns.go(succeeded(turns.calls[-1]))
        assert (turns.value, _names(turns)) == (ways, [name] * 4)
    assert len(turns.calls) == 5, "one marker for all rounds"


def test_when_no_job_takes_the_old_way_the_question_may_go() -> None:
    turns = Turns(_weigh_or_pack)
    turns.body = _only_weigh
    turns.go(succeeded(turns.calls[-1]))
    assert _names(turns) == ["weigh", "ship"]

    turns.body = _pack_then_ship  # a release that was taken back
    turns.go(succeeded(turns.calls[-1]))
    assert isinstance(turns.error, CodeChanged)
    assert "flow.changed" in str(turns.error)


def test_a_question_at_the_end_of_a_turn_is_not_recorded() -> None:
    async def body(flow: Workflow) -> None:
        try:
            await flow.receive("go")
        finally:
            flow.changed("weigh")

    turns = Turns(body)
    assert isinstance(turns.end, turn.TurnSuspended)
    assert (_names(turns), len(turns.calls), turns.end.last_calls) == (["go"], 1, ())


@pytest.mark.parametrize("name", ["", "x" * 101, "\ud800"])
def test_a_name_that_no_journal_can_have_is_refused(name: str) -> None:
    async def body(flow: Workflow) -> None:
        flow.changed(name)

    assert isinstance(Turns(body).error, ValueError)


def test_the_kit_replays_old_journals_and_leaves_markers_out() -> None:
    before, now = Agent(), Agent()
    before.workflow("parcels.send")(_pack_then_ship)
    now.workflow("parcels.send")(_weigh_or_pack)
    for agent, first in ((before, "pack"), (now, "weigh")):
        trial = run_workflow(agent, "parcels.send", jobs={first: None})
        assert [call.name for call in trial.calls] == [first, "ship"]
        assert trial.waits == ("job ship",)
        printed: dict[str, Any] = {
            "job_id": "0192f0c1-2345-7000-8000-000000000001",
            "job_type": "parcels.send",
            "arguments": {},
            "requested_at": "2026-01-01T00:00:00Z",
            **trial.journal.model_dump(mode="json"),
        }
        assert replay(now, printed) == ("job ship",)


def _line(body: Callable[..., Any], number: int) -> int:
    return body.__code__.co_firstlineno + number
