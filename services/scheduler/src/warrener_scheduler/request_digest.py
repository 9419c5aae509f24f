"""A short name for what a request asks for: a repeat has the same one. Pure."""

import json
from functools import lru_cache
from hashlib import blake2b

from warrener_contracts.events import JobRequestedData

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def request_digest(data: JobRequestedData) -> str:
    """The same for two requests that ask for the same job, in whatever order their arguments stand.

    It is compared with those that earlier versions have stored: its text never changes.
    """
    return blake2b(_text(data).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(data: JobRequestedData) -> str:
    """All fields but `reply_to`, for who asks again may want the answer elsewhere."""
    if _has_terms(data):
        return _CANONICAL.encode(data.model_dump(mode="json", exclude={"reply_to"}))
    # Most requests: what they leave out is written without being asked for.
    return (
        f'{{"arguments":{_CANONICAL.encode(data.arguments)},"deadline":null,"delay":null,"expires_after":null,'
        f'"idempotency_key":{_word(data.idempotency_key)},"job_type":{_word(data.job_type)},'
        f'"not_before":null,"parent_id":null,"policy":null,"queue":{_word(data.queue)}}}'
    )


def _has_terms(data: JobRequestedData) -> bool:
    return (
        data.deadline is not None
        or data.delay is not None
        or data.expires_after is not None
        or data.not_before is not None
        or data.parent_id is not None
        or data.policy is not None
    )


@lru_cache(maxsize=1024)
def _word(word: str | None) -> str:
    return _CANONICAL.encode(word)
