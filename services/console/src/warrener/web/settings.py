"""The settings of the console; one that anybody could use does not start."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from warrener.errors import UsageError
from warrener.operations.masking import DEFAULT_MASKED_FIELDS
from warrener.operations.roles import Role
from warrener.settings import CommandSettings
from warrener.web.access.origins import is_loopback_host
from warrener_contracts.fields import PositiveDuration
from warrener_runtime.running_up import DEFAULT_FOLDER


def _origin_url(url: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.netloc and parts.path in {"", "/"} and not parts.query:
            return url.rstrip("/")
    raise ValueError("a URL without a path, such as https://jobs.example.com")


def _issuer_url(url: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(parts.netloc))
        if is_safe and parts.netloc and not parts.query and not parts.fragment:
            return url
    raise ValueError("an https URL without a query, such as https://login.example.com/realms/main")


class ConsoleSettings(CommandSettings):
    """The settings of `warrener console`: its server, who may use it, and what they see."""

    section: ClassVar[str | None] = "console"

    console_host: str = "127.0.0.1"
    """Address on which the console is served."""
    console_port: Annotated[int, Field(ge=0, le=65535)] = 8765
    """Port of the console; 0: a free one."""
    console_viewer_limit: Annotated[int, Field(ge=1)] = 500
    """Maximum number of open pages with live updates; more are refused, and refresh by themselves."""
    console_principal_viewer_limit: Annotated[int, Field(ge=1)] = 50
    """The same for one person or program."""
    console_connection_limit: Annotated[int, Field(ge=10)] = 2_000
    """Maximum number of open connections, and never more than the process may open files. A new one takes the
    place of one without a request; if all have one, it is closed."""
    console_address_connection_limit: Annotated[int, Field(ge=5)] = 500
    """The same for one address, or one /64 network of IPv6; not for trusted proxies."""
    console_trace_url: str | None = None
    """Address of a trace in the place that collects them; `{trace_id}` stands for its id."""
    console_url: Annotated[str, AfterValidator(_origin_url)] | None = None
    """Public URL of the console, such as https://jobs.example.com. Needed behind a proxy and for OpenID
    Connect."""
    console_trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count; `*`: any."""
    console_tokens_file: Path | None = None
    """File of access tokens, a line `name:role:sha256:hash` for each; `warrener console token` writes it."""
    console_tokens: tuple[str, ...] = ()
    """The same lines as a list, beside those of the file."""
    console_session_timeout: PositiveDuration = timedelta(hours=12)
    """Time after which people sign in again."""
    console_login_limit: Annotated[int, Field(ge=1, le=1000)] = 10
    """Number of failed sign-ins and wrong bearer tokens within 5 minutes that blocks an address."""
    console_secret: str | None = None
    """Secret that signs cookies, at least 32 characters; replicas of the console share it. None: that of
    the file."""
    console_secret_file: Path = Path(DEFAULT_FOLDER) / "console.secret"
    """File of that secret, made at the first start for its owner alone."""
    console_oidc_issuer: Annotated[str, AfterValidator(_issuer_url)] | None = None
    """Issuer of OpenID Connect, by which people sign in."""
    console_oidc_client_id: str | None = None
    """Client id of the console at the issuer; its redirect URI is `<console_url>/login/oidc/callback`."""
    console_oidc_client_secret: str | None = None
    """Client secret. None: a public client, which PKCE alone protects."""
    console_oidc_scopes: tuple[str, ...] = ("openid", "profile", "email")
    """Scopes of a sign-in."""
    console_oidc_name_claim: str = "email"
    """Claim by which people are named in the audit log; without it, or if not verified, `sub`."""
    console_oidc_role_claim: str = "groups"
    """Claim that holds groups or roles, a text or a list; dots lead into objects: `realm_access.roles`."""
    console_oidc_roles: dict[str, Role] = Field(default_factory=dict[str, Role])
    """Role of each value of that claim: `{"platform-team": "admin", "support": "operator"}`; the highest
    counts."""
    console_oidc_default_role: Role | None = None
    """Role of people without such a value. None: they are refused."""
    console_masked_fields: tuple[str, ...] = DEFAULT_MASKED_FIELDS
    """Words in names of fields whose values are hidden in arguments, results, errors and logs; `*`
    stands for any."""

    @model_validator(mode="after")
    def _check_oidc(self) -> Self:
        if self.console_oidc_issuer is None:
            return self
        if self.console_oidc_client_id is None:
            raise ValueError("console_oidc_client_id beside console_oidc_issuer")
        if self.console_url is None:
            raise ValueError("console_url beside console_oidc_issuer: people come back to it")
        if not self.console_oidc_roles and self.console_oidc_default_role is None:
            raise ValueError(
                "console_oidc_roles or console_oidc_default_role beside console_oidc_issuer: "
                "without them nobody has a role"
            )
        if "openid" not in self.console_oidc_scopes:
            raise ValueError("console_oidc_scopes with `openid`")
        return self

    @property
    def has_sign_in(self) -> bool:
        """True if people sign in, by tokens or by OpenID Connect."""
        return self.accepts_tokens or self.console_oidc_issuer is not None

    @property
    def accepts_tokens(self) -> bool:
        """True if people can sign in with a token."""
        return bool(self.console_tokens) or self.console_tokens_file is not None


HOW_TO_SIGN_IN = (
    "make a token with `warrener console token NAME --role admin --file FILE` and set "
    "WARRENER_CONSOLE_TOKENS_FILE=FILE, or set WARRENER_CONSOLE_OIDC_ISSUER"
)


def check_access(settings: ConsoleSettings) -> None:
    """Raise CommandError if the console would let anybody in who reaches its address."""
    host = settings.console_host
    if settings.has_sign_in or (is_loopback_host(host) and settings.console_url is None):
        return
    where = settings.console_url or host or "every address"
    raise UsageError(
        f"expected tokens or OpenID Connect for a console on {where}, got neither: "
        "anybody who reaches it could cancel and delete jobs",
        do=f"{HOW_TO_SIGN_IN}; or serve it on 127.0.0.1 alone",
    )
