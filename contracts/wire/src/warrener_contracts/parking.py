"""Park messages that no service can use."""

from uuid import UUID, uuid5

from warrener_contracts import messages
from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import Reason


def park_failure(found: DecodeFailure, queue: str) -> messages.Message:
    """Park bytes that are no usable event, with their address; of a batch, the bad element alone."""
    came: dict[str, str] = {}
    if found.arrived_by is not None:
        came[messages.ORIGINAL_EXCHANGE], came[messages.ORIGINAL_ROUTING_KEY] = found.arrived_by
    return messages.build_parked_message(
        queue=queue,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=found.content_type,
        came=came,
    )


def park_event(
    found: DecodedEvent, queue: str, reason: Reason, detail: str, address: tuple[str, str] | None = None
) -> messages.Message:
    """Park an event that was read and is not carried out, as it was received. `address`: the exchange and
    the routing key by which it came, if they are needed to find it again."""
    return messages.build_parked_message(
        queue=queue,
        body=found.body,
        reason=reason.value,
        detail=detail,
        message_id=str(uuid5(UUID(found.identity), f"{queue}\n{reason.value}")),
        content_type=messages.EVENT_TYPE,
        came={}
        if address is None
        else {messages.ORIGINAL_EXCHANGE: address[0], messages.ORIGINAL_ROUTING_KEY: address[1]},
    )
