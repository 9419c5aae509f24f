"""The history of a run, read from the database, the effect ledger, and what the harness knows."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from tools.chaos.clients import session
from tools.chaos.effects import read_effects
from tools.chaos.history import (
    Destroyed,
    Ending,
    Freeze,
    History,
    JobFact,
    Request,
    Schedule,
    Tick,
    TransactionalEffect,
    Unmended,
)


@dataclass(frozen=True, slots=True)
class Known:
    """What no database has. `offset`: the time of day less the raw monotonic clock."""

    offset: float
    effects: Path
    requests: Sequence[Request]
    freezes: Sequence[Freeze]
    schedules: Sequence[Schedule]
    answers: Mapping[str, str]
    unmended: Sequence[Unmended] = ()
    destroyed: Sequence[Destroyed] = ()
    left_in_queues: Mapping[str, int] = field(default_factory=dict[str, int])
    settled: bool = True


async def collect(url: str, known: Known) -> History:
    """Everything, for the checker."""
    async with session(url) as connection:
        jobs = await connection.fetch(
            "SELECT job_id, job_type, state, attempt, result, parent_id, source, losses, "
            "CASE WHEN parent_id IS NOT NULL THEN arguments END AS arguments FROM warrener_jobs"
        )
        endings = await connection.fetch("SELECT job_id, old, new, at FROM chaos_endings ORDER BY at")
        written = await connection.fetch("SELECT job_id, run, note FROM chaos_effects")
        ticks = await connection.fetch("SELECT schedule, nominal_at, status, job_id FROM warrener_ticks")
    records = await asyncio.to_thread(lambda: list(read_effects(known.effects)))
    return History(
        requests=known.requests,
        jobs={str(row["job_id"]): _job(row) for row in jobs},
        endings=[
            Ending(str(row["job_id"]), row["old"], row["new"], row["at"].timestamp() - known.offset)
            for row in endings
        ],
        records=records,
        effects=[TransactionalEffect(str(row["job_id"]), row["run"], row["note"]) for row in written],
        ticks=_ticks(ticks, known.offset),
        schedules=known.schedules,
        freezes=known.freezes,
        answers=known.answers,
        left_in_queues=known.left_in_queues,
        unmended=known.unmended,
        destroyed=known.destroyed,
        settled=known.settled,
    )


async def counts(url: str) -> dict[str, Any]:
    """What the store has of parked messages and dead letters, by reason."""
    async with session(url) as connection:
        parked = await connection.fetch(
            "SELECT queue, reason, count(*) AS n FROM warrener_parked GROUP BY 1, 2 ORDER BY 1, 2"
        )
        dead = await connection.fetch(
            "SELECT job_type, reason, count(*) AS n FROM warrener_dead_letters GROUP BY 1, 2 ORDER BY 1, 2"
        )
    return {
        "parked": {f"{row['queue']}: {row['reason']}": row["n"] for row in parked},
        "dead": {f"{row['job_type']}: {row['reason']}": row["n"] for row in dead},
    }


def _job(row: asyncpg.Record) -> JobFact:
    source = str(row["source"])
    return JobFact(
        job=str(row["job_id"]),
        job_type=row["job_type"],
        state=row["state"],
        attempt=row["attempt"],
        result=None if row["result"] is None else str(json.loads(row["result"])),
        parent=None if row["parent_id"] is None else str(row["parent_id"]),
        schedule=source.partition("schedule/")[2] or None,
        losses=row["losses"],
        arguments=row["arguments"] or "",
    )


def _ticks(rows: Sequence[asyncpg.Record], offset: float) -> list[Tick]:
    return [
        Tick(
            row["schedule"],
            row["nominal_at"].timestamp() - offset,
            row["status"],
            None if row["job_id"] is None else str(row["job_id"]),
        )
        for row in rows
    ]
