"""The reply to a command: a service has carried it out, or refuses it."""

from typing import Literal

from pydantic import Field

from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import ANYONE, REPLIES, SCHEDULER, SUPERVISOR, Event, Route
from warrener_contracts.fields import ReplyAddress, Sentence, optional_field
from warrener_contracts.topology import EVENTS


class CommandData(EventData, frozen=True):
    """The data of a command whose receiver replies."""

    reply_to: ReplyAddress | None = optional_field("Reply address for command.handled.")


class CommandHandledData(EventData, frozen=True):
    """The end of a command."""

    command_id: str = Field(description="The id of the command, as received.")
    command_source: str = Field(description="Its source, as received.")
    command: str = Field(description="Its type.")
    accepted: bool = Field(description="False: nothing was changed, and `detail` says why.")
    detail: Sentence = Field(default="", description="The reason of a refusal, or more about the effect.")


class CommandHandled(
    Event[CommandHandledData],
    frozen=True,
    route=Route(EVENTS, "{event}", (SCHEDULER, SUPERVISOR), (ANYONE,)),
    also=(REPLIES,),
):
    """A command was carried out, or refused. Sent to its requester alone."""

    type: Literal["command.handled.v1"] = "command.handled.v1"
