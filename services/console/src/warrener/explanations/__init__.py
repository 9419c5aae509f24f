"""Explain from gathered facts why something does not go on: one answer for the command, the job page and the
console. Nothing here reads a store, a broker or a clock."""

from typing import TYPE_CHECKING

from warrener.explanations.causes import Cause
from warrener.explanations.facts import (
    AgentSubject,
    JobFacts,
    QueueSubject,
    ScheduleFacts,
    Subject,
    UnseenFacts,
)

if TYPE_CHECKING:
    from warrener.explanations.explanation import Explanation


def explain(facts: Subject) -> "Explanation":
    """Explain what the subject waits for, and name the job that ends the agents that it misses."""
    found = _explain(facts)
    if facts.system.ending_jobs and found.cause in (Cause.AGENT_GONE, Cause.AGENT_LOST):
        from warrener.explanations.delivery import name_ending_jobs  # noqa: PLC0415 - see below

        return name_ending_jobs(found, facts)
    return found


def _explain(facts: Subject) -> "Explanation":
    """Each kind of subject has modules of its own."""
    match facts:
        case JobFacts():
            from warrener.explanations.jobs import explain_job  # noqa: PLC0415 - another kind needs it not

            return explain_job(facts)
        case UnseenFacts():
            from warrener.explanations.unseen import explain_unseen  # noqa: PLC0415

            return explain_unseen(facts)
        case ScheduleFacts():
            from warrener.explanations.schedules import explain_schedule  # noqa: PLC0415

            return explain_schedule(facts)
        case QueueSubject() | AgentSubject():
            from warrener.explanations.operations import explain_agent, explain_queue  # noqa: PLC0415

            return explain_queue(facts) if isinstance(facts, QueueSubject) else explain_agent(facts)
        case _:
            from warrener.explanations.operations import explain_type  # noqa: PLC0415

            return explain_type(facts)
