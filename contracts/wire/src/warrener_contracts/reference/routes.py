"""Who says each event to whom, and under which routing key."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from warrener_contracts import events as e
from warrener_contracts import topology
from warrener_contracts.registry import EventClass


class Party(StrEnum):
    """Who speaks and listens on the wire."""

    ANYONE = "anyone"
    SCHEDULER = "scheduler"
    AGENT = "agent"
    SUPERVISOR = "supervisor"


ANYONE, SCHEDULER, AGENT, SUPERVISOR = Party.ANYONE, Party.SCHEDULER, Party.AGENT, Party.SUPERVISOR


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of address: an exchange and a routing key with parameters in braces."""

    name: str
    exchange: str
    key: str
    senders: tuple[Party, ...]
    receivers: tuple[Party, ...]
    kinds: tuple[EventClass, ...]
    about: str
    persistent: bool = True

    @property
    def mandatory(self) -> bool:
        """Whether the publisher is told when no queue is bound for the key."""
        return self.exchange in {topology.REQUESTS, topology.DISPATCH}


PARAMETERS: Mapping[str, str] = {
    "job_type": "A job type: dotted words, such as flights.load.",
    "queue": "The queue whose agents may take it; `default` if nothing else is said.",
    "what": "What became of the attempt: the second word of the event's type.",
    "agent_id": "The agent.",
    "state": "The terminal state: succeeded, dead, cancelled or expired.",
    "breaker_state": "open, half_open or closed.",
    "reply_to": "The reply address that the asker has put into its request.",
    "service": "scheduler, or agent.",
    "schedule": "The name of a schedule: dotted words.",
    "verb": "What is asked for: put, pause_requested, resume_requested, remove_requested, trigger_requested.",
    "fate": "What became of the tick: fired, caught_up, coalesced, skipped, waiting or triggered.",
    "rung": "The step of the delay ladder: " + ", ".join(level.name for level in topology.DELAY_LEVELS) + ".",
}

_ATTEMPT_EVENTS: tuple[EventClass, ...] = (
    e.AttemptStarted,
    e.AttemptProgressed,
    e.AttemptSucceeded,
    e.AttemptFailed,
    e.AttemptCancelled,
    e.AttemptReleased,
    e.AttemptCheckpointed,
    e.AttemptTimedOut,
    e.AttemptLost,
    e.AttemptStartTimedOut,
)

