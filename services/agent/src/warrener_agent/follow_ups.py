"""Follow-ups: jobs that a handler asks for, kept until its attempt has succeeded. Pure."""

from datetime import timedelta
from uuid import UUID

from pydantic import ValidationError

from warrener_agent.context import FollowUpSpec
from warrener_agent.ledger.port import FollowUp
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.identity import follow_up_id
from warrener_contracts.messages import encode
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.telemetry import TraceContext


class FollowUps:
    """The follow-ups of one attempt, in the order in which they were asked for."""

    def __init__(self, parent: UUID, context: TraceContext) -> None:
        self._parent = parent
        self._context = context
        self._requested: dict[str, FollowUp] = {}

    def add(self, spec: FollowUpSpec) -> UUID:
        """Keep it; returns the job id that it will have. Raises ValueError for what cannot be asked for."""
        key = spec.key if spec.key is not None else f"{spec.job_type} {len(self._requested)}"
        if key in self._requested:
            raise ValueError(f"expected a key for each follow-up of a job, got {key!r} twice")
        job_id = follow_up_id(self._parent, key)
        self._requested[key] = FollowUp(key, self._request(spec, job_id))
        return job_id

    def all(self) -> tuple[FollowUp, ...]:
        """What was asked for."""
        return tuple(self._requested.values())

    def _request(self, spec: FollowUpSpec, job_id: UUID) -> bytes:
        try:
            data = JobRequestedData(
                job_type=spec.job_type,
                arguments=spec.arguments,
                queue=spec.queue,
                delay=None if spec.delay_seconds is None else timedelta(seconds=spec.delay_seconds),
                parent_id=self._parent,
            )
        except ValidationError as error:
            raise ValueError(f"expected a request that can be made, got: {error}") from error
        body = encode(
            JobRequested(
                id=str(job_id),
                source=f"warrener/job/{self._parent}",
                subject=str(job_id),
                traceparent=self._context.traceparent,
                tracestate=self._context.tracestate,
                data=data,
            )
        )
        if len(body) > MAX_BODY:
            raise ValueError(
                f"expected a request of at most {MAX_BODY} bytes, got {len(body)}: put the data "
                "elsewhere and send "
                "its URL"
            )
        return body
