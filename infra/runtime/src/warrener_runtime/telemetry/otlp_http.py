"""OTLP over HTTP: one POST for each request, by Python's own client."""

import gzip
import os
import ssl
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from random import uniform
from typing import TypeVar
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

from opentelemetry.util.re import parse_env_headers

from warrener_runtime.telemetry.otlp import OtlpExporter, OtlpVariables, Signal

T = TypeVar("T")

_TRANSIENT = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_COMPRESSIONS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
_FIRST_PAUSE = 1.0  # seconds; each later one is twice as long


def http_exporter(
    signal: Signal, url: str, timeout: float, encode: Callable[[T], Iterable[bytes]]
) -> OtlpExporter[T]:
    """Make an exporter that posts the requests that `encode` returns."""
    client = OtlpHttpClient(signal, url, timeout)

    def post(data: T) -> None:
        client.post(encode(data))

    return OtlpExporter(post, client.close)


class OtlpHttpClient:
    """Posts requests to a collector. Headers, certificates and compression are those of the variables; user
    and password may also stand in the URL."""

    def __init__(self, signal: Signal, url: str, timeout: float) -> None:
        variables = OtlpVariables(signal, os.environ)
        self._url, credentials = _split_credentials(url)
        self._timeout = timeout
        self._headers = {
            "content-type": "application/x-protobuf",
            **parse_env_headers(variables.otlp("HEADERS"), liberal=True),
            **credentials,
        }
        self._compress = _COMPRESSIONS.get(compression := variables.otlp("COMPRESSION").lower())
        if self._compress is not None:
            self._headers["content-encoding"] = compression
        elif compression not in {"", "none"}:
            variables.ignore("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip, deflate or none", compression)
        self._opener = build_opener(
            *([HTTPSHandler(context=_tls(variables))] if url.startswith("https") else [])
        )
        self._over = threading.Event()

    def post(self, bodies: Iterable[bytes]) -> None:
        """Send requests. Blocks; raises an OSError if one of them did not arrive."""
        failure: OSError | None = None
        for body in bodies:
            try:
                self._post(self._compress(body) if self._compress else body)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def _post(self, body: bytes) -> None:
        """Send one request, and repeat it within the timeout while the collector is away or busy."""
        request = Request(self._url, body, self._headers)  # noqa: S310 - the scheme is the user's choice
        deadline, pause = time.monotonic() + self._timeout, _FIRST_PAUSE
        while True:
            try:
                self._opener.open(request, timeout=max(deadline - time.monotonic(), 0.001)).close()
            except HTTPError as refusal:
                refusal.close()
                if refusal.code not in _TRANSIENT:
                    raise
                failure: OSError = refusal
                after = refusal.headers.get("Retry-After") or ""
                pause = (float(after) if after.isdecimal() else 0.0) or pause
            except OSError as error:
                failure = error
            except HTTPException as error:
                problem = f"expected an answer of HTTP, got {str(error)!r}; correct the port or the protocol"
                raise ConnectionError(problem) from error
            else:
                return
            wait = pause * uniform(0.8, 1.2)  # noqa: S311 - services shall not come back all at once
            if time.monotonic() + wait > deadline or self._over.wait(wait):
                raise failure
            pause *= 2

    def close(self) -> None:
        """Repeat nothing more."""
        self._over.set()


def _split_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without its user and password, and the header that carries them: Python's client would
    take the password for a port, and name it in the error."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, {"authorization": f"Basic {b64encode(user.encode()).decode()}"}


def _tls(variables: OtlpVariables) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=variables.otlp("CERTIFICATE") or None)
    if certificate := variables.otlp("CLIENT_CERTIFICATE"):
        context.load_cert_chain(certificate, variables.otlp("CLIENT_KEY") or None)
    return context
