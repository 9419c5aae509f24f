"""The handle of one job."""

import asyncio
from typing import Any, TypeVar, overload
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from warrener_client.errors import (
    JobCancelled,
    JobDied,
    JobExpired,
    JobFailed,
    RequestRejected,
    ResultMismatch,
    ResultTimeout,
)
from warrener_client.pending_requests import PendingRequest
from warrener_client.reply_router import ReplyRouter
from warrener_contracts.events import JobFinishedData, JobRejectedData, JobWaitingData
from warrener_contracts.states import JobState

T = TypeVar("T")

_EXCEPTIONS: dict[JobState, type[JobFailed]] = {
    JobState.DEAD: JobDied,
    JobState.CANCELLED: JobCancelled,
    JobState.EXPIRED: JobExpired,
}


class Job:
    """A job that was asked for; the broker has the request safe. Several tasks may wait on one handle."""

    __slots__ = ("_pending", "_reply_router", "job_type")

    def __init__(self, job_type: str, pending: PendingRequest, reply_router: ReplyRouter) -> None:
        self.job_type = job_type
        self._pending = pending
        self._reply_router = reply_router

    def __repr__(self) -> str:
        return f"<Job {self.job_type} {self.job_id}>"

    @property
    def job_id(self) -> UUID:
        """Its id. Changes once where the idempotency key turns out to stand for an earlier job: then that
        one's."""
        return self._pending.job_id

    @property
    def deduplicated(self) -> bool:
        """Whether the idempotency key was used before, and this is the handle of the job that it stands
        for."""
        return self._pending.deduplicated

    @property
    def is_finished(self) -> bool:
        """Whether its end is known here; it may be over without our having heard."""
        return self._pending.answer is not None

    @property
    def waiting(self) -> JobWaitingData | None:
        """Why the job waits and since when, if its dispatch queue took no messages for some time; None once
        the job is over. It stays until then, also where the job runs by now."""
        return None if self.is_finished else self._pending.waiting

    async def outcome(self, *, timeout: float | None = None) -> JobFinishedData:
        """How it ended, whichever way. Raises JobRejected, ResultTimeout, ClientClosed."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._reply_router.wait(self._pending)
        except TimeoutError:
            raise ResultTimeout(self.job_id, timeout or 0) from None
        if isinstance(answer, JobRejectedData):
            raise RequestRejected(answer)
        return answer

    @overload
    async def result(self, *, timeout: float | None = None) -> Any: ...
    @overload
    async def result(self, *, as_: type[T], timeout: float | None = None) -> T: ...

    async def result(self, *, as_: Any = None, timeout: float | None = None) -> Any:
        """Its result as JSON data, or validated as `as_` (a model, a dataclass, any type that pydantic
        knows).

        Raises JobDead, JobCancelled or JobExpired (all of them JobFailed), JobRejected, ResultMismatch,
        ResultTimeout, ClientClosed. Giving up waiting does not stop the job.
        """
        return read_result(await self.outcome(timeout=timeout), as_)


def read_result(ended: JobFinishedData, as_: Any) -> Any:
    """The result of a job that is over; raises where it has none, or one of another shape."""
    if failed := _EXCEPTIONS.get(ended.state):
        raise failed(ended)
    if as_ is None:
        return ended.result
    try:
        return TypeAdapter[Any](as_).validate_python(ended.result)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultMismatch(
            ended.job_id, getattr(as_, "__name__", str(as_)), ended.result, f"{where}: {first['msg']}"
        ) from error
