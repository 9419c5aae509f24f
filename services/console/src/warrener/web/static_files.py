"""Static files of the pages, served under the hash of their content, so that browsers store them for good."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOR_A_YEAR = "public, max-age=31536000, immutable"
_PREFIX = "/static"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the pages."""

    name: str
    content_type: str
    body: bytes
    digest: str

    @property
    def url(self) -> str:
        """Its address, which changes with its content."""
        return f"{_PREFIX}/{self.digest}/{self.name}"


@cache
def static_files() -> Mapping[str, StaticFile]:
    """All static files by name."""
    web = files("warrener.web")
    found = {name: _read(name, web / "static" / name) for name in _names(web / "static")}
    return found | {"charts.css": _read("charts.css", web / "charts" / "charts.css")}


def _names(folder: Traversable) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if any(map(entry.name.endswith, _TYPES)))


def _read(name: str, source: Traversable) -> StaticFile:
    body = source.read_bytes()
    kind = _TYPES[name[name.rindex(".") :]]
    digest = hashlib.sha256(body).hexdigest()[:12]
    return StaticFile(name, kind, body, digest)


def static_url(name: str) -> str:
    """The address of a static file."""
    return static_files()[name].url


async def serve_static(request: Request) -> Response:
    """Serve a file. One of another version is not stored: a page of a former console may refer to it."""
    file = static_files().get(request.path_params["name"])
    if file is None:
        return Response("not found", 404, media_type="text/plain")
    is_current = request.path_params["digest"] == file.digest
    headers = {"Cache-Control": _FOR_A_YEAR if is_current else "no-store"}
    return Response(file.body, headers=headers, media_type=file.content_type)