ROUTES: tuple[Route, ...] = (
    Route(
        "job-requests",
        topology.REQUESTS,
        "{job_type}",
        (ANYONE, AGENT),
        (SCHEDULER,),
        (e.JobRequested,),
        "The only door by which a job enters. An agent asks here for the follow-ups of its jobs.",
    ),
    Route(
        "cancel-requests",
        topology.REQUESTS,
        "job.cancel_requested",
        (ANYONE,),
        (SCHEDULER,),
        (e.JobCancelRequested,),
        "The scheduler passes it on, unchanged, to the supervisor.",
    ),
    Route(
        "redrive-requests",
        topology.REQUESTS,
        "job.redrive_requested",
        (ANYONE,),
        (SCHEDULER,),
        (e.JobRedriveRequested,),
        "Dead jobs are asked for again, a canary of them first.",
    ),
    Route(
        "drop-requests",
        topology.REQUESTS,
        "job.drop_requested",
        (ANYONE,),
        (SCHEDULER,),
        (e.JobDropRequested,),
        "Dead jobs that nobody will ask for again.",
    ),
    Route(
        "campaign-changes",
        topology.REQUESTS,
        "job.campaign_change_requested",
        (ANYONE,),
        (SCHEDULER,),
        (e.RedriveChangeRequested,),
        "A campaign over dead letters is stopped or resumed.",
    ),
    Route(
        "announcements",
        topology.REQUESTS,
        "agent.announced",
        (AGENT,),
        (SCHEDULER,),
        (e.AgentAnnounced,),
        "An agent tells what it can run, before it receives its first attempt.",
    ),
    Route(
        "dispatch",
        topology.DISPATCH,
        "{queue}.{job_type}",
        (SCHEDULER, SUPERVISOR),
        (AGENT,),
        (e.AttemptDispatched,),
        "An attempt waits here until an agent has a free slot.",
    ),
    Route(
        "delayed-dispatch",
        topology.DELAY,
        "{rung}.{queue}.{job_type}",
        (SCHEDULER, SUPERVISOR, AGENT),
        (AGENT,),
        (e.AttemptDispatched,),
        "The same by way of the delay ladder: it comes out on warrener.return under the same routing key.",
    ),
    Route(
        "attempt-status",
        topology.STATUS,
        "attempt.{what}.{job_type}",
        (AGENT, SUPERVISOR),
        (SUPERVISOR,),
        _ATTEMPT_EVENTS,
        "Agents tell what became of an attempt; the watchdog tells what they cannot tell any more.",
    ),
    Route(
        "cancel-judgement",
        topology.STATUS,
        "job.cancel_requested",
        (SCHEDULER, SUPERVISOR),
        (SUPERVISOR,),
        (e.JobCancelRequested,),
        "One service judges: the supervisor alone cancels. Of a tree, it tells itself the follow-ups.",
    ),
    Route(
        "breaker-requests",
        topology.REQUESTS,
        "breaker.set_requested",
        (ANYONE,),
        (SCHEDULER,),
        (e.BreakerSetRequested,),
        "Opens or closes a circuit breaker by hand. The scheduler passes it on to the supervisor.",
    ),
    Route(
        "breaker-orders",
        topology.STATUS,
        "breaker.set_requested",
        (SCHEDULER,),
        (SUPERVISOR,),
        (e.BreakerSetRequested,),
        "One service keeps the breakers: the supervisor.",
    ),
    Route(
        "deadlines",
        topology.STATUS,
        "job.deadline_passed",
        (SUPERVISOR,),
        (SUPERVISOR,),
        (e.JobDeadlinePassed,),
        "The watchdog's word that a job's deadline has passed.",
    ),
    Route(
        "case-acknowledgements",
        topology.STATUS,
        "case.acknowledge_requested",
        (ANYONE,),
        (SUPERVISOR,),
        (e.IncidentAcknowledgeRequested,),
        "Somebody is on it: no further alerts of this case.",
    ),
    Route(
        "case-snoozes",
        topology.STATUS,
        "case.snooze_requested",
        (ANYONE,),
        (SUPERVISOR,),
        (e.IncidentSnoozeRequested,),
        "Nothing of this case's ladder until then.",
    ),
    Route(
        "case-closures",
        topology.STATUS,
        "case.close_requested",
        (ANYONE,),
        (SUPERVISOR,),
        (e.IncidentCloseRequested,),
        "The case is over; raised again, it begins anew.",
    ),
    Route(
        "parked-requeues",
        topology.STATUS,
        "parked.requeue_requested",
        (ANYONE,),
        (SUPERVISOR,),
        (e.ParkedRequeueRequested,),
        "Parked messages go to their queues again.",
    ),
    Route(
        "parked-drops",
        topology.STATUS,
        "parked.drop_requested",
        (ANYONE,),
        (SUPERVISOR,),
        (e.ParkedDropRequested,),
        "Parked messages are deleted for good.",
    ),
    Route(
        "heartbeats",
        topology.HEARTBEATS,
        "agent.{agent_id}",
        (AGENT,),
        (SUPERVISOR,),
        (e.AgentHeartbeat,),
        "Presence; it renews the leases of what the agent runs. Every supervisor receives every one.",
        persistent=False,
    ),
    Route(
        "heartbeat-requests",
        topology.CONTROL,
        "agent.{agent_id}",
        (SUPERVISOR,),
        (AGENT,),
        (e.AgentHeartbeatRequested,),
        "Before an agent counts as lost, it is asked for a heartbeat.",
        persistent=False,
    ),
    Route(
        "control",
        topology.CONTROL,
        "all",
        (SUPERVISOR,),
        (AGENT,),
        (e.AttemptCancel,),
        "To every agent: whoever does not run the job passes it over. A lost one costs time alone.",
        persistent=False,
    ),
    Route(
        "breaker-control",
        topology.CONTROL,
        "all",
        (SUPERVISOR,),
        (AGENT,),
        (e.BreakerChanged,),
        "An agent gives back, uncharged, what an open breaker holds back. Repeated while it is open, so that "
        "an agent that comes later hears it too.",
        persistent=False,
    ),
    Route(
        "breaker-changed",
        topology.EVENTS,
        "breaker.changed.{breaker_state}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.BreakerChanged,),
        "A circuit breaker has opened, lets probes through, or has closed.",
    ),
    Route(
        "job-finished",
        topology.EVENTS,
        "job.finished.{state}.{job_type}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.JobFinished,),
        "A job is over, for whoever binds a queue.",
    ),
    Route(
        "job-retrying",
        topology.EVENTS,
        "job.retrying.{job_type}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.JobRetrying,),
        "An attempt went wrong and there will be another.",
    ),
    Route(
        "job-waiting",
        topology.EVENTS,
        "job.waiting.{job_type}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.JobWaiting,),
        "A job waits because its dispatch queue takes no messages.",
    ),
    Route(
        "job-dead",
        topology.EVENTS,
        "job.dead.{job_type}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.JobDead,),
        "A job has become a dead letter.",
    ),
    Route(
        "schedule-requests",
        topology.REQUESTS,
        "schedule.{verb}",
        (ANYONE,),
        (SCHEDULER,),
        (
            e.SchedulePut,
            e.SchedulePauseRequested,
            e.ScheduleResumeRequested,
            e.ScheduleRemoveRequested,
            e.ScheduleTriggerRequested,
            e.ScheduleBackfillRequested,
        ),
        "What anyone may ask of a schedule.",
    ),
    Route(
        "schedule-ticked",
        topology.EVENTS,
        "schedule.ticked.{fate}.{schedule}",
        (SCHEDULER,),
        (ANYONE,),
        (e.ScheduleTicked,),
        "What became of a tick.",
    ),
    Route(
        "job-rejected",
        topology.EVENTS,
        "job.rejected.{job_type}",
        (SCHEDULER,),
        (ANYONE,),
        (e.JobRejected,),
        "A request was refused; `unknown` stands for a job type that could not be read.",
    ),
    Route(
        "job-deduplicated",
        topology.EVENTS,
        "job.deduplicated",
        (SCHEDULER,),
        (ANYONE,),
        (e.JobDeduplicated,),
        "A request was not needed: its idempotency key was used before.",
    ),
    Route(
        "agent-lost",
        topology.EVENTS,
        "agent.lost.{agent_id}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.AgentLost,),
        "An agent has fallen silent.",
    ),
    Route(
        "service-deaf",
        topology.EVENTS,
        "service.deaf.{service}",
        (SUPERVISOR,),
        (ANYONE,),
        (e.ServiceUnresponsive,),
        "Messages wait in a queue that nobody consumes.",
    ),
    Route(
        "replies",
        topology.EVENTS,
        "reply.{reply_to}",
        (SCHEDULER, SUPERVISOR),
        (ANYONE,),
        (e.JobFinished, e.JobRejected, e.JobDeduplicated, e.JobWaiting),
        "Answers to one asker, who has bound an exclusive queue to this key before asking.",
    ),
)


def routes_of(kind: EventClass) -> list[Route]:
    """Where an event may be met."""
    return [route for route in ROUTES if kind in route.kinds]
