"""Explain from gathered facts why something does not go on: one answer for the command, the job page and the
console. Nothing here reads a store, a broker or a clock.

Each kind of subject has modules of its own, which import no rows of another kind.
"""

from typing import TYPE_CHECKING

from warrener.explanations.causes import Cause
from warrener.explanations.facts import JobFacts, ScheduleFacts, Subject, UnseenFacts

if TYPE_CHECKING:
    from warrener.explanations.explanation import Explanation


def explain(facts: Subject) -> "Explanation":
    """Explain what the subject waits for, and name the job that ends the agents that it misses."""
    queues: tuple[str, ...]
    match facts:
        case JobFacts():
            from warrener.explanations.jobs import explain_job  # noqa: PLC0415 - another kind needs it not

            parked_child = None if facts.parked_child is None else explain(facts.parked_child)
            found, queues = explain_job(facts, parked_child), (facts.row.queue,)
        case UnseenFacts():
            from warrener.explanations.unseen import explain_unseen  # noqa: PLC0415

            return explain_unseen(facts)
        case ScheduleFacts():
            from warrener.explanations.schedules import explain_schedule  # noqa: PLC0415

            return explain_schedule(facts)
        case _:
            from warrener.explanations.operations import explain_operation  # noqa: PLC0415

            found, queues = explain_operation(facts)
    if facts.system.ending_jobs and found.cause in (Cause.AGENT_GONE, Cause.AGENT_LOST):
        from warrener.explanations.delivery import name_ending_jobs  # noqa: PLC0415

        own = facts.row.job_id if isinstance(facts, JobFacts) else None
        return name_ending_jobs(found, facts.system, queues, own)
    return found
