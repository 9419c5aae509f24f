"""What anyone may ask about dead letters (exchange `warrener.requests`): many at once, as a campaign that the
scheduler carries out. The campaign's id is that of the event: asked again, it is the same campaign."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import JobType, JsonSafeObject, QueueName, Sentence, Timestamp
from warrener_contracts.policy import PolicyOverrides

Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
"""What has one cause has one of these."""


class DeadLetterSelection(EventData, frozen=True):
    """Which dead letters: those that nobody has dealt with yet, and of which all that is said here holds."""

    job_ids: tuple[UUID, ...] = Field(default=(), max_length=1000, description="Empty: any.")
    fingerprint: Fingerprint | None = None
    job_type: JobType | None = None
    died_after: Timestamp | None = None
    died_before: Timestamp | None = None


class JobRedriveRequestedData(EventData, frozen=True):
    """Ask for dead jobs again: first a canary of them, then the others at a rate; it stops by itself when
    what they died of comes back."""

    which: DeadLetterSelection
    limit: int | None = Field(default=None, ge=1, description="At most so many, the first that died first.")
    edits: JsonSafeObject = Field(
        default_factory=dict, description="A JSON merge patch (RFC 7396) of each job's arguments."
    )
    queue: QueueName | None = Field(default=None, description="None: the queue of the dead job.")
    policy: PolicyOverrides | None = Field(
        default=None, description="Parts of the job type's policy, which otherwise is as declared now."
    )
    canary: int = Field(default=10, ge=0, le=1000, description="All of these must end before the others.")
    rate: float = Field(default=20.0, gt=0, le=1_000, description="Jobs a second, after the canary.")
    tolerate: int = Field(default=0, ge=0, description="How many may die again before it stops.")
    even_if_succeeded: bool = Field(
        default=False,
        description="Those too of which the same request has succeeded since under another id.",
    )
    dry_run: bool = Field(default=False, description="Check and count everything, ask for nothing.")
    by: Sentence = Field(description="Who asks; it is kept.")
    reason: Sentence = ""


class JobRedriveRequested(Event[JobRedriveRequestedData], frozen=True):
    """Each job that is asked for again is a new job with an id derived from the dead one's."""

    type: Literal["job.redrive_requested.v1"] = "job.redrive_requested.v1"


class JobDropRequestedData(EventData, frozen=True):
    """Dead jobs that nobody will ask for again. They stay readable, with who said so and why."""

    which: DeadLetterSelection
    by: Sentence = Field(description="Who asks; it is kept.")
    reason: Sentence = Field(min_length=1, description="Why; it is kept with each of them.")


class JobDropRequested(Event[JobDropRequestedData], frozen=True):
    """Marks dead letters as dealt with."""

    type: Literal["job.drop_requested.v1"] = "job.drop_requested.v1"


class RedriveChangeRequestedData(EventData, frozen=True):
    """Stop a campaign, or go on with one that was stopped, by a person or by itself."""

    campaign_id: UUID
    change: Literal["stop", "resume"]
    by: Sentence = Field(description="Who asks; it is kept.")
    reason: Sentence = ""


class RedriveChangeRequested(Event[RedriveChangeRequestedData], frozen=True):
    """What was asked for already goes on; a campaign that is resumed begins with a canary again."""

    type: Literal["job.campaign_change_requested.v1"] = "job.campaign_change_requested.v1"
