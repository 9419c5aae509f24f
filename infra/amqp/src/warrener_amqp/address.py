"""Where the broker is: `amqp://user:password@host:port/vhost?heartbeat=10`, `amqps://` for TLS."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote, urlsplit

from warrener_amqp.credentials import Credentials, External, Plain
from warrener_amqp.handshake import Wishes

_NEVER = "0"


@dataclass(frozen=True, slots=True)
class Address:
    """An AMQP URL, taken apart. Parameters have the names that aiormq gives them, so that one URL serves
    both."""

    host: str
    port: int
    credentials: Credentials
    wishes: Wishes
    secure: bool = False
    asked: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def tls(self) -> ssl.SSLContext | None:
        """What to secure the connection with. Reads the files anew, because certificates are renewed in
        place.

        Raises OSError for a file that cannot be used.
        """
        if not self.secure:
            return None
        asked = self.asked
        context = ssl.create_default_context(
            cafile=asked.get("cafile"), capath=asked.get("capath"), cadata=asked.get("cadata")
        )
        if "certfile" in asked:
            context.load_cert_chain(asked["certfile"], asked.get("keyfile"))
        if asked.get("no_verify_ssl", _NEVER) != _NEVER:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def named(self, name: str) -> "Address":
        """The same, under the name that operators see, unless the URL gives one."""
        return self if "name" in self.asked else replace(self, wishes=replace(self.wishes, name=name))

    def __str__(self) -> str:
        """For messages: no credentials."""
        return f"{self.host}:{self.port}"


def address(url: str) -> Address:
    """Read an AMQP URL; raises ValueError that says what was expected, without the password.

    Parameters: `name`, `heartbeat` (seconds; 0: none), `frame_max` (bytes), `channel_max`, `auth` (plain,
    external); for amqps `cafile`, `capath`, `cadata`, `certfile`, `keyfile`, `no_verify_ssl`. No path, or
    `/`, is the virtual host "/".
    """
    parts = urlsplit(url)
    if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
        raise ValueError(f"expected amqp://host or amqps://host, got a URL that begins with {parts.scheme!r}")
    asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    secure = parts.scheme == "amqps"
    return Address(
        host=parts.hostname,
        port=parts.port or (5671 if secure else 5672),
        credentials=_credentials(parts.username, parts.password, asked.get("auth", "plain").lower()),
        wishes=Wishes(
            virtual_host=unquote(parts.path[1:]) or "/",
            name=asked.get("name", Wishes().name),
            heartbeat=_number(asked, "heartbeat", 10, least=0),
            frame_max=_number(asked, "frame_max", 131_072, least=4096),
            channel_max=_number(asked, "channel_max", 2047, least=1),
        ),
        secure=secure,
        asked=asked,
    )


def _credentials(user: str | None, password: str | None, kind: str) -> Credentials:
    if kind == "external":
        return External()
    if kind != "plain":
        raise ValueError(f"expected auth=plain or auth=external, got {kind!r}")
    return Plain(
        "guest" if user is None else unquote(user), "guest" if password is None else unquote(password)
    )


def _number(asked: Mapping[str, str], key: str, default: int, *, least: int) -> int:
    text = asked.get(key, str(default))
    if not text.isdecimal() or int(text) < least:
        raise ValueError(
            f"expected a whole number of at least {least} for {key} in the broker's URL, got {text!r}"
        )
    return int(text)
