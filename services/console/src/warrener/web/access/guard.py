"""The guard of the console: decides who a request comes from, and whether it may write."""

from dataclasses import dataclass
from typing import Protocol

from fastapi import Request
from starlette.responses import Response

from warrener.web.access.roles import Principal, Role
from warrener.web.action import Outcome


class AccessRefused(Exception):
    """The request may not go on; the text is a sentence for its reader. `answer`: sent as it is, if given."""

    def __init__(self, sentence: str, status: int = 403, answer: Response | None = None) -> None:
        self.sentence, self.status, self.answer = sentence, status, answer
        super().__init__(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedCommand:
    """A command as the audit log has it: who did what to which subject, why, and how it ended."""

    principal: Principal
    action: str
    subject: str
    reason: str
    outcome: Outcome


class Guard(Protocol):
    """Access control of all routes."""

    async def identify(self, request: Request) -> Principal:
        """Return the principal of a request. Raises AccessRefused."""
        ...

    def csrf_token(self, request: Request) -> str:
        """Return the token that forms of this reader carry."""
        ...

    async def check_write(self, request: Request, principal: Principal, csrf_token: str | None) -> None:
        """Raise AccessRefused unless the request was sent by a page of ours or with a credential of its own.

        `csrf_token` is the field of the form, or the header `X-CSRF-Token`.
        """
        ...

    async def record(self, command: AuditedCommand) -> None:
        """Write a command into the audit log, allowed or refused."""
        ...


class OpenGuard:
    """Lets everybody do everything: for a console that listens on loopback alone."""

    async def identify(self, request: Request) -> Principal:
        return Principal("local", Role.ADMIN, "open")

    def csrf_token(self, request: Request) -> str:
        return "open"

    async def check_write(self, request: Request, principal: Principal, csrf_token: str | None) -> None:
        if csrf_token is None and request.headers.get("content-type", "").split(";")[0] != "application/json":
            raise AccessRefused(
                "expected a form of this console, got one without its token; open the page again"
            )

    async def record(self, command: AuditedCommand) -> None:
        """Record nothing."""
