"""The HTTP API: typed reads and their routes. Each module may have a `router`, served below /api/v1.

Pages call the same functions that answer the routes.
"""

from typing import Annotated, Any

from fastapi import Depends, Request

from warrener.operations.roles import Principal, Role, describe_lack
from warrener.web.access.guard import AccessRefused
from warrener.web.console import Console


def _console(request: Request) -> Console:
    console: Console = request.app.state.console
    return console


ConsoleOfApp = Annotated[Console, Depends(_console)]
"""Parameter of a route: the console."""


def allowed_for(role: Role, what: str) -> Any:
    """Dependency of a router that viewers may not read: at least this role."""

    def check(request: Request) -> None:
        principal: Principal = request.state.principal
        if not principal.role.allows(role):
            raise AccessRefused(describe_lack(principal, role, what))

    return Depends(check)
