"""Errors of the HTTP API as problem documents (RFC 9457)."""

from http import HTTPStatus

from starlette.responses import JSONResponse


class ProblemResponse(JSONResponse):
    """An error: `title` by its status, `detail` with what was expected and what came, `do` with what
    helps."""

    media_type = "application/problem+json"

    def __init__(self, status: int, detail: str, do: str = "", headers: dict[str, str] | None = None) -> None:
        content = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
        super().__init__(content | ({"do": do} if do else {}), status, headers)
