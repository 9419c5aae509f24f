"""Where the broker and the store are: what was said, else what `warrener up` runs here, else the settings."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from warrener.errors import CommandError, ExitCode
from warrener.up.folder import DEFAULT_FOLDER, DataFolder, Endpoints
from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE
from warrener_runtime.secrets import mask
from warrener_runtime.settings import ServiceSettings, SettingsError, load


def _management_url(url: str) -> str:
    with suppress(ValueError):  # of a port that is no number
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return url
    raise ValueError("a URL like http://host:15672")


class CommandSettings(ServiceSettings):
    """What the command reads of the settings that the services read."""

    store_url: str = f"sqlite:///{DEFAULT_FOLDER}/state.db"
    ledger_url: str = f"sqlite:///{DEFAULT_FOLDER}/ledger.db"
    management_url: Annotated[str, AfterValidator(_management_url)] | None = None
    """The management API of the broker; none means port 15672 beside it (15671 for amqps)."""


@dataclass(frozen=True, slots=True)
class ResolvedEndpoints:
    """Where everything is."""

    broker_url: str
    store_url: str
    ledger_url: str
    from_up: bool  # whether `warrener up` in this folder says so
    management_url: str | None = None  # of the broker, where it was said
    namespace: str = DEFAULT_NAMESPACE

    def environment(self) -> dict[str, str]:
        """The same, as a service reads it."""
        return {
            "WARRENER_BROKER_URL": self.broker_url,
            "WARRENER_STORE_URL": self.store_url,
            "WARRENER_LEDGER_URL": self.ledger_url,
            "WARRENER_NAMESPACE": self.namespace,
        }


def resolve_endpoints(
    broker: str | None = None, store: str | None = None, management: str | None = None
) -> ResolvedEndpoints:
    """What was said on the command line wins; then a running `up` of this folder; then the settings."""
    folder = DataFolder()
    found = folder.endpoints() if folder.holder() is not None else None
    return pick_endpoints(broker, store, found, _settings(), _parse_management_option(management))


def resolve_namespace() -> str:
    """The namespace that the settings name."""
    return _settings().namespace


def pick_endpoints(
    broker: str | None,
    store: str | None,
    up: Endpoints | None,
    settings: CommandSettings,
    management: str | None = None,
) -> ResolvedEndpoints:
    """Pure."""
    broker_url = broker or (up.broker_url if up else settings.broker_url)
    # The settings speak of their own broker, or of one that was said; not of the private one of an `up`.
    of_settings = broker is not None or broker_url == settings.broker_url
    return ResolvedEndpoints(
        broker_url,
        store or (up.store_url if up else settings.store_url),
        up.ledger_url if up else settings.ledger_url,
        from_up=up is not None and not broker and not store,
        management_url=management or (settings.management_url if of_settings else None),
        namespace=up.namespace if up is not None and broker is None else settings.namespace,
    )


def _parse_management_option(management: str | None) -> str | None:
    try:
        return _management_url(management) if management else None
    except ValueError as error:
        raise CommandError(
            f"--management: expected {error}, got {mask(management or '')!r}", code=ExitCode.USAGE
        ) from error


def _settings() -> CommandSettings:
    try:
        return load(CommandSettings)
    except SettingsError as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from error
