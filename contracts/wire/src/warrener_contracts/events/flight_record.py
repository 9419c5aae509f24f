"""What was seen of an attempt just before it was stopped, or died."""

from pydantic import Field

from warrener_contracts.events.envelope import EventData
from warrener_contracts.events.fields import Sentence, StackTrace


class FlightRecord(EventData, frozen=True):
    """The last that is known of an attempt; whatever could not be found out is left out."""

    stacks: StackTrace | None = Field(default=None, description="Of all threads and tasks.")
    log: StackTrace | None = Field(default=None, description="The last lines that it wrote to its outputs.")
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    progress_note: Sentence | None = None
    cpu_seconds: float | None = Field(
        default=None, ge=0, description="Time on a processor, with all that it has started."
    )
    memory_bytes: int | None = Field(default=None, ge=0, description="Of it and all that it has started.")
    processes: int | None = Field(default=None, ge=0)
    threads: int | None = Field(default=None, ge=0)
    open_files: int | None = Field(default=None, ge=0)
