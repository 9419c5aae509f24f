"""The settings of the console."""

from typing import Annotated, ClassVar

from pydantic import Field

from warrener.web.access.settings import AccessSettings


class ConsoleSettings(AccessSettings):
    """The settings of `warrener console`."""

    section: ClassVar[str | None] = "console"

    console_host: str = "127.0.0.1"
    """Address on which the console is served."""
    console_port: Annotated[int, Field(ge=0, le=65535)] = 8765
    """Port of the console; 0: a free one."""
    console_viewer_limit: Annotated[int, Field(ge=1)] = 500
    """Maximum number of open pages with live updates; more are refused, and refresh by themselves."""
    console_principal_viewer_limit: Annotated[int, Field(ge=1)] = 50
    """The same for one person or program."""
    console_trace_url: str | None = None
    """Address of a trace in the place that collects them; `{trace_id}` stands for its id."""
