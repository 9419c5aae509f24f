"""Where the broker and the store are: what was said, else what `warrener up` runs here, else the settings."""

from dataclasses import dataclass

from warrener.exits import CommandError, Exit
from warrener.up.folder import DEFAULT_FOLDER, DataFolder, Endpoints
from warrener_runtime.settings import ServiceSettings, SettingsError, load


class CommandSettings(ServiceSettings):
    """What the command reads of the settings that the services read."""

    store_url: str = f"sqlite:///{DEFAULT_FOLDER}/state.db"
    ledger_url: str = f"sqlite:///{DEFAULT_FOLDER}/ledger.db"


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is."""

    broker_url: str
    store_url: str
    ledger_url: str
    of_up: bool  # whether `warrener up` in this folder says so

    def environment(self) -> dict[str, str]:
        """The same, as a service reads it."""
        return {
            "WARRENER_BROKER_URL": self.broker_url,
            "WARRENER_STORE_URL": self.store_url,
            "WARRENER_LEDGER_URL": self.ledger_url,
        }


def find_places(broker: str | None = None, store: str | None = None) -> Places:
    """What was said on the command line wins; then a running `up` of this folder; then the settings."""
    folder = DataFolder()
    found = folder.endpoints() if folder.holder() is not None else None
    return decide(broker, store, found, _settings())


def decide(broker: str | None, store: str | None, up: Endpoints | None, settings: CommandSettings) -> Places:
    """Pure."""
    return Places(
        broker or (up.broker_url if up else settings.broker_url),
        store or (up.store_url if up else settings.store_url),
        up.ledger_url if up else settings.ledger_url,
        of_up=up is not None and not broker and not store,
    )


def _settings() -> CommandSettings:
    try:
        return load(CommandSettings)
    except SettingsError as error:
        raise CommandError(str(error), code=Exit.USAGE) from error
