"""Jobs as they are saved: what has become of them, as PostgreSQL's `save_jobs` takes it."""

from collections.abc import Sequence
from typing import Any

from warrener_store.arrays import compact_repeats
from warrener_store.records.codec import POSTGRES_CODEC
from warrener_store.records.columns import encode_columns
from warrener_store.records.jobs import STATE_FIELDS
from warrener_store.save_batches import JobSaves


def saves_to_arrays(batch: Sequence[JobSaves]) -> list[list[Any]]:
    """The ids, the versions held, the columns of STATE_FIELDS, and when the attempts ran that stand in their
    jobs' rows. All columns but the ids are as short as they may be."""
    rows = [job_saves.row for job_saves in batch]
    inlined = [job_saves.inlined_attempt for job_saves in batch]
    columns = [
        [job_saves.base_version for job_saves in batch],
        *encode_columns(STATE_FIELDS, rows, POSTGRES_CODEC),
        [None if attempt is None else attempt.started_at for attempt in inlined],
        [None if attempt is None else attempt.finished_at for attempt in inlined],
    ]
    return [[row.job_id for row in rows], *map(compact_repeats, columns)]
