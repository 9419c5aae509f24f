"""The ready-made workflows: a group of jobs, a chain of jobs, and what they say of a job that failed."""

from typing import Any

import pytest

from warrener_agent import Agent, Fail
from warrener_agent.canvas import ChainFailed, GroupFailed, canvas
from warrener_agent.testing import run_workflow
from warrener_agent.workflow_trial import WorkflowTrial
from warrener_agent.workflows.failures import JournalFull
from warrener_contracts.canvas import CHAIN, GROUP, MAX_MEMBERS

agent = Agent()
agent.include(canvas)


def add(x: int, y: int) -> int:
    return x + y


def divide(x: int, by: int) -> float:
    if by == 0:
        raise Fail("no number is divided by zero")
    return x / by


def total(numbers: list[int]) -> int:
    return sum(numbers)


JOBS: dict[str, Any] = {"math.add": add, "math.divide": divide, "math.total": total, "math.seven": lambda: 7}


def job(name: str, **arguments: Any) -> dict[str, Any]:
    return {"job_type": f"math.{name}", "arguments": arguments}


def group(*members: dict[str, Any], **arguments: Any) -> WorkflowTrial:
    return run_workflow(agent, GROUP, {"members": list(members), **arguments}, jobs=JOBS)


def chain(*steps: dict[str, Any]) -> WorkflowTrial:
    return run_workflow(agent, CHAIN, {"steps": list(steps)}, jobs=JOBS)


def test_a_group_counts_its_members_and_has_their_results_in_order() -> None:
    bad = job("divide", x=1, by=0) | {"key": "the second"}
    assert group().result == {"succeeded": 0, "failed": 0, "failures": [], "results": []}
    result = group(job("add", x=1, y=2), bad, job("seven"), in_flight=2).result
    [failure] = result.pop("failures")
    assert result == {"succeeded": 2, "failed": 1, "results": [3, None, 7]}
    assert failure["index"] == 1
    assert failure["key"] == "the second"
    assert failure["job_type"] == "math.divide"
    assert failure["state"] == "dead"
    assert failure["error"].endswith("Fail: no number is divided by zero")


def test_a_group_runs_so_many_at_once_and_names_the_first_hundred_failures() -> None:
    trial = run_workflow(agent, GROUP, {"members": [job("seven")] * 3, "in_flight": 2})
    assert trial.waits == ("job math.seven",) * 2
    trial.end_call("math.seven", 1)
    assert trial.waits == ("job math.seven",) * 2
    result = group(*[job("divide", x=1, by=0)] * 120, in_flight=120).result
    assert result["failed"] == 120
    assert [one["index"] for one in result["failures"]] == [*range(100)]


def test_the_job_behind_a_group_gets_the_results_once_all_have_succeeded() -> None:
    in_all = job("total") | {"result_argument": "numbers"}
    assert group(job("add", x=1, y=2), job("seven"), then=in_all).result == 10
    assert group(then=in_all).result == 0
    assert group(job("add", x=1, y=2), then=job("seven")).result == 7

    trial = group(job("seven"), job("divide", x=1, by=0), then=in_all)
    expected = (
        r"all 2 members to succeed before math\.total, 1 did not: members\.1 \(math\.divide\): job .* dead"
    )
    with pytest.raises(GroupFailed, match=expected):
        _ = trial.result
    assert [call.name for call in trial.calls] == ["math.seven", "math.divide"]
    with pytest.raises(GroupFailed, match=r"then \(math\.divide\): .*divided by zero"):
        _ = group(job("seven"), then=job("divide", by=0) | {"result_argument": "x"}).result


def test_a_step_of_a_chain_gets_the_result_of_the_one_before_if_it_names_an_argument_for_it() -> None:
    then_four = job("add", y=4) | {"result_argument": "x"}
    assert chain(job("add", x=2, y=2), then_four, then_four).result == 12
    assert chain(job("add", x=2, y=2), job("seven")).result == 7


def test_the_first_failure_ends_a_chain_and_its_error_names_the_step() -> None:
    trial = chain(job("seven"), job("divide", by=0) | {"result_argument": "x"}, job("seven"))
    with pytest.raises(
        ChainFailed, match=r"steps\.1 \(math\.divide\): expected math\.divide \(job .*divided by zero"
    ):
        _ = trial.result
    assert [call.name for call in trial.calls] == ["math.seven", "math.divide"]


def test_undos_and_options_of_a_job_stand_beside_it() -> None:
    undo = {"undo": job("subtract", x=1, y=2)}
    trial = chain(
        job("add", x=1, y=2) | undo | {"policy": {"max_attempts": 1}, "delay": "5s", "queue": "slow"}
    )
    assert trial.result == 3
    assert [(one.job_type, one.arguments) for one in trial.undos] == [("math.subtract", {"x": 1, "y": 2})]


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    (GROUP, {"members": [job("seven"), {"arguments": {}}]}, r"members\.1\.job_type"),
    (GROUP, {"members": [{"job_type": "math seven"}]}, r"members\.0\.job_type"),
    (GROUP, {"members": [job("seven") | {"result_argument": "x"}]}, r"members\.0\.result_argument"),
    (
        GROUP,
        {"members": [job("seven") | {"policy": {"max_attemps": 1}}]},
        r"members\.0\.policy: .*max_attemps",
    ),
    (GROUP, {"members": [job("seven"), job("seven") | {"key": "0"}]}, r"'0' for members\.0 and members\.1"),
    (GROUP, {"members": [job("seven")] * (MAX_MEMBERS + 1)}, "at most 1900 items"),
    (GROUP, {"members": [], "in_flight": 0}, "in_flight"),
    (CHAIN, {"steps": []}, "at least 1 item"),
    (CHAIN, {"steps": [job("seven") | {"result_argument": "x"}]}, r"no result_argument in steps\.0, got 'x'"),
    (CHAIN, {"steps": [job("seven"), job("add", x=1) | {"result_argument": "x"}]}, r"steps\.1: .*'x'"),
]


@pytest.mark.parametrize(("job_type", "arguments", "named"), MISTAKES)
def test_a_mistake_is_refused_by_its_place(job_type: str, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        run_workflow(agent, job_type, arguments)


def test_a_group_that_no_journal_can_hold_is_refused_before_its_first_job() -> None:
    long = {"job_type": "m" * 120, "undo": job("add", x="x" * 500)}
    with pytest.raises(JournalFull, match="at most 2000 calls"):
        _ = group(*[long] * MAX_MEMBERS).result
