"""A later attempt is dispatched with what went wrong before, and where the rules of its policy send it."""

from datetime import timedelta
from typing import Any

from services.supervisor.tests import stage

from warrener_contracts import topology
from warrener_contracts.events import AttemptCancel, ErrorInfo, ErrorKind
from warrener_contracts.policy import Backoff, JobPolicy, RetryRule
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.rules import chosen_by_rule

MEMORY = ErrorInfo(kind=ErrorKind.CRASH, type="OutOfMemory", message="it used 600 MiB", stack="frame\n" * 99)


def job(*rules: RetryRule, **changes: Any) -> JobRow:
    policy = JobPolicy(backoff=Backoff.fixed("1s", jitter=0), retry_rules=rules)
    return stage.running_row(policy=policy, **changes)


async def test_two_memory_deaths_send_a_job_to_another_queue_with_its_history() -> None:
    rule = RetryRule(errors=["memory"], after=2, queue="other")
    async with stage.opened(job(rule)) as harness:
        await harness.store.put_agents(
            [stage.agent_row("agent-1"), stage.agent_row("agent-2", queues=("other",))]
        )
        await harness.publish(stage.failed(1, MEMORY))
        await harness.clock.advance(2)
        (second,) = harness.dispatched()
        assert second.data.history is not None
        (died,) = second.data.history.attempts
        assert (died.attempt, died.cause, died.error, died.queue) == (1, "crash", "OutOfMemory", "default")
        assert (died.agent_id, died.seconds) == ("agent-1", 30.0)
        assert (second.data.history.failures, second.data.history.losses) == (1, 0)

        await harness.publish(stage.started(2, "agent-1", harness.clock.now()))
        await harness.publish(stage.failed(2, MEMORY, at=harness.clock.now()))
        row = await harness.row()
        assert (row.queue, row.state) == ("other", JobState.RETRYING)
        assert [(one.queue, one.state, one.jobs) for one in await harness.store.count_jobs()] == [
            ("other", JobState.RETRYING, 1)
        ]
        (_, attempt) = await harness.store.attempts_of([stage.JOB])
        assert chosen_by_rule(attempt.verdict) == (
            "attempt 3 goes from queue default to other: 2 failures (memory)"
        )
        # Only the rule names that queue, and no publisher misses it behind the delay queues.
        await harness.clock.advance(2)
        assert harness.broker.ready(topology.dispatch_queue("other").name) == 1


async def test_a_dispatch_that_a_delay_queue_has_lost_is_published_again_with_its_history() -> None:
    rule = RetryRule(errors=["memory"], another_agent=True)
    async with stage.opened(job(rule)) as harness:
        beside = stage.agent_row("agent-2", last_seen_at=stage.NOW + timedelta(minutes=5))
        await harness.store.put_agents([stage.agent_row("agent-1"), beside])
        await harness.publish(stage.failed(1, MEMORY))
        harness.broker.purge("warrener.delay.1s")
        await harness.clock.advance(60)
        dispatch = harness.dispatched()[0]
        assert (dispatch.data.attempt, dispatch.data.avoid_agents) == (2, ("agent-1",))
        assert dispatch.data.history is not None
        assert [one.error for one in dispatch.data.history.attempts] == ["OutOfMemory"]


async def test_no_agent_is_avoided_that_alone_serves_the_queue() -> None:
    rule = RetryRule(errors=["memory"], another_agent=True)
    async with stage.opened(job(rule)) as harness:
        elsewhere = stage.agent_row("agent-2", queues=("other",))
        await harness.store.put_agents([stage.agent_row("agent-1"), elsewhere])
        await harness.publish(stage.failed(1, MEMORY))
        await harness.clock.advance(2)
        (dispatch,) = harness.dispatched()
        assert dispatch.data.avoid_agents == ()
        assert dispatch.data.history is not None


async def test_an_attempt_that_may_run_in_the_queue_before_is_cancelled_there_too() -> None:
    rule = RetryRule(errors=["memory"], queue="other")
    async with stage.opened(job(rule), stage.child("plain")) as harness:
        await harness.publish(stage.failed(1, MEMORY))
        await harness.publish(stage.cancel(), stage.cancel(job_id=stage.child("plain").job_id))
        cancels = harness.all_of(AttemptCancel)
        assert len(cancels) == len(harness.addresses(topology.CONTROL)) == 2
        assert set(harness.addresses(topology.CONTROL)) == {"all", "queue.default"}


async def test_a_first_attempt_and_a_snoozed_job_have_no_history() -> None:
    async with stage.opened(job()) as harness:
        await harness.publish(stage.snoozed(1, seconds=1))
        await harness.clock.advance(2)
        (dispatch,) = harness.dispatched()
        assert dispatch.data.history is None
        assert b"history" not in harness.received[topology.RETURN][0].body
