"""Point 1 under strain, on real processes: waiting is not losing, and what is lost is noticed.

Full queues, and more ways to lose messages, are proved in virtual time, by
`tests/simulation/test_backlog.py`."""

from collections import Counter

from tests.acceptance.run_notes import runs_in
from tests.acceptance.warren import Warren, until
from tests.broker_access import count_messages, delete_queues, on_broker

from warrener_client import SyncClient
from warrener_contracts.topology import dispatch_queue

MODULE = "tests.acceptance.backlog_handlers"
JOBS = 30
PURGED, DELETED = (dispatch_queue(name).name for name in ("purged", "deleted"))


def test_1_what_a_purged_and_a_deleted_queue_held_is_dispatched_again(warren: Warren) -> None:
    warren.start_all(MODULE)
    warren.services[-1].end()  # the job types are known, and nobody runs them
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request(name) for name in ("purged", "deleted") for _ in range(JOBS)]
        until(lambda: all_wait(warren), "all to wait")
        on_broker(warren.broker_url, lambda channel: channel.queue_purge(PURGED))
        delete_queues(warren.broker_url, DELETED)
        until(lambda: all_wait(warren), "the jobs of the store to be in the queues again")
        warren.start("agent", MODULE)
        for job in jobs:
            job.result(timeout=60)
    begun = Counter((run.job_id, run.attempt) for run in runs_in(warren.folder))
    assert begun == Counter({(job.job_id, 1): 1 for job in jobs}), "each ran once, as attempt 1"


def all_wait(warren: Warren) -> bool:
    """True if the queues hold as many messages as there are jobs, or more: repeats do no harm."""
    return min(count_messages(warren.broker_url, PURGED, DELETED)) >= JOBS
