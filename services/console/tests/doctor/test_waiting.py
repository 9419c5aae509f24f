"""The doctor's findings about what waits; pure."""

from services.console.tests.explanations.explained_facts import agent, job_type, queue, silent, system
from tests.store_rows import after

from warrener.doctor import CheckStatus
from warrener.doctor.waiting import check_queues, check_types
from warrener.explanations.facts import QueueSubject
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

HEADS = {"default": QueueHead("default", after(-240), unpublished=False)}


def test_a_queue_with_jobs_and_no_consumer_is_named_with_its_cause() -> None:
    down = system(queues=queue(waiting=7), agents=(silent(),))
    (found,) = check_queues([QueueSubject(system=down, name="default", oldest=after(-240))], HEADS)
    assert (found.check, found.status) == ("queue default", CheckStatus.ERROR)
    assert found.message.startswith("No agent of queue default is alive")
    assert found.do == "warrener agent MODULE --queue default"


def test_messages_without_jobs_in_the_store_count_too() -> None:
    down = QueueSubject(system=system(queues=queue(waiting=7), agents=(silent(),)), name="default")
    assert [found.status for found in check_queues([down], {})] == [CheckStatus.ERROR]
    empty = QueueSubject(system=system(queues=queue(), agents=(silent(),)), name="default")
    assert check_queues([empty], {}) == [], "nothing waits there"


def test_queues_whose_agents_take_their_jobs_are_well() -> None:
    (found,) = check_queues([QueueSubject(system=system(), name="default", oldest=after(-1))], HEADS)
    assert (found.status, found.message) == (CheckStatus.OK, "1 with jobs, each with agents that take them")


def test_a_type_with_waiting_jobs_and_no_agent_that_knows_it_is_named() -> None:
    other = system(agents=(agent(job_types=("flights.list",)),), job_types={"flights.load": job_type()})
    waiting = StateCount(job_type="flights.load", queue="default", state=JobState.RETRYING, jobs=3)
    over = StateCount(job_type="flights.load", queue="default", state=JobState.DEAD, jobs=9)
    (found,) = check_types(other, [waiting, over])
    assert (found.check, found.status) == ("type flights.load", CheckStatus.ERROR)
    assert found.message.startswith("No agent of queue default knows flights.load")
    assert found.message.endswith("; 3 jobs waiting")
    assert check_types(other, [over]) == []
    assert check_types(system(), [waiting]) == []
