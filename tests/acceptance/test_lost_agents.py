"""Point 3 of supervision: an agent that is killed or cut off is found, its attempts run elsewhere, and what
it does later changes nothing. With default settings, but for the slots. `test_agent_frozen.py` has a frozen
one; that an agent which restarts at once need not wait for its leases, stands in
`services/agent/tests/test_receive.py`.

That it takes at most ten seconds is proved in virtual time (`tests/simulation/test_lost_agent.py`): how
long it takes here depends on what else the machine does."""

from collections import Counter
from collections.abc import Sequence

from tests.acceptance.run_notes import runs_in
from tests.acceptance.store_queries import effects, make_effects, rows_of
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.faults.postgres_proxy import by_way_of
from tests.faults.swallowing_proxy import SwallowingProxy
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobSpec, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState

MODULE = "tests.acceptance.lost_handlers"
JOBS = 100
QUICK = 150


def test_3_the_jobs_of_a_killed_agent_run_elsewhere(warren: Warren) -> None:
    first = start(warren)
    with SyncClient(warren.broker_url) as client:
        long = begin_long(warren, client, first)
        other = start_other(warren)
        quick = list(client.request_many([JobSpec("quick")] * QUICK))
        until(lambda: len(effects(warren)) > QUICK // 10, "some of the quick ones to be done")
        first.kill()
        assert {job.result(timeout=60) for job in long} == {other.process.pid}
        for job in quick:
            job.result(timeout=60)
    check_books(warren, long, quick)


def test_3_an_agent_that_is_cut_off_stops_what_runs_elsewhere(warren: Warren, broker: RabbitMQServer) -> None:
    proxy = SwallowingProxy(broker.port)
    first = start(warren, WARRENER_BROKER_URL=by_way_of(warren.broker_url, proxy.port))
    with SyncClient(warren.broker_url) as client:
        long = begin_long(warren, client, first)
        other = start_other(warren)
        proxy.close()  # it reaches the ledger still, and renews its claims
        assert {job.result(timeout=60) for job in long} == {other.process.pid}
    until(lambda: len(stopped_in(first)) == JOBS, "it to have stopped them all")
    (warren.folder / "go").touch()
    check_books(warren, long, [])
    first.kill()  # it has nobody to take leave of


# -- the course of it --------------------------------------------------------------------------------------


def start(warren: Warren, **environment: str) -> ServiceProcess:
    """A warren with the agent that will be lost."""
    make_effects(warren)
    warren.start("scheduler")
    warren.start("supervisor")
    first = warren.start("agent", MODULE, "--slots", str(JOBS), WAITS="yes", **environment)
    warren.wait_ready()
    return first


def start_other(warren: Warren) -> ServiceProcess:
    """The agent that is left."""
    other = warren.start("agent", MODULE, "--slots", str(JOBS))
    warren.wait_ready()
    return other


def begin_long(warren: Warren, client: SyncClient, agent: ServiceProcess) -> Sequence[SyncJob]:
    """A hundred jobs that run in `agent`."""
    jobs = list(client.request_many([JobSpec("long")] * JOBS))
    until(lambda: len(runs_in(warren.folder)) == JOBS, "all long ones to run")
    assert {run.pid for run in runs_in(warren.folder)} == {agent.process.pid}
    return jobs


def check_books(warren: Warren, long: Sequence[SyncJob], quick: Sequence[SyncJob]) -> None:
    """Each job has one effect and one result, and each long one ran twice: here and there."""
    rows = rows_of(warren, [job.job_id for job in (*long, *quick)])
    assert {row.state for row in rows.values()} == {JobState.SUCCEEDED}
    assert Counter(effects(warren)) == {str(job_id): 1 for job_id in rows}, "no effect twice, none missing"
    times = Counter(run.job_id for run in runs_in(warren.folder))
    assert times == {job.job_id: 2 for job in long}
    assert all(row.failures == 0 for row in rows.values()), "a loss is not charged to the job"


def stopped_in(agent: ServiceProcess) -> set[str]:
    """The jobs that it has stopped: their claims were lost, or it was too slow to renew them in time."""
    actions = ("agent.fenced", "agent.self_fenced")
    return {record["job_id"] for action in actions for record in agent.records(action)}
