"""The handle of one requested job."""

import asyncio
from typing import Any, TypeVar, overload
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from warrener_client import errors
from warrener_client.replies import PendingRequest, ReplyRouter
from warrener_contracts.events import JobFinishedData, JobRejectedData, JobWaitingData
from warrener_contracts.state_machine import JobState

T = TypeVar("T")

_EXCEPTIONS: dict[JobState, type[errors.JobFailed]] = {
    JobState.DEAD: errors.JobDied,
    JobState.CANCELLED: errors.JobCancelled,
    JobState.EXPIRED: errors.JobExpired,
}


class Job:
    """A requested job; the broker has confirmed the request. Several tasks may wait on one handle."""

    __slots__ = ("_pending", "_reply_router", "job_type")

    def __init__(self, job_type: str, pending: PendingRequest, reply_router: ReplyRouter) -> None:
        self.job_type = job_type
        self._pending = pending
        self._reply_router = reply_router

    def __repr__(self) -> str:
        return f"<Job {self.job_type} {self.job_id}>"

    @property
    def job_id(self) -> UUID:
        """The job's id. If the idempotency key stands for an earlier job, it changes to that job's id."""
        return self._pending.job_id

    @property
    def deduplicated(self) -> bool:
        """True if the idempotency key was used before: this handle is then that of the earlier job."""
        return self._pending.deduplicated

    @property
    def is_finished(self) -> bool:
        """True if the client knows the job's end; the reply may still be on its way."""
        return self._pending.answer is not None

    @property
    def waiting(self) -> JobWaitingData | None:
        """The reason and start of its wait, if its dispatch queue refused messages.

        The value stays while the job runs; None once the job has ended.
        """
        return None if self.is_finished else self._pending.waiting

    async def outcome(self, *, timeout: float | None = None) -> JobFinishedData:
        """Wait for the end of the job. Raises RequestRejected, ResultTimeout, ResultUnreadable,
        ClientClosed."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._reply_router.wait(self._pending)
        except TimeoutError:
            raise errors.ResultTimeout(self.job_id, timeout or 0) from None
        if isinstance(answer, JobRejectedData):
            raise errors.RequestRejected(answer)
        return self._reply_router.opened(answer)

    @overload
    async def result(self, *, timeout: float | None = None) -> Any: ...
    @overload
    async def result(self, *, as_: type[T], timeout: float | None = None) -> T: ...

    async def result(self, *, as_: Any = None, timeout: float | None = None) -> Any:
        """Wait for the result: JSON data, or validated as `as_` (any type that pydantic knows).

        Raises JobDied, JobCancelled or JobExpired (all of them JobFailed), RequestRejected, ResultMismatch,
        ResultTimeout, ClientClosed. A timeout does not stop the job.
        """
        return read_result(await self.outcome(timeout=timeout), as_)


def read_result(ended: JobFinishedData, as_: Any) -> Any:
    """The result of an ended job; raises if it has none, or one of another shape."""
    if failed := _EXCEPTIONS.get(ended.state):
        raise failed(ended)
    if as_ is None:
        return ended.result
    try:
        return TypeAdapter[Any](as_).validate_python(ended.result)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise errors.ResultMismatch(
            ended.job_id, getattr(as_, "__name__", str(as_)), ended.result, f"{where}: {first['msg']}"
        ) from error
