"""Two ready-made workflows for those who publish from any language: a group of jobs, and a chain of jobs.

`agent.include(canvas)` serves them, and so does `warrener_agent.canvas` as one of the modules of an agent.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from warrener_agent.agent import Agent
from warrener_agent.failures import Fail
from warrener_agent.workflows.calls import CallFuture
from warrener_agent.workflows.failures import ChildJobFailed
from warrener_agent.workflows.workflow import Workflow
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
    ends = await _run_members(flow, members, in_flight)
    failures = [
        _failed_member(index, members[index].key, end)
        for index, end in enumerate(ends)
        if isinstance(end, ChildJobFailed)
    ]
    results = [None if isinstance(end, ChildJobFailed) else end for end in ends]
    if then is None:
        return contract.GroupResult(
            succeeded=len(members) - len(failures),
            failed=len(failures),
            failures=tuple(failures[: contract.MAX_FAILURES]),
            results=tuple(results),
        )
    if failures:
        raise GroupFailed(
            f"expected all {len(members)} members to succeed before {then.job_type}, {len(failures)} did "
            f"not: {_described(failures)}"
        )
    try:
        return await _call(flow, then, _with_result(then, results))
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


async def _run_members(
    flow: Workflow, members: tuple[contract.GroupMember, ...], in_flight: int
) -> list[Any]:
    """Call the jobs of a group, `in_flight` at once, and return their results, or ChildJobFailed. Each has a
    type and options of its own, and perhaps an undo, so each is a call."""
    room, calls = asyncio.Semaphore(in_flight), list[CallFuture[Any]]()
    for member, key in zip(members, contract.member_keys(members), strict=True):
        await room.acquire()
        calls.append(_call(flow, member, member.arguments, key))
        if len(calls) == 1:
            calls[0].reserve(len(members))
        calls[-1].add_done_callback(lambda _: room.release())
    ends = await asyncio.gather(*calls, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, ChildJobFailed):
            raise end
    return ends


def _call(
    flow: Workflow, job: contract.CanvasCall, arguments: Mapping[str, Any], key: str | None = None
) -> CallFuture[Any]:
    caller = flow.options(key=key, queue=job.queue, delay=job.delay, policy=job.policy)
    if job.undo is not None:
        caller = caller.undo(job.undo.job_type, job.undo.arguments)
    return caller.call(job.job_type, arguments)


def _with_result(step: contract.ChainStep, result: Any) -> dict[str, Any]:
    return step.arguments | ({} if step.result_argument is None else {step.result_argument: result})


def _failed_member(index: int, key: str | None, failure: ChildJobFailed) -> contract.FailedMember:
    error = failure.error
    return contract.FailedMember(
        index=index,
        key=key,
        job_type=failure.job_type,
        job_id=failure.job_id,
        state=failure.state,
        error="" if error is None else f"{error.type}: {error.message}"[:_MAX_ERROR],
    )


def _described(failures: Sequence[contract.FailedMember]) -> str:
    return "; ".join(
        f"members.{one.index} ({one.job_type}): job {one.job_id} ended {one.state}: {one.error}"
        for one in failures[:_MAX_NAMED]
    )
