"""A signed POST to a URL."""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.sinks.port import PATIENCE, SinkFailed
from warrener_supervisor.escalation.sinks.signing import key_of, signed


class _NoRedirects(HTTPRedirectHandler):
    """What is signed for one place is not handed on to another."""

    def redirect_request(  # noqa: PLR0917 - the signature of urllib
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class WebhookSink:
    """Any answer of 2xx is taken for a yes; whoever receives may be told twice, under the same webhook-id."""

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
    """What is posted."""
    payload: dict[str, Any] = {
        "type": "warrener.alert",
        "timestamp": now.isoformat(),
        "data": {"title": alert.title, "text": alert.text, "urgent": alert.urgent, **alert.facts},
    }
    return json.dumps(payload, ensure_ascii=False).encode(errors="replace")
