"""Messages that cannot be understood or carried out, as letters to the parking place. Pure."""

from typing import Any
from uuid import uuid5

from warrener_contracts.codec import Unreadable
from warrener_contracts.events import Event, Reason
from warrener_contracts.identity import job_id_of
from warrener_contracts.letters import EVENT_TYPE, Letter, encode, parked_letter
from warrener_runtime.bus.port import Delivery


def parked_bytes(found: Unreadable, delivery: Delivery, queue: str) -> Letter:
    """What could not be read, as it came; of a batch, the unreadable element alone."""
    whole = found.body is delivery.body or found.body == delivery.body
    return parked_letter(
        queue=queue,
        body=found.body,
        reason=found.reason.value,
        detail=found.detail,
        message_id=found.identity,
        content_type=delivery.content_type if whole else EVENT_TYPE,
    )


def parked_event(event: Event[Any], queue: str, reason: Reason, detail: str) -> Letter:
    """An event that was read and cannot be used."""
    name = uuid5(job_id_of(event.source, event.id), f"{queue}\n{event.type}\n{reason.value}")
    return parked_letter(
        queue=queue,
        body=encode(event),
        reason=reason.value,
        detail=detail,
        message_id=str(name),
        content_type=EVENT_TYPE,
    )
