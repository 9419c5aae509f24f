"""A request whose job was there before: what it means. Pure."""

from dataclasses import dataclass
from uuid import UUID

from warrener_contracts.events import JobRequested, Reason
from warrener_contracts.states import JobState
from warrener_scheduler.acceptance import Rejected, job_of
from warrener_scheduler.fingerprint import fingerprint
from warrener_store.rows import JobRow


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same job is asked for again.

    `dispatch`: its first dispatch may never have been published, so it is published again (the ledger lets
    one through). `instead_of`: the asker named another job, and this one stands for it by its idempotency
    key.
    """

    row: JobRow
    dispatch: bool
    instead_of: UUID | None = None


def repeated(event: JobRequested, row: JobRow) -> Repeat | Rejected:
    """What to make of `event`, for whose job (or idempotency key) the store holds `row`."""
    asked_for = job_of(event)
    if row.job_id != asked_for:
        return Repeat(row, dispatch=False, instead_of=asked_for)
    if row.fingerprint not in ("", fingerprint(event.data)):
        detail = (
            f"expected the content of the earlier request with id {event.id!r}, got another one: "
            "a new job needs a new id"
        )
        return Rejected(Reason.CONFLICTING_REPEAT, detail)
    published = row.state is JobState.QUEUED and row.attempt == 1 and row.dispatched_at is not None
    return Repeat(row, dispatch=published)  # what is not published is left to the supervisors
