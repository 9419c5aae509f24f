"""A short name for what a request asks for: a repeat has the same one. Pure."""

import json
from hashlib import blake2b

from warrener_contracts.events import JobRequestedData

_OF_THE_ASKING = {"reply_to"}  # who asks again may want the answer elsewhere


def fingerprint(data: JobRequestedData) -> str:
    """The same for two requests that ask for the same job, in whatever order their arguments stand."""
    asked = data.model_dump(mode="json", exclude=_OF_THE_ASKING)
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
