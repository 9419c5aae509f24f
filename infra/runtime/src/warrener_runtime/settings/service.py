"""The settings that every service has; a service adds its own by subclassing."""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Annotated, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, PrivateAttr
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE, validate_namespace
from warrener_runtime.settings.environment import EnvironmentSource
from warrener_runtime.settings.secrets import mask_value

PREFIX = "WARRENER_"

values_of_file: ContextVar[dict[str, object]] = ContextVar("values_of_file")
"""What `load` read from the TOML file, on its way to the source that pydantic-settings asks."""


def _amqp_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"amqp", "amqps"} or not parts.hostname or not _has_port(parts):
        raise ValueError("a URL like amqp://host:5672/vhost")
    return url


def _has_port(parts: SplitResult) -> bool:
    """A port that is one, or none."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_port(parts):
        raise ValueError("a URL like http://host:4317")
    return url


BrokerUrl = Annotated[str, AfterValidator(_amqp_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]


class ServiceSettings(BaseSettings):
    """What any service can be told. Made by `load`, which explains what is wrong with a value."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True, validate_default=True
    )

    section: ClassVar[str | None] = None
    """The table of the TOML file whose keys are for this service alone, and win over those at the top."""

    broker_url: BrokerUrl = "amqp://guest:guest@127.0.0.1:5672/"
    namespace: Annotated[str, AfterValidator(validate_namespace)] = DEFAULT_NAMESPACE
    """The first word of every exchange and queue: several systems may share one virtual host of a broker."""
    lane: Literal["lean", "aio-pika"] = "lean"
    """The client library that carries the hot queues: our own, for speed, or aio-pika's."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    health_host: str = "127.0.0.1"
    health_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Where /live and /ready are served; none or 0 means nowhere."""
    otlp_endpoint: HttpUrl | None = None
    """Where traces go; none means that none are made."""
    otlp_protocol: Literal["grpc", "http/protobuf"] = "grpc"
    batch_limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of events in one message; a message with more is parked as a whole."""
    drain_grace: Annotated[float, Field(ge=0, le=86400)] = 30.0
    """Seconds that running work may take to finish after SIGTERM."""
    give_up_deaf_after: Annotated[float, Field(gt=0)] = 120.0
    """Seconds without hearing the broker after which the process ends, so that a fresh one is started."""
    give_back_timeout: Annotated[float, Field(ge=0)] = 5.0
    """Seconds for which messages that cannot be handled, as the database is away or read-only, are tried
    again; then they go back to their queue for other replicas, until the database can be written again."""

    _hints: tuple[str, ...] = PrivateAttr(default=())

    @property
    def hints(self) -> tuple[str, ...]:
        """What looks like a mistake though it is not an error, such as a variable that nobody reads."""
        return self._hints

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Secrets are masked wherever the settings are printed."""
        return [(name, mask_value(name or "", value)) for name, value in super().__repr_args__()]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        from_file = InitSettingsSource(settings_cls, init_kwargs=values_of_file.get({}))
        return init_settings, EnvironmentSource(settings_cls), from_file
