"""An action of the console: a command that a form of a page or a program sends."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

from warrener.web.access.roles import Principal, Role
from warrener.web.console import Console


class ActionBody(BaseModel):
    """Fields of every action. `reason` stands in the audit log."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an action: a sentence, JSON for programs, and the page to go to afterwards."""

    accepted: bool
    sentence: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """The request of an action: its principal, path parameters and checked fields."""

    console: Console
    principal: Principal
    path: Mapping[str, str]
    body: ActionBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action: `POST {path}` for forms and `POST /api/v1{path}` for JSON, with one role and one body.

    `name` stands in the audit log and in the table of roles. `subject` names what the action is done to.
    """

    name: str
    path: str
    role: Role
    body: type[ActionBody]
    subject: Callable[[Mapping[str, str], ActionBody], str]
    perform: Callable[[ActionRequest], Awaitable[Outcome]]
    needs_reason: bool = False
