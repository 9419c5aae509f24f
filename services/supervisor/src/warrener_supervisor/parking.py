"""Messages that cannot be understood or carried out, as messages to the parking place. Pure."""

from uuid import UUID, uuid5

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import Reason
from warrener_contracts.messages import EVENT_TYPE, Message, build_parked_message


def parked_bytes(found: DecodeFailure, queue: str) -> Message:
    """What could not be read, as it came; of a batch, the unreadable element alone."""
    return build_parked_message(
        queue=queue,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=found.content_type,
    )


def parked_event(found: DecodedEvent, queue: str, reason: Reason, detail: str) -> Message:
    """What was read and cannot be used, as it came."""
    return build_parked_message(
        queue=queue,
        body=found.body,
        reason=reason.value,
        detail=detail,
        message_id=str(uuid5(UUID(found.identity), f"{queue}\n{reason.value}")),
        content_type=EVENT_TYPE,
    )
