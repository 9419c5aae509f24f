"""A short name for what a request asks for: a repeat has the same one. Pure."""

import json
from hashlib import blake2b

from warrener_contracts.events import JobRequestedData

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def fingerprint(data: JobRequestedData) -> str:
    """The same for two requests that ask for the same job, in whatever order their arguments stand."""
    asked = data.model_dump(mode="json")
    del asked["reply_to"]  # who asks again may want the answer elsewhere
    return blake2b(_CANONICAL.encode(asked).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
