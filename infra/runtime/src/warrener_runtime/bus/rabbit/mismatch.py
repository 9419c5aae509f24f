"""What it means that the broker does not declare what was asked."""

from warrener_runtime.bus.port import ExchangeSpec, TopologyMismatch

_KINDS = frozenset({"topic", "fanout", "direct", "headers"})


def validate_exchange_kind(exchange: ExchangeSpec) -> str:
    """Its kind. Raises TopologyMismatch where RabbitMQ has none such; 3.10 closes the connection over it."""
    if exchange.kind not in _KINDS:
        raise TopologyMismatch(
            f"expected an exchange kind of {sorted(_KINDS)}, got {exchange.kind!r} for {exchange.name!r};"
            " use one of these"
        )
    return exchange.kind


def mismatch(what: str, reason: str) -> TopologyMismatch:
    """The refusal of a declaration, with the name of what was refused."""
    return TopologyMismatch(
        f"expected {what} as this version of Warrener declares it, got: {reason};"
        " remove or rename what is there, or grant the permission"
    )
