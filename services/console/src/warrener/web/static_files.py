"""Static files of the pages, served under the hash of their content, so that browsers store them for good."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOR_A_YEAR = "public, max-age=31536000, immutable"


class StaticFile(NamedTuple):
    """A file of the pages. Its address changes with its content."""

    content_type: str
    body: bytes
    digest: str
    url: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """All static files by name."""
    web = files("warrener.web")
    found: dict[str, StaticFile] = {}
    for file in (*(web / "static").iterdir(), web / "charts" / "charts.css"):
        kind = _TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            body = file.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:12]
            found[file.name] = StaticFile(kind, body, digest, f"/static/{digest}/{file.name}")
    return found


def static_url(name: str) -> str:
    return static_files()[name].url


async def serve_static(request: Request) -> Response:
    """Serve a file. One of another version is not stored: a page of a former console may refer to it."""
    file = static_files().get(request.path_params["name"])
    if file is None:
        return Response("not found", 404, media_type="text/plain")
    is_current = request.path_params["digest"] == file.digest
    headers = {"Cache-Control": _FOR_A_YEAR if is_current else "no-store"}
    return Response(file.body, headers=headers, media_type=file.content_type)
