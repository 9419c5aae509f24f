"""The bus that a URL asks for."""

from warrener_runtime.bus.port import Bus


def open_bus(url: str, *, name: str) -> Bus:
    """A bus on the RabbitMQ at `url`; operators see its connections by `name`. `start()` connects it."""
    # A simulation, or whoever needs the port alone, does not load RabbitMQ's clients.
    from warrener_runtime.bus.rabbit import RabbitBus  # noqa: PLC0415

    return RabbitBus(url, name=name)
