"""Load of a client of either release: jobs of every kind until a file is there, and how each of them ended.

python -m tests.acceptance.upgrade_load FOLDER
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

from warrener_client import SyncClient, SyncJob

EXPECTED = {
    "upgrade.quick": "succeeded",
    "upgrade.flaky": "succeeded",
    "upgrade.doomed": "dead",
    "upgrade.written": "succeeded",
    "upgrade.long": "succeeded",
    "upgrade.endless": "cancelled",
}
_PAUSE = 0.5  # seconds between two rounds
_WITHIN = 120.0


def request_round(client: SyncClient) -> list[SyncJob]:
    """Request a job of each kind; cancel the one that would not end."""
    jobs = [client.request(kind, {"number": number}) for number, kind in enumerate(EXPECTED)]
    client.cancel(jobs[-1].job_id, reason="an upgrade")
    return jobs


def wrong_ends(jobs: list[SyncJob]) -> list[str]:
    """Wait for the end of each job; describe those that ended otherwise than their kind does."""
    ends = [(job, job.outcome(timeout=_WITHIN).state.value) for job in jobs]
    return [f"{job.job_type} {job.job_id}: {end}" for job, end in ends if end != EXPECTED[job.job_type]]


def main(folder: Path) -> None:
    """Request until `stop` is in the folder; print the counts and what went wrong as JSON."""
    jobs: list[SyncJob] = []
    with SyncClient() as client:
        while not (folder / "stop").exists():
            jobs += request_round(client)
            time.sleep(_PAUSE)
        wrong = wrong_ends(jobs)
    print(json.dumps({"jobs": Counter(job.job_type for job in jobs), "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
