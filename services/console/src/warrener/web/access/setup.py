"""Chooses the guard of a console from its settings; a console that anybody could use does not start."""

from warrener.errors import CommandError, ExitCode
from warrener.web.access.guard import Guard, OpenGuard
from warrener.web.access.origins import is_loopback_host
from warrener.web.access.sessions import SessionGuard
from warrener.web.access.settings import AccessSettings
from warrener.web.access.signing import Signer, read_secret
from warrener.web.console import Console

_SET_UP = (
    "make a token with `warrener console token NAME --role admin --file FILE` and set "
    "WARRENER_CONSOLE_TOKENS_FILE=FILE, or set WARRENER_CONSOLE_OIDC_ISSUER"
)


def check_access(settings: AccessSettings, host: str) -> None:
    """Raise CommandError if a console on this address would let anybody in."""
    if settings.has_sign_in or (is_loopback_host(host) and settings.console_url is None):
        return
    where = settings.console_url or host or "every address"
    raise CommandError(
        f"expected tokens or OpenID Connect for a console on {where}, got neither: "
        "anybody who reaches it could cancel and delete jobs",
        do=f"{_SET_UP}; or serve it on 127.0.0.1 alone",
        code=ExitCode.USAGE,
    )


def build_guard(console: Console, settings: AccessSettings, host: str) -> Guard:
    """The guard of a console on this address. Raises CommandError if nobody, or anybody, could use it."""
    check_access(settings, host)
    if not settings.has_sign_in:
        return OpenGuard()
    signer = Signer(read_secret(settings.console_secret, settings.console_secret_file))
    guard = SessionGuard(console, settings, signer)
    if guard.provider is None and not guard.tokens.tokens():
        raise CommandError(
            f"expected a token in {settings.console_tokens_file}, got none: nobody could sign in",
            do=_SET_UP,
            code=ExitCode.USAGE,
        )
    return guard
