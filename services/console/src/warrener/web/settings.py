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
    console_connection_limit: Annotated[int, Field(ge=10)] = 2_000
    """Maximum number of open connections, and never more than the process may open files. A new one takes the
    place of one without a request; if all have one, it is closed."""
    console_address_connection_limit: Annotated[int, Field(ge=5)] = 500
    """The same for one address, or one /64 network of IPv6; not for trusted proxies."""
    console_trace_url: str | None = None
    """Address of a trace in the place that collects them; `{trace_id}` stands for its id."""
