"""Permissions that the broker refuses to the user of a service."""

import re
import shlex
from time import monotonic

from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.namespace import DEFAULT_NAMESPACE

_CURRENT = 20.0  # seconds; what needs a permission tries again earlier
_REFUSED = re.compile(
    r"ACCESS_REFUSED - (?:\w+ )?access to (?P<topic>topic '[^']*' in )?(?P<kind>queue|exchange) "
    r"'(?P<name>[^']*)' in vhost '(?P<vhost>[^']*)' refused for user '(?P<user>[^']*)'"
)


class Refusals:
    """The pieces of the topology that the broker has refused within the last seconds.

    Nobody takes a refusal back: consumers and publishers try again, and what is granted is no longer noted.
    """

    def __init__(self) -> None:
        self._noted: dict[str, tuple[float, str]] = {}

    def note(self, verb: str, reason: str, names: NameMapper) -> None:
        """Note the broker's reason if it is a missing permission to `verb`; any other changes nothing."""
        if (found := describe_refusal(verb, reason, names)) is not None:
            piece, text = found
            self._noted = self._newer() | {piece: (monotonic(), text)}

    def current(self) -> dict[str, str]:
        """Sentences by piece (`queue warrener.requests`), each with the command that grants access."""
        return {piece: text for piece, (_, text) in self._newer().items()}

    def _newer(self) -> dict[str, tuple[float, str]]:
        since = monotonic() - _CURRENT
        return {piece: noted for piece, noted in self._noted.items() if noted[0] > since}


def describe_refusal(verb: str, reason: str, names: NameMapper) -> tuple[str, str] | None:
    """Return the piece and a sentence with the command that grants the permission to `verb` it.

    None if the broker's reason is another one.
    """
    if (found := _REFUSED.search(reason)) is None:
        return None
    kind, name = found["kind"], found["name"]
    what = f"the permission to {verb} {kind} {name} for user {found['user']}"
    text = f"expected {what}, got ACCESS_REFUSED; run `{_command(found, names)}`"
    return f"{kind} {names.from_broker(name)}", text


def _command(found: re.Match[str], names: NameMapper) -> str:
    """The command that grants what `docs/howto/restrict-permissions.md` grants, and this piece."""
    name, where = found["name"], ["-p", found["vhost"], found["user"]]
    if found["topic"] is not None:
        return shlex.join(["rabbitmqctl", "set_topic_permissions", *where, name, "WRITE", "READ"])
    ours = re.escape(names.to_broker(f"{DEFAULT_NAMESPACE}."))
    foreign = {"amq.direct"} if names.is_ours(name) else {"amq.direct", name}
    used = "|".join([ours, *(f"{re.escape(one)}$" for one in sorted(foreign))])
    return shlex.join(["rabbitmqctl", "set_permissions", *where, f"^{ours}", f"^({used})", f"^({used})"])
