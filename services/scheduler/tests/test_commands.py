"""The scheduler's queue of commands: each is judged by itself, and what it is not for is parked."""

from services.scheduler.tests.stage import Stage, named, put

from warrener_contracts import topology
from warrener_contracts.events import (
    JobCancelRequested,
    JobCancelRequestedData,
    JobRejected,
    Reason,
    ScheduleRemoveRequested,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import BATCH_TYPE, Message, build_message


def in_one(*messages: Message) -> Message:
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    return messages[0]._replace(body=body, content_type=BATCH_TYPE, message_id="batch")


def broken(reply_to: str) -> Message:
    """A command without a schedule."""
    body = (
        b'{"specversion":"1.0","id":"1","source":"test","type":"schedule.put.v1","data":{"reply_to":"'
        + reply_to.encode()
        + b'"}}'
    )
    return build_message(put())._replace(body=body, message_id="broken")


async def test_commands_wait_behind_no_request(stage: Stage) -> None:
    stage.broker.mute(topology.REQUESTS_QUEUE.name)
    await stage.send(build_message(put()))
    assert await stage.store.schedules()


async def test_an_unreadable_command_is_answered_and_parked(stage: Stage) -> None:
    await stage.send(broken("me"))
    [answer] = stage.answers("me")
    assert isinstance(answer, JobRejected)
    [parked] = stage.received[topology.DEAD]
    assert parked.routing_key == f"parked.{topology.SCHEDULER_COMMANDS.name}"


async def test_each_command_of_a_batch_is_judged_by_itself(stage: Stage) -> None:
    remove = build_message(named(ScheduleRemoveRequested))
    await stage.send(in_one(broken("me"), build_message(put()), remove))
    assert stage.answers("me")
    assert await stage.store.schedules(), "put, and not removed under the routing key of another command"
    assert sorted(reason for reason, _ in stage.parked()) == [Reason.BAD_FIELDS, Reason.ROUTING_KEY_MISMATCH]


async def test_a_command_of_the_supervisor_is_parked(stage: Stage) -> None:
    data = JobCancelRequestedData(job_id=job_id_of("test", "1"))
    cancel = build_message(JobCancelRequested(id="1", source="test", data=data))
    await stage.send(cancel._replace(routing_key="schedule.put"))
    await stage.send(cancel._replace(exchange="", routing_key=topology.SCHEDULER_COMMANDS.name))
    assert {reason for reason, _ in stage.parked()} == {Reason.ROUTING_KEY_MISMATCH, Reason.WRONG_QUEUE}
