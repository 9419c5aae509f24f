"""Signatures of requests: whose key signed a message, and the job types that this key may request.

The signature is of the whole body. Announcements come by their own routing keys and are not signed.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from warrener_contracts.codec import DecodedEvent, refuse
from warrener_contracts.events import AgentAnnounced, Reason
from warrener_contracts.inbox import ParkedEvent
from warrener_contracts.messages import Message
from warrener_contracts.parking import park_failure
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE
from warrener_runtime.bus.types import Delivery
from warrener_runtime.keys import (
    SIGNATURE_HEADER,
    SIGNATURE_KEY_HEADER,
    SIGNING_KEY,
    KeyFileError,
    MessageSigner,
    load_signer,
    read_key_file,
    read_public_key,
)
from warrener_scheduler.settings import SchedulerSettings

_ANNOUNCED = "agent.announced"
_SETTING = "WARRENER_SCHEDULER_REQUEST_KEYS_FILE"
_BAD_SIGNATURE = "bad_signature"  # of parked messages; released readers of a rejection do not know it
ReadMessage = tuple[Delivery, list[DecodedEvent | ParkedEvent]]


class RequestKey(NamedTuple):
    """A key that may sign requests of job types that match one of its patterns."""

    verify: Callable[[bytes, bytes], bool]
    job_types: tuple[str, ...]

    def permits(self, job_type: str) -> bool:
        return any(fnmatchcase(job_type, pattern) for pattern in self.job_types)


class RequestKeys:
    """Refuses requests that no known key has signed. `signer` vouches for checked ones that are parked."""

    def __init__(self, keys: Mapping[str, RequestKey], signer: MessageSigner) -> None:
        self._keys, self._signer = keys, signer

    def check(self, read: Sequence[ReadMessage]) -> list[ReadMessage]:
        """Replace events of messages without a signature that counts, and requests that their key does not
        permit, by parked ones."""
        return [(delivery, self._checked(delivery, found)) for delivery, found in read]

    def vouch(self, messages: Sequence[Message]) -> list[Message]:
        """Sign requests that were checked, perhaps by the signature of a batch, and are parked: they may be
        requeued one by one. Events that could not be read, or came by another's address, are not signed:
        nobody has compared their job types with a key."""
        return [self._signer.signed(one) for one in messages]

    def _checked(
        self, delivery: Delivery, found: list[DecodedEvent | ParkedEvent]
    ) -> list[DecodedEvent | ParkedEvent]:
        named = delivery.headers.get(SIGNATURE_KEY_HEADER)
        key = self._keys.get(named) if isinstance(named, str) else None
        problem = _find_problem(delivery, str(named)[:100], key)
        may_announce = delivery.exchange == REQUESTS and delivery.routing_key.startswith(_ANNOUNCED)

        def why_refused(one: DecodedEvent | ParkedEvent) -> str | None:
            if isinstance(one, ParkedEvent):
                return None if may_announce else problem  # it is parked in any case
            if isinstance(one.event, AgentAnnounced):
                return None
            job_type = one.event.data.job_type
            if problem is None and key is not None and not key.permits(job_type):
                return (
                    f"expected a job type that the key {named!r} may request ({', '.join(key.job_types)}), "
                    f"got {job_type}: add it to the key's job_types, or sign with another key"
                )
            return problem

        return [one if (why := why_refused(one)) is None else _refused(delivery, one, why) for one in found]


def load_request_keys(settings: SchedulerSettings) -> RequestKeys | None:
    """Read the keys of the settings; None without a file of them. Raises KeyFileError."""
    path = settings.scheduler_request_keys_file
    if path is None:
        return None
    signer = load_signer(settings.signing_key_file, REQUESTS)
    if signer is None:
        problem = (
            f"{SIGNING_KEY}: expected a key with {_SETTING}, got none: the scheduler signs the "
            "requests of its schedules and redrives"
        )
        raise KeyFileError([problem])
    return RequestKeys(
        {name: _read_key(path, name, one) for name, one in read_key_file(_SETTING, path).items()}, signer
    )


def _read_key(path: Path, name: str, found: Any) -> RequestKey:
    match found:
        case {"public": str(public), "job_types": [*patterns]} if all(
            isinstance(one, str) for one in patterns
        ):
            return RequestKey(read_public_key(path, name, public), tuple(patterns))
        case _:
            problem = (
                f'{path}: {name}: expected public = "…" and job_types = ["billing.*"], got something else; '
                "`warrener keys NAME --signing` prints both"
            )
            raise KeyFileError([problem])


def _find_problem(delivery: Delivery, named: str, key: RequestKey | None) -> str | None:
    signature = delivery.headers.get(SIGNATURE_HEADER)
    if not isinstance(signature, str):
        return (
            f"expected a signed request, got none in the header {SIGNATURE_HEADER}: set {SIGNING_KEY} where "
            "it is sent"
        )
    if key is None:
        return f"expected a key that the scheduler knows, got {named!r}: add it to its file of request keys"
    try:
        is_right = key.verify(b64decode(signature, validate=True), delivery.body)
    except ValueError:
        is_right = False
    if is_right:
        return None
    return f"expected a signature of this body by the key {named!r}, got another one: sign the bytes as sent"


def _refused(delivery: Delivery, found: DecodedEvent | ParkedEvent, why: str) -> ParkedEvent:
    if isinstance(found, ParkedEvent):
        failure = replace(found.failure, reason=Reason.BAD_FIELDS, detail=why)
    else:
        address = (delivery.exchange, delivery.routing_key) if delivery.exchange else None
        failure = replace(refuse(found, Reason.BAD_FIELDS, why), arrived_by=address)
    parked = park_failure(failure, REQUESTS_QUEUE.name)
    return ParkedEvent(
        failure, parked._replace(headers={**parked.headers, "warrener-reason": _BAD_SIGNATURE})
    )
