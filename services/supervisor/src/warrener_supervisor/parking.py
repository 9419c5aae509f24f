"""Messages that cannot be understood or carried out, as letters to the parking place. Pure."""

from uuid import UUID, uuid5

from warrener_contracts.codec import Readable, Unreadable
from warrener_contracts.events import Reason
from warrener_contracts.letters import EVENT_TYPE, Letter, parked_letter


def parked_bytes(found: Unreadable, queue: str) -> Letter:
    """What could not be read, as it came; of a batch, the unreadable element alone."""
    return parked_letter(
        queue=queue,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=found.content_type,
    )


def parked_event(found: Readable, queue: str, reason: Reason, detail: str) -> Letter:
    """What was read and cannot be used, as it came."""
    return parked_letter(
        queue=queue,
        body=found.body,
        reason=reason.value,
        detail=detail,
        message_id=str(uuid5(UUID(found.identity), f"{queue}\n{reason.value}")),
        content_type=EVENT_TYPE,
    )
