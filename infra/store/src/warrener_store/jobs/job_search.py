"""Texts by which people name a job: a part of its id, the id that its requester chose, its idempotency key.
Pure."""

import re
from collections.abc import Iterable
from uuid import UUID

from warrener_contracts.identity import job_id_of
from warrener_store.jobs.rows import JobRow

MIN_LENGTH = 8
"""Characters of an id that are found by an index."""
MAX_SOURCES = 10_000
MAX_ALIKE = 1_000
"""Ids that are compared of those with the same eight characters at the end."""
_PART = re.compile(r"[0-9a-f]{8,32}", re.ASCII)


def id_part(text: str) -> str | None:
    """The hexadecimal digits of a text that may be a part of an id; None if it cannot be."""
    digits = text.lower().replace("-", "")
    return digits if _PART.fullmatch(digits) else None


def ids_that_begin(part: str) -> tuple[UUID, UUID]:
    """The first and the last id that begin with these digits."""
    return UUID(part.ljust(32, "0")), UUID(part.ljust(32, "f"))


def is_named(row: JobRow, text: str) -> bool:
    """True if the text names this job."""
    part, job_id = id_part(text), row.job_id
    if part is not None and (job_id.hex.startswith(part) or job_id.hex.endswith(part)):
        return True
    return row.idempotency_key == text or job_id_of(row.source, text) == job_id


def newest_named(rows: Iterable[JobRow], text: str, limit: int) -> list[JobRow]:
    """Those of the jobs that the text names, the last accepted first."""
    named = [row for row in rows if is_named(row, text)]
    return sorted(named, key=lambda row: (row.accepted_at, row.job_id), reverse=True)[:limit]
