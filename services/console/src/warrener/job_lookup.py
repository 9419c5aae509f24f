"""Finding the job that a person means."""

from uuid import UUID

from warrener.errors import CommandError, ExitCode
from warrener_store import StateStore
from warrener_store.jobs.rows import JobFilter, JobRow

_SEARCHED = 1000
_SHORTEST = 4


async def find_job(store: StateStore, text: str) -> JobRow:
    """The job by its id, or by the last characters of it among the newest thousand."""
    if (job_id := as_uuid(text)) is not None:
        found = (await store.jobs_by_id([job_id])).get(job_id)
        if found is None:
            raise CommandError(
                f"expected the id of a job the store knows, got {text}: no scheduler has accepted it yet",
                do="look at `warrener parked`, or ask `warrener doctor` whether a scheduler runs",
            )
        return found
    return select_by_id(text, await store.list_jobs(JobFilter(limit=_SEARCHED)))


def select_by_id(text: str, rows: list[JobRow]) -> JobRow:
    """The one job whose id ends (or begins) like this."""
    wanted = text.lower()
    if len(wanted) < _SHORTEST:
        raise CommandError(
            f"expected a job id, or at least its last {_SHORTEST} characters, got {text!r}",
            do="copy it from `warrener jobs`",
            code=ExitCode.USAGE,
        )
    found = [row for row in rows if str(row.job_id).endswith(wanted)] or [
        row for row in rows if str(row.job_id).startswith(wanted)
    ]
    if len(found) != 1:
        many = f"{len(found)} of them" if found else f"none among the newest {len(rows)}"
        raise CommandError(f"expected one job with an id like {text!r}, got {many}", do="give the whole id")
    return found[0]


def as_uuid(text: str) -> UUID | None:
    """The id, if it is a whole one."""
    try:
        return UUID(text)
    except ValueError:
        return None
