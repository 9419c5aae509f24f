"""Settings of a service: flags, then `WARRENER_*` variables, then a TOML file, then defaults.

The file is named by `WARRENER_CONFIG`, or is `warrener.toml` in the folder where the service was started.
URLs and secrets are read from files of their own, too: `WARRENER_BROKER_URL_FILE` names that of
`broker_url`.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_origin
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
)

from warrener_runtime.namespace import DEFAULT_NAMESPACE, validate_namespace
from warrener_runtime.secret_files import SUFFIX, SecretFileError, exposure, may_hold_secret, read_secret_file
from warrener_runtime.secrets import mask_value, shown

CONFIG_VARIABLE = "WARRENER_CONFIG"
DEFAULT_FILE = "warrener.toml"
PREFIX = "WARRENER_"

_CLOSE = (
    0.85  # STORE_URL and BROKER_URL have 0.81 and are no typing error; a missing character has 0.94 or more
)


class SettingsError(Exception):
    """The settings cannot be used. Each problem names the variable, the expected and the given value."""

    def __init__(self, problems: Sequence[str], hints: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        self.hints = tuple(hints)
        super().__init__("\n".join([*problems, *(f"hint: {hint}" for hint in hints)]))


def problems_in(error: ValidationError, origin: Callable[[str], str]) -> list[str]:
    """Write one sentence for each wrong value; `origin` names the source of a field's value."""
    return [_problem(detail, origin) for detail in error.errors(include_url=False)]


def _problem(detail: Any, origin: Callable[[str], str]) -> str:
    path = [str(part) for part in detail["loc"]]
    field = path[0] if path else "settings"
    where = ".".join([origin(field), *path[1:]])
    if detail["type"] == "missing":
        return f"{where}: expected a value, got none; set it"
    expected = _expected(detail)
    if expected.startswith("expected "):  # it says what came, too
        return f"{where}: {expected}"
    if may_hold_secret(field) and where.lower().endswith(SUFFIX):  # no part of such a file is shown
        return f"{where}: expected {expected} in that file, got another text"
    return f"{where}: expected {expected}, got {mask_value(field, detail['input'])!r}"


def _expected(detail: Any) -> str:
    if "ctx" in detail and isinstance(detail["ctx"].get("error"), ValueError):
        return shown(str(detail["ctx"]["error"]))  # our own validators say what they expect
    message: str = detail["msg"]
    for beginning in ("Input should be ", "Value error, "):
        message = message.removeprefix(beginning)
    return message.split(", unable to")[0]


@dataclass(frozen=True)
class FileValues:
    """The values of the file for one service, and their keys."""

    path: Path | None = None
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])

    def origin(self, key: str) -> str:
        return f"{self.path}: {self.keys.get(key, key)}"


def read_file(section: str | None) -> FileValues:
    """Read the top-level keys and those of `section`, which win. Raises SettingsError."""
    named = os.environ.get(CONFIG_VARIABLE)
    path = Path(named or DEFAULT_FILE)
    if not named and not path.is_file():
        return FileValues()
    document = _parse(path)
    values = {key: value for key, value in document.items() if not isinstance(value, dict)}
    keys = {key: key for key in values}
    table = document.get(section) if section else None
    if isinstance(table, dict):
        own = cast("dict[str, object]", table)
        values |= own
        keys |= {key: f"{section}.{key}" for key in own}
    return FileValues(path, values, keys)


