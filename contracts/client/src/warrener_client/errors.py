"""What the client raises.

ClientError
├── BadRequest              the request cannot be sent as it is
│   └── RequestTooLarge     its body is over the limit
├── NotConfirmed            no confirm came in time: ask again with the same id
├── Unroutable              nothing keeps requests on this broker, and it could not be made
├── ClientClosed            the client was closed, or never started
├── JobRejected             the request was refused, with the reason
├── JobFailed               the job is over without a result
│   ├── JobDead             its attempts are used up, or no retry can mend it
│   ├── JobCancelled
│   └── JobExpired          its deadline passed
├── ResultMismatch          there is a result, of another shape than was expected
└── ResultTimeout           the caller waited long enough; the job goes on
"""

from typing import Any
from uuid import UUID

from warrener_contracts.events import ErrorInfo, JobFinishedData, JobRejectedData, Reason
from warrener_contracts.states import JobState


class ClientError(Exception):
    """The root of what the client raises."""


class BadRequest(ClientError):
    """The request cannot be sent as it is; nothing was sent."""


class RequestTooLarge(BadRequest):
    """The body is over the limit of the wire; nothing was sent."""

    def __init__(self, job_type: str, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"expected a request of at most {limit} bytes, got {size} for {job_type}: "
            "put the data elsewhere and send its URL"
        )


class NotConfirmed(ClientError):
    """The broker did not confirm in time. It may or may not have the request: ask again with the same id,
    which never makes a second job."""

    def __init__(self, job_id: UUID, others: int, seconds: float) -> None:
        self.job_id = job_id
        more = f" and {others} more" if others else ""
        super().__init__(
            f"expected the broker's confirm for job {job_id}{more} within {seconds:g} s, got none: "
            "ask again with the same id (a repeat never makes a second job)"
        )


class RequestUnroutable(ClientError):
    """The broker has no queue for requests, even after it was declared again."""


class ClientClosed(ClientError):
    """The client is not open (any more)."""


class RequestRejected(ClientError):
    """The request was refused; no job exists for it unless it existed before."""

    def __init__(self, data: JobRejectedData) -> None:
        self.job_id, self.job_type = data.job_id, data.job_type
        self.reason: Reason = data.reason
        self.detail = data.detail
        super().__init__(
            f"{data.job_type or 'request'} {data.request_id} was rejected ({data.reason}): {data.detail}"
        )


class JobFailed(ClientError):
    """The job is over and has no result. `error` is that of its last attempt, where there was one; `reason`
    says why a job was cancelled."""

    def __init__(self, data: JobFinishedData) -> None:
        self.job_id: UUID = data.job_id
        self.job_type: str = data.job_type
        self.state: JobState = data.state
        self.attempt: int = data.attempt
        self.error: ErrorInfo | None = data.error
        self.reason: str | None = data.reason
        super().__init__(self._sentence(data))

    @property
    def kind(self) -> str | None:
        """What kind of failure it was."""
        return self.error.kind.value if self.error else None

    @property
    def message(self) -> str | None:
        """The message of the failure."""
        return self.error.message if self.error else None

    @property
    def stack(self) -> str | None:
        """Where it was raised, as text."""
        return self.error.stack if self.error else None

    @staticmethod
    def _sentence(data: JobFinishedData) -> str:
        summary = f"{data.job_type} {data.job_id} is {data.state.value} after attempt {data.attempt}"
        if data.reason is not None:
            return f"{summary}: {data.reason}"
        return f"{summary}: {data.error.type}: {data.error.message}" if data.error else summary


class JobDied(JobFailed):
    """Its attempts are used up, or it met an error that no retry can mend."""


class JobCancelled(JobFailed):
    """Somebody asked to cancel it, or its handler has ended it itself."""


class JobExpired(JobFailed):
    """Its deadline passed before it could finish."""


class ResultMismatch(ClientError):
    """The job succeeded; its result is not what `as_` asks for."""

    def __init__(self, job_id: UUID, expected: str, result: Any, why: str) -> None:
        self.job_id, self.result = job_id, result
        super().__init__(f"expected {expected} as the result of job {job_id}, got another shape: {why}")


class ResultTimeout(ClientError, TimeoutError):
    """The caller waited long enough. The job goes on; wait again, or look it up by its id."""

    def __init__(self, job_id: UUID, seconds: float) -> None:
        self.job_id = job_id
        super().__init__(f"expected job {job_id} to be over within {seconds:g} s, and it is not: it goes on")
