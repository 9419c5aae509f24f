"""Settings of a service: flags, then `WARRENER_*` variables, then a TOML file, then defaults."""

from warrener_runtime.settings.errors import SettingsError
from warrener_runtime.settings.load import load
from warrener_runtime.settings.secrets import mask
from warrener_runtime.settings.service import ServiceSettings

__all__ = ["ServiceSettings", "SettingsError", "load", "mask"]