def _parse(path: Path) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - most commands have no file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problem = (
            f"{CONFIG_VARIABLE}: expected a file that can be read, got {str(path)!r} ({error}); name another"
        )
        raise SettingsError([problem]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: expected TOML, got a mistake: {error}; put it right"]) from error


def read_variables(kind: type[BaseModel]) -> dict[str, object]:
    """Read the `WARRENER_*` variables of the fields of `kind`, and of the files of their values. An empty
    variable is not set.

    Lists are written with commas (`a,b`), as in shells, or as JSON, and tables as JSON.
    """
    variables = {name.lower(): text for name, text in os.environ.items() if text}
    prefix = PREFIX.lower()
    twins: dict[str, object] = {
        twin: variables[key] for twin in _file_twins(kind) if (key := prefix + twin) in variables
    }
    return twins | {
        name: _decode_list(variables[key]) if get_origin(field.annotation) in _COMPLEX else variables[key]
        for name, field in kind.model_fields.items()
        if (key := prefix + name) in variables
    }


_COMPLEX = (list, tuple, dict)


def _file_twins(kind: type[BaseModel]) -> dict[str, str]:
    """The fields whose values may stand in files of their own, by the names of those settings."""
    fields = kind.model_fields
    twins = {f"{name}{SUFFIX}": name for name in fields if may_hold_secret(name)}
    return {twin: name for twin, name in twins.items() if twin not in fields}


def _read_twins(
    kind: type[BaseModel], values: Mapping[str, object], origin: Callable[[str], str], hints: list[str]
) -> dict[str, object]:
    """Return `values` with those that stand in files of their own. Raises SettingsError."""
    read = dict(values)
    for twin, name in _file_twins(kind).items():
        if not (file := read.pop(twin, None)):
            continue
        if name in read:
            raise SettingsError([f"expected {origin(name)} or {origin(twin)}, got both; leave one out"])
        try:
            text = read_secret_file(origin(twin), str(file))
        except SecretFileError as error:
            raise SettingsError([str(error)]) from None
        annotation = kind.model_fields[name].annotation
        read[name] = _decode_list(text) if get_origin(annotation) in _COMPLEX else text
        if complaint := exposure(origin(twin), str(file)):
            hints.append(complaint)
    return read


def _decode_list(text: str) -> object:
    """The parts of a list, or the document; malformed JSON is left as it is, for pydantic to report."""
    text = text.strip()
    if not text.startswith(("[", "{")):
        return [part.strip() for part in text.split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _merge(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """The values of both; those of `over` win. The entries of a table are merged one by one."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[name] = _merge(cast("Table", below), cast("Table", value)) if both else value
    return merged


Table = dict[str, object]


def _amqp_url(url: str) -> str:
    parts = urlsplit(url)
    hosts = [urlsplit(f"//{host}") for host in parts.netloc.rpartition("@")[2].split(",")]
    if parts.scheme not in {"amqp", "amqps"} or not all(host.hostname and _has_port(host) for host in hosts):
        raise ValueError("a URL like amqp://host:5672/vhost")
    return url


def _has_port(parts: SplitResult) -> bool:
    """True if the port is valid or absent."""
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


_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_ISO = TypeAdapter(timedelta, config=ConfigDict(defer_build=True))


def _to_seconds(value: object) -> object:
    """A duration as people write it, in seconds; what is no text is left to pydantic."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        match = _SPAN.fullmatch(value)
    if match and value:
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000
    try:
        return _ISO.validate_python(value).total_seconds()
    except ValidationError:
        raise ValueError('a duration such as 90, "90s", "2m", "1h30m" or "PT2M"') from None


DurationSeconds = Annotated[float, BeforeValidator(_to_seconds)]
"""Seconds; read from a number of them, "90s", "2m", "1h30m" or ISO 8601."""


class ServiceSettings(BaseModel):
    """The settings that every service has; a service adds its own by subclassing. Made by `load`."""

    # Built with the first use: most programs use one subclass alone.
    model_config = ConfigDict(extra="ignore", frozen=True, validate_default=True, defer_build=True)

    section: ClassVar[str | None] = None
    """The table of the TOML file whose keys are for this service alone and win over top-level keys."""

    broker_url: BrokerUrl = "amqp://guest:guest@127.0.0.1:5672/"
    """URL of the broker; `amqps` for TLS. Nodes of a cluster are separated by commas."""
    broker_user: Annotated[str, Field(max_length=255)] | None = None
    """The broker's user that messages of agents, supervisors, console and command name as their sender, which
    the broker checks (default: that of `broker_url`; none with EXTERNAL). With OAuth set that of the token,
    or an empty one."""
    namespace: Annotated[str, AfterValidator(validate_namespace)] = DEFAULT_NAMESPACE
    """The first part of the name of every exchange and queue, so that several systems can share a virtual
    host."""
    signing_key_file: Path | None = None
    """File of the key by which requests for jobs are signed; none: they are not signed."""
    declare: Literal["if-missing", "never"] = "if-missing"
    """Exchanges and queues that are missing on the broker are declared, or waited for: `never` makes nothing
    but exclusive queues of the process itself."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Level from which Warrener's own log lines are written; those of libraries begin at `warning`."""
    log_format: Literal["json", "console"] = "json"
    """JSON for machines, or plain text for people."""
    health_host: str = "127.0.0.1"
    """Address on which /live, /ready and /metrics are served."""
    health_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port of /live, /ready and /metrics; none or 0: not served."""
    otlp_endpoint: HttpUrl | None = None
    """The collector of traces; none: as OTEL_EXPORTER_OTLP_ENDPOINT says, and no traces without either."""
    otlp_protocol: Literal["grpc", "http/protobuf"] = "grpc"
    """Protocol of `otlp_endpoint`."""
    batch_limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of events in one message; a message with more is parked as a whole."""
    shutdown_timeout: Annotated[DurationSeconds, Field(ge=0, le=86400)] = 30.0
    """Time for running work to finish after SIGTERM."""
    consumer_stall_timeout: Annotated[DurationSeconds, Field(gt=0)] = 120.0
    """Time without deliveries or a live consumer after which the process ends, so that a fresh one is
    started."""
    release_timeout: Annotated[DurationSeconds, Field(ge=0)] = 5.0
    """Time for which messages that cannot be handled, as the database is away or read-only, are
    retried; then they go back to their queue for other replicas, until the database can be written again."""

    _hints: tuple[str, ...] = PrivateAttr(default=())

    @property
    def scope_log_level(self) -> str | None:
        """The level of records in log scopes; None for a service that has none."""
        return None

    @property
    def sender(self) -> str | None:
        """The broker's user that messages name as their sender; None: none."""
        return self.sender_at(self.broker_url)

    def sender_at(self, url: str) -> str | None:
        """The same at the broker of `url`: an empty `broker_user` holds for all, another for its own."""
        parts = urlsplit(url)
        if self.broker_user == "" or (self.broker_user and url == self.broker_url):
            return self.broker_user or None
        if parts.username is None:
            return None
        is_external = parse_qs(parts.query).get("auth", [""])[-1].lower() == "external"
        return None if is_external else unquote(parts.username)

    @property
    def hints(self) -> tuple[str, ...]:
        """Likely mistakes that are no errors, such as a variable that no setting reads."""
        return self._hints

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Mask secrets in all output of the settings."""
        return [(name, mask_value(name or "", value)) for name, value in super().__repr_args__()]


S = TypeVar("S", bound=ServiceSettings)


def load(kind: type[S], **overrides: object) -> S:
    """Load the settings of one service: overrides (None: not given), then variables, then the file, then
    defaults.

    Raises SettingsError, which names the flag, the variable or the file and key of every wrong value.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    if unknown := given.keys() - kind.model_fields.keys():
        raise TypeError(f"expected fields of {kind.__name__}, got {sorted(unknown)}")
    file = read_file(kind.section)
    hints = _hints(kind, file)
    below = _read_twins(kind, file.values, file.origin, hints)
    values = _merge(_merge(below, _read_twins(kind, read_variables(kind), _variable, hints)), given)
    try:
        settings = kind.model_validate(values)
    except ValidationError as error:
        problems = problems_in(error, lambda field: _origin(field, given, file))
        raise SettingsError(problems, hints) from None  # the cause would print what is masked
    settings._hints = tuple(hints)  # noqa: SLF001 - the constructor would take it for a setting
    return settings


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def _origin(field: str, given: dict[str, object], file: FileValues) -> str:
    if field in given:
        return f"--{field.replace('_', '-')}"
    twin = f"{field}{SUFFIX}"
    if os.environ.get(_variable(twin)):
        return _variable(twin)
    if not os.environ.get(_variable(field)):
        for key in (field, twin):
            if key in file.values:
                return file.origin(key)
    return _variable(field)


def _known_fields() -> set[str]:
    """The fields of all services in this process: the setting of one is no mistake of another."""
    kinds, fields = [ServiceSettings], set[str]()
    while kinds:
        kind = kinds.pop()
        fields |= kind.model_fields.keys() | _file_twins(kind).keys()
        kinds += kind.__subclasses__()
    return fields


def _hints(kind: type[ServiceSettings], file: FileValues) -> list[str]:
    known = _known_fields()
    variables = {_variable(field) for field in known} | {CONFIG_VARIABLE}
    mine = [_variable(field) for field in kind.model_fields] + [CONFIG_VARIABLE]
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in variables)
    hints = [_hint(name, mine, "it is read by nobody") for name in unknown]
    unread = f"it stands in {file.path} and is read by nobody"
    hints += [_hint(key, list(kind.model_fields), unread) for key in sorted(file.values.keys() - known)]
    return [hint for hint in hints if hint]


def _hint(name: str, candidates: list[str], complaint: str) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only unknown names are compared

    close = get_close_matches(name, candidates, n=1, cutoff=_CLOSE)
    return f"{name} looks like a slip of the pen for {close[0]}; {complaint}" if close else None
