"""Texts by which people name a job: a part of its id, the id that its requester chose, its idempotency key.
Pure."""

import re

from warrener_contracts.identity import job_id_of
from warrener_store.jobs.rows import JobRow

MIN_LENGTH = 8
"""Characters of an id that are found by an index."""
_PART = re.compile(r"[0-9a-f]{8,32}", re.ASCII)


def id_part(text: str) -> str | None:
    """The hexadecimal digits of a text that may be a part of an id; None if it cannot be."""
    digits = text.lower().replace("-", "")
    return digits if _PART.fullmatch(digits) else None


def is_named(row: JobRow, text: str) -> bool:
    """True if the text names this job."""
    part, job_id = id_part(text), row.job_id
    if part is not None and (job_id.hex.startswith(part) or job_id.hex.endswith(part)):
        return True
    return row.idempotency_key == text or job_id_of(row.source, text) == job_id
