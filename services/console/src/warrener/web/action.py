"""An action of the console: a command that a form of a page or a program sends."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warrener.operations.noun import ActionBody, Call, Outcome
from warrener.operations.roles import Principal, Role
from warrener.web.console import Console

REPLY_TIMEOUT = 5.0
"""Seconds to wait for the service that carries an action out; it is carried out later too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """The request of an action: its principal, path parameters and checked fields."""

    console: Console
    principal: Principal
    path: Mapping[str, str]
    body: ActionBody

    def call(self, key: str) -> Call[Any]:
        """The use of a verb with this subject."""
        return Call(
            backend=self.console,
            key=key,
            by=self.principal.name,
            body=self.body,
            reply_timeout=REPLY_TIMEOUT,
        )


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
