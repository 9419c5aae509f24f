"""Why there is no job by an id: parked, rejected, still on its way, pruned, or never requested. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk
from warrener.explanations.facts import MAX_SKEW, SystemFacts, UnseenFacts, counted
from warrener.explanations.suggestions import DOCTOR, JOB_TYPES, PARKED, requeue
from warrener_contracts.events import Reason
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store.parked.rows import ParkedMessage

_YOUNG = timedelta(minutes=10)
_UNREADABLE = (
    Cause.SCHEMA_UNKNOWN,
    "Services of this version cannot read the request",
    "Upgrade the services, then requeue it; or publish a version that they know",
)
_REJECTIONS: Mapping[str, tuple[Cause, str, str]] = {
    Reason.UNKNOWN_JOB_TYPE: (
        Cause.JOB_TYPE_UNKNOWN,
        "The request was rejected, as no agent has announced its job type",
        "Start an agent that knows the job type, then requeue the request",
    ),
    Reason.BAD_ARGUMENTS: (
        Cause.ARGUMENTS_REFUSED,
        "The request was rejected for its arguments",
        "Request it again with other arguments, under a new id",
    ),
    Reason.UNKNOWN_EVENT: _UNREADABLE,
    Reason.UNKNOWN_VERSION: _UNREADABLE,
}
"""The cause, its sentence, and what to do, by the reason for which a request is parked."""


def explain_unseen(facts: UnseenFacts) -> Explanation:
    """Explain the absence of a job, a schedule, a queue, an agent and a job type by this name."""
    walk = around.begin_walk(facts.system, facts.text, "not in the store", facts.made_at)
    walk.passed("store", "no job, schedule, queue, agent or job type has this id or name")
    if facts.parked is not None:
        return _parked(walk, facts.parked)
    walk.passed("parked messages", f"none of the newest {facts.searched} has it")
    waiting, queue = walk.system.requests_waiting, REQUESTS_QUEUE.name
    perhaps = f"{counted(waiting, 'request')}, perhaps this one among them"
    does = f"accepts what waits: {perhaps}" if waiting else "accepts requests"
    if found := (
        _pruned(walk, facts)
        or around.check_store(walk)
        or around.check_broker(walk)
        or around.check_scheduler(walk, does)
    ):
        return found
    if waiting:
        sentence = f"Queue {queue} holds {perhaps}"
        then = "A scheduler accepts them in order; if their number stays, it is frozen or its store slow"
        return walk.end(Cause.SCHEDULER_LATE, sentence, DOCTOR, next=then, by_itself=True)
    walk.passed("requests", f"none waits in {queue}")
    if facts.made_at is not None and (age := walk.now - facts.made_at) < _YOUNG:
        sentence = "No scheduler has accepted the request, though its id is new"
        then = "A frozen scheduler may hold it: another one accepts it once that one has ended"
        return walk.end(Cause.SCHEDULER_LATE, sentence, DOCTOR, next=then, by_itself=age < around.LATE)
    return walk.end(
        Cause.NEVER_SEEN,
        "No scheduler has accepted a request with this id",
        PARKED,
        next="Check its publisher: did it get a confirm, and from which broker, virtual host and namespace?"
        " If from these, a frozen scheduler may hold the request",
    )


def _parked(walk: Walk, parked: ParkedMessage) -> Explanation:
    """End the walk at a parked message: a rejected request, or a message that no service could read."""
    reason, remedy = parked.reason, requeue(parked.parked_id)
    cause, sentence = Cause.MESSAGE_PARKED, f"A message about it is parked from {parked.queue} ({reason})"
    then = "Correct the cause, then requeue the message, or drop it"
    if reason in _REJECTIONS:
        cause, sentence, then = _REJECTIONS[reason]
    elif parked.queue == REQUESTS_QUEUE.name:
        cause, sentence = Cause.REQUEST_REJECTED, f"The request was rejected ({reason})"
    if reason == Reason.UNKNOWN_JOB_TYPE and parked.routing_key is not None:
        # A scheduler has such a request requeued once an agent announces its job type.
        remedy, then = JOB_TYPES, "The request goes on by itself once an agent announces the job type"
    elif cause is Cause.ARGUMENTS_REFUSED:
        remedy = JOB_TYPES
    return walk.end(cause, sentence, remedy, detail=parked.detail, since=parked.parked_at, next=then)


def _pruned(walk: Walk, facts: UnseenFacts) -> Explanation | None:
    made, oldest = facts.made_at, facts.oldest_job_at
    if facts.known_from is not None:
        sentence = f"Retention has deleted the job, which {facts.known_from} still names"
    elif made is not None and oldest is not None and made < oldest - MAX_SKEW:
        elsewhere = "or it was requested elsewhere: its id is older than all jobs here"
        sentence = f"Retention has deleted the job, {elsewhere}"
    else:
        return None
    then = "Look into the files of WARRENER_SCHEDULER_EXPORT_FOLDER, if schedulers export what they delete"
    return walk.end(Cause.PRUNED, sentence, since=made, next=then)


def explain_unreachable_store(text: str, why: str, do: str | None, now: datetime) -> Explanation:
    """Explain that nothing can be looked up."""
    walk, sentence = Walk(SystemFacts(now=now), text, "unknown"), "The store does not answer"
    then = do[:1].upper() + do[1:] if do else "Services go on by themselves once it answers"
    return walk.end(Cause.STORE_UNREACHABLE, sentence, DOCTOR, detail=why, next=then)
