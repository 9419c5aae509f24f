"""Errors of workflows: those that a body sees, and those that end a turn."""

from collections.abc import Iterator
from typing import cast

from warrener_agent.failures import Fail
from warrener_contracts.events import Call, ErrorInfo
from warrener_contracts.state_machine import JobState


class WorkflowError(Exception):
    """A workflow does what it cannot do, or its journal does not fit it."""


class ChildJobFailed(Fail, WorkflowError):
    """The child job of a call did not succeed. A workflow that it leaves ends with it: no retry of the
    workflow can mend the child."""

    def __init__(self, state: JobState | None, error: ErrorInfo | None, call: Call) -> None:
        self.state, self.error, self.job_type, self.job_id = state, error, call.name, call.job_id
        job = f"{call.name} (job {call.job_id})" if call.job_id else call.name
        why = "" if error is None else f": {error.type}: {error.message}"
        if state is JobState.SUCCEEDED:
            super().__init__(f"expected a result of {job} that a call can return{why}")
        else:
            super().__init__(f"expected {job} to succeed, it ended {state or 'without a result'}{why}")


class StepFailed(Fail, WorkflowError):
    """A step raised. Its failure is in the journal, so a retry of the workflow would find it there again."""

    def __init__(self, name: str, error: ErrorInfo, tries: int = 1) -> None:
        self.name, self.error, self.tries = name, error, tries
        times = f" {tries} times, at last" if tries > 1 else ""
        super().__init__(f"expected step {name} to return, it raised{times} {error.type}: {error.message}")


class JournalFull(Fail, WorkflowError):
    """A workflow has made more, or larger, calls than its journal and its messages may hold."""


class BadCall(WorkflowError, TypeError, ValueError):
    """The body has given a method of its workflow what cannot be: it would do so again in each attempt."""


class CodeChanged(WorkflowError):
    """The code does not fit the journal that an earlier version of it has written.

    The job goes on once a release fits again.
    """


class ResultReferred(WorkflowError):
    """The body awaits a result that it reads in pages: the journal has none of it."""


class Deadlock(WorkflowError):
    """A workflow waits for nothing that can come."""


def needs_other_code(error: BaseException) -> bool:
    """True if the body does what no workflow can do, or does not fit its journal.

    Each attempt would find the same: the job waits for a release that goes on, and nothing is undone.
    """
    return any(isinstance(one, WorkflowError) and not isinstance(one, Fail) for one in _leaves(error))


def ends_workflow(error: BaseException) -> bool:
    """True if a workflow that raised `error` is not retried: what it waited for has failed, or came too
    late."""
    return all(isinstance(one, Fail | TimeoutError) for one in _leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for one in group.exceptions:
            yield from _leaves(one)
    else:
        yield error


for _error in (WorkflowError, ChildJobFailed, StepFailed, JournalFull):
    _error.__module__ = "warrener_agent"  # whence they are imported: the name that operators read
