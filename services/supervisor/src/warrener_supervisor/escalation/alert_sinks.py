"""Send alerts to sinks: the log, everything that Apprise speaks, signed webhooks."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from hmac import new
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
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


SendAlert = Callable[[str, SinkConfig, AlertMessage, datetime], Awaitable[None]]
"""Sends an alert to the sink of this name, as the file declares it, at least once: a repeated alert has the
same id. Returns once the sink has taken it. Raises SinkFailed."""


async def send_alert(name: str, declared: SinkConfig, alert: AlertMessage, now: datetime) -> None:
    """Send an alert to Apprise, to a webhook or to the log, which never fails."""
    del name
    if declared.apprise is not None:
        await send_by_apprise(declared.apprise, alert)
    elif declared.webhook is not None and declared.secret is not None:
        await send_to_webhook(declared.webhook, declared.secret, alert, now)
    else:
        write = _log.warning if declared.log == "warning" else _log.error
        write(
            f"Alert: {alert.title}",
            action="escalation.alert",
            alert_id=alert.alert_id,
            text=alert.text,
            fingerprint=alert.facts.get("fingerprint"),
            times=alert.facts.get("times"),
        )


async def send_by_apprise(url: str, alert: AlertMessage) -> None:
    """Send to one Apprise URL. Apprise returns no reason for a failure, but logs it. Raises SinkFailed."""
    # The import takes half a second, so it waits for the first alert.
    from apprise import Apprise, NotifyType  # noqa: PLC0415

    notifier = Apprise()
    if not notifier.add(url):  # pyright: ignore[reportUnknownMemberType] - its own types are loose
        raise SinkFailed(f"expected a URL that Apprise knows, got {mask(url)}")
    kind = NotifyType.FAILURE if alert.urgent else NotifyType.WARNING
    if not await notifier.async_notify(title=alert.title, body=alert.text, notify_type=kind):
        raise SinkFailed("Apprise could not send it; see the log")


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, because a signature is for one receiver."""

    def redirect_request(  # noqa: PLR0917 - the signature of urllib
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


async def send_to_webhook(url: str, secret: str, alert: AlertMessage, now: datetime) -> None:
    """Post a signed alert, by the Standard Webhooks scheme. Any 2xx is a success; a repeat has the same
    webhook-id. Raises SinkFailed."""
    payload: dict[str, Any] = {
        "type": "warrener.alert",
        "timestamp": now.isoformat(),
        "data": {"title": alert.title, "text": alert.text, "urgent": alert.urgent, **alert.facts},
    }
    body = json.dumps(payload, ensure_ascii=False).encode(errors="replace")
    signature = signed(alert.alert_id, now, body, key_of(secret))
    await asyncio.to_thread(_post, url, body, {"content-type": "application/json", **signature})


def _post(url: str, body: bytes, headers: dict[str, str]) -> None:
    request = Request(url, body, headers, method="POST")  # noqa: S310 - http(s), the file's check
    try:
        with build_opener(_NoRedirects).open(request, timeout=PATIENCE):
            pass
    except HTTPError as answer:
        answer.close()
        raise SinkFailed(f"expected an answer of 2xx from the webhook, got {answer.code}") from answer
    except (OSError, HTTPException) as error:
        raise SinkFailed(f"expected an answer from the webhook, got: {error}") from error


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


async def send_to_sinks(
    send: SendAlert,
    alert: AlertMessage,
    names: Iterable[str],
    declared: Mapping[str, SinkConfig],
    now: datetime,
) -> dict[str, str]:
    """Send an alert to several sinks at once; return the failures by the names of their sinks."""
    sink_names = sorted(set(names))
    tries = (_try_sending(send, name, declared.get(name, _LOG), alert, now) for name in sink_names)
    failures = await asyncio.gather(*tries)
    return {name: why for name, why in zip(sink_names, failures, strict=True) if why is not None}


async def _try_sending(
    send: SendAlert, name: str, declared: SinkConfig, alert: AlertMessage, now: datetime
) -> str | None:
    try:
        async with asyncio.timeout(PATIENCE):
            await send(name, declared, alert, now)
    except TimeoutError:
        return f"expected an answer within {PATIENCE:g} s, got none"
    except SinkFailed as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - what a plug-in raises must not stop the other sinks
        _log.exception("A sink failed in an unexpected way.", action="escalation.sink_bug")
        return f"{type(error).__name__}: {error}"
    return None
