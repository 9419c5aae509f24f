"""Two ready-made workflows for those who publish from any language: a group of jobs, and a chain of jobs.

`agent.include(canvas)` serves them, and so does `warrener_agent.canvas` as one of the modules of an agent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from warrener_agent.agent import Agent
from warrener_agent.failures import Fail
from warrener_agent.workflows.calls import CallFuture
from warrener_agent.workflows.failures import ChildJobFailed
from warrener_agent.workflows.workflow import MapFailure, Workflow, run_calls
from warrener_contracts import canvas as contract

canvas = Agent()

_MAX_NAMED = 3  # failed members in an error
_MAX_ERROR = 500  # characters of an error in the result


class GroupFailed(Fail):
    """Members of a group did not succeed, so the job behind it does not run; or that job failed."""


class ChainFailed(Fail):
    """A step of a chain did not succeed, so the steps behind it do not run."""


@canvas.workflow(contract.GROUP)
async def group(
    flow: Workflow,
    members: contract.Members,
    in_flight: contract.InFlight = 50,
    then: contract.ChainStep | None = None,
) -> Any:
    """Run jobs, `in_flight` of them at once, and wait for all.

    The result has counts, the first 100 failures, and the results in the order of the members. With `then`
    the result is that of this job, which runs if all members have succeeded.
    """
    keys = contract.member_keys(members)
    ended = await run_calls(keys, lambda n: _call(flow, members[n], members[n].arguments, keys[n]), in_flight)
    failures = [_failed_member(members, one) for one in ended.failed]
    if then is None:
        return contract.GroupResult(
            succeeded=ended.succeeded,
            failed=len(failures),
            failures=tuple(failures[: contract.MAX_FAILURES]),
            results=tuple(ended.results),
        )
    if failures:
        raise GroupFailed(
            f"expected all {len(members)} members to succeed before {then.job_type}, {len(failures)} did "
            f"not: {_described(failures)}"
        )
    try:
        return await _call(flow, then, _with_result(then, ended.results))
    except ChildJobFailed as failed:
        raise GroupFailed(f"then ({then.job_type}): {failed}") from failed


@canvas.workflow(contract.CHAIN)
async def chain(flow: Workflow, steps: contract.Steps) -> Any:
    """Run jobs one after another, each with the result of the one before if it names an argument for it.

    The result is that of the last one. The first that does not succeed ends the chain.
    """
    result: Any = None
    for index, step in enumerate(steps):
        try:
            result = await _call(flow, step, _with_result(step, result))
        except ChildJobFailed as failed:
            raise ChainFailed(f"steps.{index} ({step.job_type}): {failed}") from failed
    return result


def _call(
    flow: Workflow, job: contract.CanvasCall, arguments: Mapping[str, Any], key: str | None = None
) -> CallFuture[Any]:
    caller = flow.options(key=key, queue=job.queue, delay=job.delay, policy=job.policy)
    if job.undo is not None:
        caller = caller.undo(job.undo.job_type, job.undo.arguments)
    return caller.call(job.job_type, arguments)


def _with_result(step: contract.ChainStep, result: Any) -> dict[str, Any]:
    return step.arguments | ({} if step.result_argument is None else {step.result_argument: result})


def _failed_member(members: Sequence[contract.GroupMember], failure: MapFailure) -> contract.FailedMember:
    error = failure.error.error
    return contract.FailedMember(
        index=failure.index,
        key=members[failure.index].key,
        job_type=failure.error.job_type,
        job_id=failure.error.job_id,
        state=failure.error.state,
        error="" if error is None else f"{error.type}: {error.message}"[:_MAX_ERROR],
    )


def _described(failures: Sequence[contract.FailedMember]) -> str:
    return "; ".join(
        f"members.{one.index} ({one.job_type}): job {one.job_id} ended {one.state}: {one.error}"
        for one in failures[:_MAX_NAMED]
    )
