"""The settings of the command: those of the services that it reads too."""

from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from warrener_runtime.running_up import DEFAULT_FOLDER
from warrener_runtime.settings import ServiceSettings


def validate_management_url(url: str) -> str:
    """Return the URL. Raises ValueError, whose text is an example, if it is none of a management API."""
    with suppress(ValueError):  # of a port that is no number
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return url
    raise ValueError("a URL like http://host:15672")


class CommandSettings(ServiceSettings):
    """The services' settings that the command reads too."""

    store_url: str = f"sqlite:///{DEFAULT_FOLDER}/state.db"
    """URL of the store, where no `warrener up` of this folder runs."""
    ledger_url: str = f"sqlite:///{DEFAULT_FOLDER}/ledger.db"
    """URL of the ledger that `warrener agent` passes on."""
    management_url: Annotated[str, AfterValidator(validate_management_url)] | None = None
    """Management API of the broker (default: port 15672 beside it, 15671 for amqps)."""
