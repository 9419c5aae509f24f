"""Jobs as they are saved: what has become of them, as PostgreSQL's `save_jobs` takes it."""

from collections.abc import Sequence
from typing import Any

from warrener_store.arrays import once
from warrener_store.chains import Chain
from warrener_store.records.columns import columns_of
from warrener_store.records.form import NATIVE
from warrener_store.records.jobs import BECOME


def saves_out(batch: Sequence[Chain]) -> list[list[Any]]:
    """The ids, the versions held, the columns of BECOME, and when the attempts ran that stand in their jobs'
    rows. All columns but the ids are as short as they may be."""
    rows = [chain.row for chain in batch]
    told = [chain.told for chain in batch]
    columns = [
        [chain.held for chain in batch],
        *columns_of(BECOME, rows, NATIVE),
        [None if attempt is None else attempt.started_at for attempt in told],
        [None if attempt is None else attempt.finished_at for attempt in told],
    ]
    return [[row.job_id for row in rows], *map(once, columns)]
