"""The attributes of a service, without the SDK."""

import os
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

from uuid_utils.compat import uuid7

from warrener_runtime.telemetry import names


def service_resource(service_name: str) -> dict[str, str]:
    """Describe a service; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win."""
    found = {
        names.SERVICE_NAME: service_name,
        names.SERVICE_VERSION: service_version(),
        names.SERVICE_INSTANCE_ID: str(uuid7()),
        **named_resource(),
    }
    if own_name := os.environ.get("OTEL_SERVICE_NAME", "").strip():
        found[names.SERVICE_NAME] = own_name
    return found


def named_resource() -> dict[str, str]:
    """Read OTEL_RESOURCE_ATTRIBUTES."""
    pairs = (pair.partition("=") for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    return {name.strip(): unquote(value.strip()) for name, given, value in pairs if given and name.strip()}


def service_version() -> str:
    """The version of the runtime, which all services share."""
    try:
        return version("warrener-runtime")
    except PackageNotFoundError:  # run from the sources
        return "0"
