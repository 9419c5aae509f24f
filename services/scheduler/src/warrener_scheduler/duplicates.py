"""A request whose job was there before: what it means. Pure."""

from dataclasses import dataclass
from uuid import UUID

from warrener_contracts.events import JobRequested, Reason
from warrener_contracts.states import JobState
from warrener_scheduler.admission import Rejected, job_id_for
from warrener_scheduler.request_digest import request_digest
from warrener_store.jobs.rows import JobRow


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same job is asked for again.

    `dispatch`: its first dispatch may never have been published, so it is published again (the ledger lets
    one through). `instead_of`: the asker named another job, and this one stands for it by its idempotency
    key.
    """

    row: JobRow
    dispatch: bool
    instead_of: UUID | None = None


def classify_duplicate(event: JobRequested, row: JobRow) -> Duplicate | Rejected:
    """What to make of `event`, for whose job (or idempotency key) the store holds `row`."""
    requested_id = job_id_for(event)
    if row.job_id != requested_id:
        return Duplicate(row, dispatch=False, instead_of=requested_id)
    if row.fingerprint not in ("", request_digest(event.data)):
        detail = (
            f"expected the content of the earlier request with id {event.id!r}, got another one: "
            "a new job needs a new id"
        )
        return Rejected(Reason.CONFLICTING_REPEAT, detail)
    published = row.state is JobState.QUEUED and row.attempt == 1 and row.dispatched_at is not None
    return Duplicate(row, dispatch=published)  # what is not published is left to the supervisors
