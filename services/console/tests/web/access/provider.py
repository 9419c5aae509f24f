"""A little OpenID Connect provider over HTTP, for tests: it signs in whoever comes, and may lie."""

import asyncio
import json
import socket
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from secrets import token_urlsafe
from time import time
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from warrener.web.access.signing import encode_bytes

CLIENT_ID, CLIENT_SECRET = "warrener-console", "a secret of the client: 100 %"
Claims = dict[str, Any]
SignToken = Callable[[Claims, KeySet], str]


@cache
def key_of(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@dataclass
class Provider:
    """What the provider knows, and where it lies: tests change its fields."""

    issuer: str
    person: Claims = field(
        default_factory=lambda: {
            "sub": "u-1",
            "email": "ada@example.com",
            "email_verified": True,
            "groups": ["support"],
        }
    )
    keys: KeySet = field(default_factory=lambda: KeySet([key_of("first")]))
    sign: SignToken | None = None
    changes: Claims = field(default_factory=dict[str, Any])
    """Other claims of a token; None: it has none."""
    metadata: Claims = field(default_factory=dict[str, Any])
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    status: int | None = None
    """The status of its answers to codes, if it is ill."""
    calls: list[str] = field(default_factory=list[str])

    def id_token(self, request: dict[str, str]) -> str:
        now = int(time())
        claims = {"iss": self.issuer, "aud": request["client_id"], "nonce": request["nonce"], **self.person}
        claims |= {"iat": now, "exp": now + 300, **self.changes}
        for name in [name for name, value in self.changes.items() if value is None]:
            del claims[name]
        if self.sign is not None:
            return self.sign(claims, self.keys)
        key = self.keys.keys[-1]
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discover),
                Route("/keys", self._list_keys),
                Route("/authorize", self._authorize),
                Route("/token", self._trade, methods=["POST"]),
            ]
        )

    async def _discover(self, _: Request) -> Response:
        self.calls.append("discovery")
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return JSONResponse(document | self.metadata)

    async def _list_keys(self, _: Request) -> Response:
        self.calls.append("keys")
        return JSONResponse(dict(self.keys.as_dict(private=False)))

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        code = token_urlsafe(16)
        self.codes[code] = query
        back = urlencode({"code": code, "state": query["state"], "iss": self.issuer})
        return RedirectResponse(f"{query['redirect_uri']}?{back}", 302)

    async def _trade(self, request: Request) -> Response:
        if self.status is not None:
            return Response(status_code=self.status)
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        begun = self.codes.pop(form.get("code", ""), None)
        challenge = encode_bytes(sha256(form.get("code_verifier", "").encode()).digest())
        if begun is None or begun["redirect_uri"] != form["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant", "error_description": "the code is over"}, 400)
        if begun["code_challenge"] != challenge:
            return JSONResponse({"error": "invalid_grant", "error_description": "wrong verifier"}, 400)
        if not _is_client(request.headers.get("authorization", "")):
            return JSONResponse({"error": "invalid_client"}, 401)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self.id_token(begun)})


def encode_segment(document: Claims) -> str:
    return encode_bytes(json.dumps(document).encode())


def _is_client(header: str) -> bool:
    scheme, _, text = header.partition(" ")
    name, _, secret = b64decode(text).decode().partition(":") if scheme == "Basic" else ("", "", "")
    return " " not in secret and (unquote_plus(name), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)


@asynccontextmanager
async def serving() -> AsyncGenerator[Provider]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        provider = Provider(f"http://127.0.0.1:{listening.getsockname()[1]}")
        config = uvicorn.Config(provider.app(), log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield provider
        finally:
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await task
