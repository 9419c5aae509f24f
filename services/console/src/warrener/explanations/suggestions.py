"""Suggestions of explanations: each command, with the form or the page of the console beside it. Pure."""

import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

from warrener.explanations.explanation import Suggestion
from warrener_contracts.circuit_breaker import paused_queue

if TYPE_CHECKING:
    from warrener_contracts.events import Call

DOCTOR = Suggestion(command="warrener doctor")
JOB_TYPES = Suggestion(label="Job types", command="warrener job-types --json", address="/job-types")
PARKED = Suggestion(label="Parked messages", command="warrener parked", address="/parked")


def run(command: str) -> Suggestion:
    """Suggest a command for which the console has nothing."""
    return Suggestion(command=command)


def another_agent(queue: str) -> tuple[Suggestion, Suggestion]:
    return show_queue(queue), run(f"warrener agent MODULE --queue {queue}")


def show_queue(queue: str) -> Suggestion:
    return Suggestion(label=f"Queue {queue}", address=f"/queues/{quote(queue, safe='')}")


def show_agent(agent_id: str) -> Suggestion:
    address = f"/agents/{quote(agent_id, safe='')}"
    return Suggestion(label=f"Agent {agent_id}", command=f"warrener explain {agent_id}", address=address)


def show_job(job_id: UUID) -> Suggestion:
    return Suggestion(
        label=f"Job {str(job_id)[-8:]}", command=f"warrener job {job_id}", address=f"/jobs/{job_id}"
    )


def show_journal(job_id: UUID) -> Suggestion:
    address = f"/jobs/{job_id}#calls"
    return Suggestion(label="Calls", command=f"warrener job {job_id} --journal", address=address)


def send_signal(job_id: UUID, name: str) -> Suggestion:
    """Suggest to send a signal: the job's page has a form for its data."""
    command = f"warrener send {job_id} {name} --data JSON"
    return Suggestion(label=f"Send {name}…", command=command, address=f"/jobs/{job_id}#calls")


def end_hold(job_id: UUID, failed: "Call | None") -> tuple[Suggestion, ...]:
    """Suggest the ends of a hold, of which only a person can choose one; `failed`: the call that failed
    last."""
    retry = () if failed is None else (retry_call(job_id, failed),)
    return retry + tuple(
        Suggestion(
            label=label,
            command=f"warrener {verb} {job_id}",
            address=f"/jobs/{job_id}/{verb}",
            verb=f"job.{verb}",
        )
        for verb, label in (("resume", "Try again"), ("undo", "Undo its calls"))
    )


def retry_call(job_id: UUID, call: "Call") -> Suggestion:
    """Suggest to request the child job of a failed call again."""
    return Suggestion(
        label=f"Retry {call.name}",
        command=f"warrener resume {job_id} --retry {shlex.quote(call.call_id)}",
        address=f"/jobs/{job_id}/resume",
        verb="job.resume",
        fields={"retry": call.call_id},
    )


def cancel_job(job_id: UUID) -> Suggestion:
    """Suggest to end a job, which only a person can decide: its page has the button."""
    return run(f"warrener cancel {job_id}")


def redrive_job(job_id: UUID) -> Suggestion:
    return Suggestion(
        label="Redrive",
        command=f"warrener dead-letters redrive {job_id}",
        address="/jobs/redrive",
        verb="job.redrive",
        fields={"ids": str(job_id)},
    )


def show_dead_letter(job_id: UUID, fingerprint: str | None) -> Suggestion:
    """Suggest a look at a dead letter, and at others of its cause."""
    address = f"/dead-letters/{fingerprint or 'none'}"
    command = f"warrener dead-letters show {job_id}"
    return Suggestion(label="Dead letters of this cause", command=command, address=address)


def breaker(name: str, *, is_manual: bool) -> tuple[Suggestion, ...]:
    """Suggest a look at a breaker; a page can close one that does not close by itself. A queue is resumed."""
    address = f"/breakers/{quote(name, safe='')}/close"
    look = Suggestion(label="Breakers", command=f"warrener breaker show {name}", address="/breakers")
    label = f"Resume {queue}" if (queue := paused_queue(name)) else f"Close {name}"
    close = Suggestion(label=label, address=address, verb="breaker.close")
    return (close, look) if is_manual else (look,)


def show_schedule(name: str) -> Suggestion:
    address = f"/schedules/{quote(name, safe='')}"
    return Suggestion(label=f"Schedule {name}", command=f"warrener schedule show {name}", address=address)


def resume_schedule(name: str) -> Suggestion:
    address = f"/schedules/{quote(name, safe='')}/resume"
    command = f"warrener schedule resume {name}"
    return Suggestion(label="Resume", command=command, address=address, verb="schedule.resume")


def requeue(parked_id: str) -> Suggestion:
    """Suggest to put a parked message back into its queue."""
    return Suggestion(
        label="Requeue",
        command=f"warrener parked requeue {parked_id}",
        address="/parked/requeue",
        verb="parked.requeue",
        fields={"ids": parked_id},
    )
