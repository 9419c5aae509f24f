"""Topics: the changes that a page may depend on. Pure.

The routing key of an event names its kind and its job type or schedule; a job's id is searched for in the
body. So no body is decoded, however many events arrive.
"""

from collections.abc import Iterable, Iterator

PATTERNS = ("job.#", "schedule.#", "breaker.#", "agent.#", "service.#")
"""Keys of the events that change a page. Replies to single requesters are not among them."""

_JOB = "job:"
_QUEUE = "queue:"
_OF_JOBS = ("jobs", "queues", "overview")


def topics_of(routing_key: str, body: bytes, watched: Iterable[str]) -> set[str]:
    """Find the topics of a message: general ones, those of its type or schedule, and watched jobs in it.

    A message does not name its dispatch queue, so it changes each queue that is watched.
    """
    kind, _, rest = routing_key.partition(".")
    word, _, rest = rest.partition(".")
    return set(_topics(kind, word, rest, body, watched))


def _topics(kind: str, word: str, rest: str, body: bytes, watched: Iterable[str]) -> Iterator[str]:
    match kind:
        case "job":
            yield from _of_job(word, rest, body, watched)
        case "schedule":
            _, _, name = rest.partition(".")
            yield from ("schedules", "overview", f"schedule:{name}")
        case "breaker":
            yield from ("breakers", "incidents", "jobs", "overview")
        case "agent":
            yield from ("agents", "jobs", "overview")
        case "service":
            yield from ("incidents", "queues", "overview")
        case _:
            pass


def _of_job(word: str, rest: str, body: bytes, watched: Iterable[str]) -> Iterator[str]:
    yield from _OF_JOBS
    state, _, job_type = rest.partition(".") if word == "finished" else ("", "", rest)
    yield f"type:{job_type}"
    if word == "dead" or state == "dead":
        yield from ("dead-letters", "incidents")
    if word == "rejected":
        yield "parked"
    for topic in watched:
        if topic.startswith(_QUEUE) or (topic.startswith(_JOB) and topic.removeprefix(_JOB).encode() in body):
            yield topic
