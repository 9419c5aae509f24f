"""The exceptions of the client.

ClientError
├── BadRequest              the request cannot be sent as it is
│   └── RequestTooLarge     its body is over the limit
├── NotConnected            the broker does not answer in time; nothing was sent
├── NotConfirmed            no confirm came in time: repeat the request with the same id
├── RequestUnroutable       the broker has no queue for requests, and the client could not declare it
├── ClientClosed            the client was closed, or never started
├── CommandRefused          a service refuses the command; nothing was changed
├── CommandTimeout          no service has carried it out in time; the broker has stored it
├── RequestRejected         the request was refused, with the reason
├── JobFailed               the job has ended without a result
│   ├── JobDied             its attempts are used up, or no retry can mend its error
│   ├── JobCancelled
│   └── JobExpired          its deadline passed
├── ResultMismatch          the result has another shape than expected
├── ResultUnreadable        the result is encrypted, and the client cannot decrypt it
└── ResultTimeout           the caller's timeout is over; the job goes on
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from warrener_contracts.events import ErrorInfo, JobFinishedData, JobRejectedData, Reason
from warrener_contracts.state_machine import JobState


class ClientError(Exception):
    """The base of the client's exceptions."""


class BadRequest(ClientError):
    """The request is not valid; nothing was sent."""


class RequestTooLarge(BadRequest):
    """The body exceeds the limit of the wire; nothing was sent."""

    def __init__(self, job_type: str, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"expected a request of at most {limit} bytes, got {size} for {job_type}: "
            "put the data elsewhere and send its URL"
        )


class NotConnected(ClientError):
    """The broker did not answer within `connect_timeout`; nothing was sent."""


class NotConfirmed(ClientError):
    """The broker did not confirm in time. It may or may not have the request: repeat it with the same id,
    which never makes a second job."""

    def __init__(self, job_id: UUID, others: int, seconds: float) -> None:
        self.job_id = job_id
        more = f" and {others} more" if others else ""
        super().__init__(
            f"expected the broker's confirm for job {job_id}{more} within {seconds:g} s, got none: "
            "repeat the request with the same id (it never makes a second job)"
        )


class RequestUnroutable(ClientError):
    """The broker has no queue for requests, and the client may not, or could not, declare it."""


class ClientClosed(ClientError):
    """The client is closed, or was never started."""


class RequestRejected(ClientError):
    """The request was refused; no job exists for it unless it existed before."""

    def __init__(self, data: JobRejectedData) -> None:
        self.job_id, self.job_type = data.job_id, data.job_type
        self.reason: Reason = data.reason
        self.detail = data.detail
        super().__init__(
            f"{data.job_type or 'request'} {data.request_id} was rejected ({data.reason}): {data.detail}"
        )


class CommandRefused(ClientError):
    """A service refuses the command: nothing was changed. `details`: the reason of each refused command."""

    def __init__(self, details: Sequence[str]) -> None:
        self.details = tuple(details)
        super().__init__("; ".join(self.details))


class CommandTimeout(ClientError, TimeoutError):
    """No service has replied in time. The broker has stored the command; a service carries it out later."""

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(
            f"expected a service to carry out {command} within {seconds:g} s, got no reply: the broker has "
            "stored the command until one does"
        )


class JobFailed(ClientError):
    """The job has ended without a result. `error` is that of its last attempt, if any; `reason` is that of a
    cancelled job."""

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
        return self.error.kind.value if self.error else None

    @property
    def message(self) -> str | None:
        return self.error.message if self.error else None

    @property
    def stack(self) -> str | None:
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
    """It was cancelled by a request, or by its own handler."""


class JobExpired(JobFailed):
    """Its deadline passed before it could finish."""


class ResultMismatch(ClientError):
    """The job succeeded; its result does not fit `as_`."""

    def __init__(self, job_id: UUID, expected: str, result: Any, why: str) -> None:
        self.job_id, self.result = job_id, result
        super().__init__(f"expected {expected} as the result of job {job_id}, got another shape: {why}")


class ResultUnreadable(ClientError):
    """The job has ended, with a result or an error that the client has no key for."""


class ResultTimeout(ClientError, TimeoutError):
    """The caller's timeout is over. The job goes on; wait again, or look it up by its id."""

    def __init__(self, job_id: UUID, seconds: float) -> None:
        self.job_id = job_id
        super().__init__(f"expected job {job_id} to be over within {seconds:g} s, and it is not: it goes on")
