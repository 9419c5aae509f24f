"""A real receiver of webhooks: checks every signature as Standard Webhooks says, by code of its own."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True)
class WebhookDelivery:
    """One delivery whose signature was right."""

    webhook_id: str
    body: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.body["data"]
        return data


@dataclass
class WebhookReceiver:
    """Listens while it is entered. `answer` is asked for the status of each delivery, before it is given."""

    answer: Callable[[WebhookDelivery], int] = lambda _: 204
    received: list[WebhookDelivery] = field(default_factory=list[WebhookDelivery])
    wrong: list[str] = field(default_factory=list[str])
    raw: list[bytes] = field(default_factory=list[bytes])  # posted to /plain, where nothing is signed

    def __enter__(self) -> Self:
        outer = self

        class _WebhookHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = outer.take(self.path, dict(self.headers.items()), body)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", "/plain")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _WebhookHandler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Check one delivery, and keep it; the status to answer with."""
        if path == "/plain":
            self.raw.append(body)
            return 200
        given = {name.lower(): value for name, value in headers.items()}
        signed_content = f"{given['webhook-id']}.{given['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        right = base64.b64encode(hmac.new(key, signed_content, hashlib.sha256).digest()).decode()
        if given["webhook-signature"].split() != [f"v1,{right}"]:
            self.wrong.append(given["webhook-signature"])
            return 401
        one = WebhookDelivery(given["webhook-id"], json.loads(body))
        self.received.append(one)
        return self.answer(one)
