"""The exchanges of the memory broker: which queues a message goes to."""

from dataclasses import dataclass, field

from warrener_runtime.bus.port import ExchangeSpec, TopologyMismatch
from warrener_runtime.bus.topics import matches

_KINDS = frozenset({"topic", "fanout", "direct"})


@dataclass(slots=True)
class _Exchange:
    kind: str
    alternate: str | None
    bindings: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])  # queue, key

    def queues_for(self, key: str) -> list[str]:
        """The queues bound for `key`, each once."""
        return list(dict.fromkeys(queue for queue, pattern in self.bindings if self._routes(pattern, key)))

    def _routes(self, pattern: str, key: str) -> bool:
        if self.kind == "topic":
            return matches(pattern, key)
        return self.kind == "fanout" or pattern == key


class Exchanges:
    """All exchanges and bindings by name; the nameless one brings a message to the queue its key names."""

    def __init__(self) -> None:
        self._exchanges: dict[str, _Exchange] = {}

    def declare(self, spec: ExchangeSpec) -> None:
        """Make it exist. Raises TopologyMismatch where it exists differently."""
        if spec.kind not in _KINDS:
            raise TopologyMismatch(
                f"expected an exchange kind of {sorted(_KINDS)}, got {spec.kind!r} for {spec.name!r}; use one"
            )
        known = self._exchanges.setdefault(spec.name, _Exchange(spec.kind, spec.alternate))
        if (known.kind, known.alternate) != (spec.kind, spec.alternate):
            raise TopologyMismatch(
                f"expected exchange {spec.name!r} as {spec.kind} with alternate {spec.alternate!r},"
                f" got {known.kind} with alternate {known.alternate!r}; delete it, or declare it as it is"
            )

    def bind(self, exchange: str, queue: str, key: str) -> None:
        """Bring messages of `exchange` that match `key` to `queue`."""
        if exchange not in self._exchanges:
            raise TopologyMismatch(
                f"expected exchange {exchange!r} to bind queue {queue!r} to, got none; declare it first"
            )
        self._exchanges[exchange].bindings[queue, key] = None

    def unbind(self, exchange: str, queue: str, key: str) -> None:
        """Bring them no more."""
        if exchange in self._exchanges:
            self._exchanges[exchange].bindings.pop((queue, key), None)

    def forget_queue(self, queue: str) -> None:
        """Its bindings go with it."""
        for exchange in self._exchanges.values():
            for binding in [one for one in exchange.bindings if one[0] == queue]:
                del exchange.bindings[binding]

    def delete(self, exchange: str) -> None:
        """Remove it and its bindings."""
        self._exchanges.pop(exchange, None)

    def exists(self, exchange: str) -> bool:
        """Whether one may publish to it."""
        return not exchange or exchange in self._exchanges

    def route(self, exchange: str, key: str) -> list[str]:
        """The names of the queues that get it: those bound for the key, else those of the alternate."""
        if not exchange:
            return [key]
        known = self._exchanges.get(exchange)
        if known is None:
            return []
        found = known.queues_for(key)
        if found or known.alternate is None:
            return found
        return self.route(known.alternate, key)
