"""Send alerts to sinks: the log, everything that Apprise speaks, signed webhooks."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from hmac import new
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Literal, Protocol
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.policy import SinkConfig

_log = get_logger("escalation")

PATIENCE = 10.0
"""Seconds that a sink may take."""
_PREFIX = "whsec_"
_LOG = SinkConfig(log="error")


class SinkFailed(Exception):
    """The alert was not taken, or may not have been; it is sent again under the same id."""


class AlertSink(Protocol):
    """Sends alerts, one at a time, at least once: a repeated one has the same id."""

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        """Return once the sink has taken it. Raises SinkFailed."""
        ...


class Opener(Protocol):
    """Makes a sink from its declaration in the file."""

    def __call__(self, name: str, declared: SinkConfig) -> AlertSink: ...


class LogSink:
    """Writes alerts to the log. It never fails, so it is left when all others do not answer."""

    def __init__(self, level: Literal["warning", "error"]) -> None:
        self._write = _log.error if level == "error" else _log.warning

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        self._write(
            f"Alert: {alert.title}",
            action="escalation.alert",
            alert_id=alert.alert_id,
            text=alert.text,
            fingerprint=alert.facts.get("fingerprint"),
            times=alert.facts.get("times"),
        )


class AppriseSink:
    """Sends to one Apprise URL. Apprise returns no reason for a failure, but logs it."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        # The import takes half a second, so it waits for the first alert.
        from apprise import Apprise, NotifyType  # noqa: PLC0415

        notifier = Apprise()
        if not notifier.add(self._url):  # pyright: ignore[reportUnknownMemberType] - its own types are loose
            raise SinkFailed(f"expected a URL that Apprise knows, got {mask(self._url)}")
        kind = NotifyType.FAILURE if alert.urgent else NotifyType.WARNING
        if not await notifier.async_notify(title=alert.title, body=alert.text, notify_type=kind):
            raise SinkFailed("Apprise could not send it; see the log")


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, because a signature is for one receiver."""

    def redirect_request(  # noqa: PLR0917 - the signature of urllib
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class WebhookSink:
    """Posts signed alerts, by the Standard Webhooks scheme. Any 2xx is a success; a repeat has the same
    webhook-id."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._key = key_of(secret)
        self._opener = build_opener(_NoRedirects)

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        body = body_of(alert, now)
        headers = {"content-type": "application/json", **signed(alert.alert_id, now, body, self._key)}
        await asyncio.to_thread(self._post, body, headers)

    def _post(self, body: bytes, headers: Mapping[str, str]) -> None:
        request = Request(self._url, body, dict(headers), method="POST")  # noqa: S310 - http(s), the file's check
        try:
            with self._opener.open(request, timeout=PATIENCE):
                pass
        except HTTPError as answer:
            answer.close()
            raise SinkFailed(f"expected an answer of 2xx from the webhook, got {answer.code}") from answer
        except (OSError, HTTPException) as error:
            raise SinkFailed(f"expected an answer from the webhook, got: {error}") from error


def body_of(alert: AlertMessage, now: datetime) -> bytes:
    """Return the JSON to post."""
    payload: dict[str, Any] = {
        "type": "warrener.alert",
        "timestamp": now.isoformat(),
        "data": {"title": alert.title, "text": alert.text, "urgent": alert.urgent, **alert.facts},
    }
    return json.dumps(payload, ensure_ascii=False).encode(errors="replace")


def key_of(secret: str) -> bytes:
    """Return the key in a secret: `whsec_` and base64, or the text itself. Raises ValueError."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return b64decode(secret[len(_PREFIX) :], validate=True)
    except ValueError as error:
        raise ValueError("expected base64 behind whsec_, got something else") from error


def signed(message_id: str, now: datetime, body: bytes, key: bytes) -> Mapping[str, str]:
    """Return the headers that prove sender and time: HMAC-SHA256 over id, timestamp and body."""
    timestamp = str(int(now.timestamp()))
    signed_content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{b64encode(new(key, signed_content, sha256).digest()).decode()}",
    }


def open_sink(name: str, declared: SinkConfig) -> AlertSink:
    """Return the sink that is declared, without connecting it."""
    del name
    if declared.apprise is not None:
        return AppriseSink(declared.apprise)
    if declared.webhook is not None and declared.secret is not None:
        return WebhookSink(declared.webhook, declared.secret)
    return LogSink(declared.log or "error")


class SinkRegistry:
    """Sends an alert to several sinks at once."""

    def __init__(self, opener: Opener = open_sink) -> None:
        self._opener = opener

    async def send(
        self, alert: AlertMessage, names: Iterable[str], declared: Mapping[str, SinkConfig], now: datetime
    ) -> dict[str, str]:
        """Return the failures by the names of their sinks."""
        sink_names = sorted(set(names))
        failures = await asyncio.gather(
            *(self._one(alert, name, declared.get(name, _LOG), now) for name in sink_names)
        )
        return {name: why for name, why in zip(sink_names, failures, strict=True) if why is not None}

    async def _one(self, alert: AlertMessage, name: str, declared: SinkConfig, now: datetime) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._opener(name, declared).send(alert, now)
        except TimeoutError:
            return f"expected an answer within {PATIENCE:g} s, got none"
        except SinkFailed as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - what a plug-in raises must not stop the other sinks
            _log.exception("A sink failed in an unexpected way.", action="escalation.sink_bug")
            return f"{type(error).__name__}: {error}"
        return None
