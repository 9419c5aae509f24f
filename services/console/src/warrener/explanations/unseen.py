"""Why there is no job by an id: parked, rejected, still on its way, pruned, or never requested. Pure."""

from datetime import datetime, timedelta

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import MAX_SKEW, UnseenFacts, counted
from warrener.explanations.suggestions import DOCTOR, JOB_TYPES, PARKED, requeue
from warrener_contracts.events import Reason
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store.parked.rows import ParkedMessage

_YOUNG = timedelta(minutes=10)
_UNREADABLE = frozenset({Reason.UNKNOWN_EVENT, Reason.UNKNOWN_VERSION})


def explain_unseen(facts: UnseenFacts) -> Explanation:
    """Explain the absence of a job, a schedule, a queue, an agent and a job type by this name."""
    system, walk = facts.system, Walk(facts.text, "not in the store", facts.system.now, facts.made_at)
    around.note_troubles(walk, system)
    walk.passed("store", "no job, schedule, queue, agent or job type has this id or name")
    if facts.parked is not None:
        return explain_parked(walk, facts.parked)
    walk.passed("parked messages", f"none of the newest {facts.searched} has it")
    return first(
        lambda: _pruned(walk, facts),
        lambda: around.check_store(walk, system),
        lambda: around.check_broker(walk, system),
        lambda: around.check_scheduler(walk, system, _does(system.requests_waiting)),
        lambda: _among_requests(walk, facts),
    ) or _never_seen(walk, facts)


def _among_requests(walk: Walk, facts: UnseenFacts) -> Explanation | None:
    waiting = facts.system.requests_waiting
    if not waiting:
        walk.passed("requests", f"none waits in {REQUESTS_QUEUE.name}")
        return None
    return walk.end(
        "requests",
        Cause.SCHEDULER_LATE,
        f"Queue {REQUESTS_QUEUE.name} holds {counted(waiting, 'request')}, perhaps this one among them",
        DOCTOR,
        next="A scheduler accepts them in order; if their number stays, it is frozen or its store slow",
        by_itself=True,
    )


def _never_seen(walk: Walk, facts: UnseenFacts) -> Explanation:
    made, now = facts.made_at, facts.system.now
    if made is not None and now - made < _YOUNG:
        return walk.end(
            "requests",
            Cause.SCHEDULER_LATE,
            "No scheduler has accepted the request, though its id is new",
            DOCTOR,
            next="A frozen scheduler may hold it: another one accepts it once that one has ended",
            by_itself=now - made < around.LATE,
        )
    return walk.end(
        "origin",
        Cause.NEVER_SEEN,
        "No scheduler has accepted a request with this id",
        PARKED,
        next="Check its publisher: did it get a confirm, and from which broker, virtual host and namespace?"
        " If from these, a frozen scheduler may hold the request",
    )


def explain_parked(walk: Walk, parked: ParkedMessage) -> Explanation:
    """End the walk at a parked message: a rejected request, or a message that no service could read."""
    cause, sentence, remedy = _cause(parked)
    # A scheduler has such a request requeued once an agent announces its job type.
    waits = parked.reason == Reason.UNKNOWN_JOB_TYPE and parked.routing_key is not None
    is_mended_elsewhere = waits or cause is Cause.ARGUMENTS_REFUSED
    return walk.end(
        "parked messages",
        cause,
        sentence,
        JOB_TYPES if is_mended_elsewhere else requeue(parked.parked_id),
        detail=parked.detail,
        since=parked.parked_at,
        next="The request goes on by itself once an agent announces the job type" if waits else remedy,
    )


def _cause(parked: ParkedMessage) -> tuple[Cause, str, str]:
    """The cause, its sentence, and what to do."""
    if parked.reason == Reason.UNKNOWN_JOB_TYPE:
        return (
            Cause.JOB_TYPE_UNKNOWN,
            "The request was rejected, as no agent has announced its job type",
            "Start an agent that knows the job type, then requeue the request",
        )
    if parked.reason == Reason.BAD_ARGUMENTS:
        return (
            Cause.ARGUMENTS_REFUSED,
            "The request was rejected for its arguments",
            "Request it again with other arguments, under a new id",
        )
    if parked.reason in _UNREADABLE:
        return (
            Cause.SCHEMA_UNKNOWN,
            "Services of this version cannot read the request",
            "Upgrade the services, then requeue it; or publish a version that they know",
        )
    correct = "Correct the cause, then requeue the message, or drop it"
    if parked.queue == REQUESTS_QUEUE.name:
        return Cause.REQUEST_REJECTED, f"The request was rejected ({parked.reason})", correct
    sentence = f"A message about it is parked from {parked.queue} ({parked.reason})"
    return Cause.MESSAGE_PARKED, sentence, correct


def _does(waiting: int) -> str:
    if not waiting:
        return "accepts requests"
    return f"accepts what waits: {counted(waiting, 'request')}, perhaps this one among them"


def _pruned(walk: Walk, facts: UnseenFacts) -> Explanation | None:
    made, oldest = facts.made_at, facts.oldest_job_at
    if facts.known_from is not None:
        sentence = f"Retention has deleted the job, which {facts.known_from} still names"
    elif made is not None and oldest is not None and made < oldest - MAX_SKEW:
        sentence = (
            "Retention has deleted the job, or it was requested elsewhere: its id is older than all jobs here"
        )
    else:
        return None
    return walk.end(
        "retention",
        Cause.PRUNED,
        sentence,
        since=made,
        next="Look into the files of WARRENER_SCHEDULER_EXPORT_FOLDER, if schedulers export what they delete",
        over=True,
    )


def explain_unreachable_store(text: str, why: str, do: str | None, now: datetime) -> Explanation:
    """Explain that nothing can be looked up."""
    return Walk(text, "unknown", now).end(
        "store",
        Cause.STORE_UNREACHABLE,
        "The store does not answer",
        DOCTOR,
        detail=why,
        next=do[:1].upper() + do[1:] if do else "Services go on by themselves once it answers",
    )
