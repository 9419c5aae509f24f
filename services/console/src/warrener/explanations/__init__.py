"""Explain from gathered facts why something does not go on: one answer for the command, the job page and the
console. Nothing here reads a store, a broker or a clock."""

from warrener.explanations.explanation import Explanation
from warrener.explanations.facts import (
    AgentSubject,
    JobFacts,
    QueueSubject,
    ScheduleFacts,
    Subject,
    UnseenFacts,
)
from warrener.explanations.jobs import explain_job
from warrener.explanations.operations import explain_agent, explain_queue, explain_type
from warrener.explanations.schedules import explain_schedule
from warrener.explanations.unseen import explain_unseen


def explain(facts: Subject) -> Explanation:
    """Explain what the subject waits for."""
    match facts:
        case JobFacts():
            return explain_job(facts)
        case UnseenFacts():
            return explain_unseen(facts)
        case ScheduleFacts():
            return explain_schedule(facts)
        case QueueSubject():
            return explain_queue(facts)
        case AgentSubject():
            return explain_agent(facts)
        case _:
            return explain_type(facts)
