"""The isolation of an attempt in a process of its own: its limits and its environment. Pure.

@agent.job("video.cut", executor="process", limits=Limits(memory="512MiB", cpu="60s"))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from pydantic import ByteSize, TypeAdapter, ValidationError

from warrener_agent.failures import JobDefinitionError
from warrener_contracts.fields import parse_duration

_BYTES = TypeAdapter[int](ByteSize)
_PROCESSES = ("process", "command")

Restart = Literal["always", "on-failure", "no"]
"""When a child process is replaced at once: whenever it ended; if it died or exceeded a limit; never, so that
the next attempt starts one."""

Size = int | str  # bytes, or a text such as "512MiB"


def parse_size(value: Size) -> int:
    """Return the bytes. Raises ValueError that says what was expected."""
    try:
        return _BYTES.validate_python(value)
    except ValidationError:
        raise ValueError(f'expected bytes or a size such as "512MiB", got {value!r}') from None


def format_size(value: int) -> str:
    """Return a text such as "512.0MiB"."""
    return ByteSize(value).human_readable()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one attempt. None: no limit but the machine's. The job type's `timeout` limits its time.

    `memory` counts the attempt with all its processes; `cpu` is processor time; `file_size` is the limit of
    each file that it writes. Raises ValueError for a bad limit.
    """

    memory: Size | None = None
    cpu: timedelta | float | str | None = None
    open_files: int | None = None
    processes: int | None = None
    file_size: Size | None = None

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "cpu_seconds", "open_files", "processes", "file_bytes"):
            value: float | None = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"expected a limit above 0, got {value} for {name}")

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else parse_size(self.memory)

    @property
    def cpu_seconds(self) -> float | None:
        return None if self.cpu is None else parse_duration(self.cpu).total_seconds()

    @property
    def file_bytes(self) -> int | None:
        return None if self.file_size is None else parse_size(self.file_size)

    @property
    def needs_watching(self) -> bool:
        """True if a limit concerns all processes of an attempt together."""
        return any(value is not None for value in (self.memory, self.cpu, self.processes))


@dataclass(frozen=True, slots=True)
class Recycle:
    """When a child process is not reused: after `jobs` attempts, or once it holds `memory` bytes."""

    jobs: int = 1000
    memory: Size = "1GiB"

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"expected to recycle after 1 job or more, got {self.jobs}")
        _ = self.memory_bytes

    @property
    def memory_bytes(self) -> int:
        return parse_size(self.memory)

    def is_due(self, jobs: int, memory: int) -> bool:
        """True if a child that has run `jobs` attempts and holds `memory` bytes is not reused."""
        return jobs >= self.jobs or memory >= self.memory_bytes


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The settings of a new process; two attempts share a warm child only if theirs are equal."""

    environment: tuple[str, ...] = ()
    user: str | None = None
    umask: int | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of one job type's attempts from the agent and from each other."""

    limits: Limits = Limits()
    recycle: Recycle = Recycle()
    process_settings: ProcessSettings = ProcessSettings()
    restart: Restart = "on-failure"


class IsolationOptions(TypedDict, total=False):
    """The options of a job type whose attempts have processes of their own."""

    limits: Limits
    recycle: Recycle
    restart: Restart
    environment: tuple[str, ...]
    user: str
    umask: int


def build_isolation(name: str, executor: str, options: Mapping[str, Any]) -> Isolation:
    """Build the isolation from a job type's options. Raises JobDefinitionError for bad ones."""
    chosen = [one for one in IsolationOptions.__annotations__ if one in options]
    if chosen and executor not in _PROCESSES:
        raise JobDefinitionError(
            f'{name}: expected executor "process" with {", ".join(chosen)}, got "{executor}": only a process '
            "of its own can be held to that"
        )
    if executor == "command" and (unsupported := [one for one in ("recycle", "restart") if one in chosen]):
        raise JobDefinitionError(
            f"{name}: expected no {' and no '.join(unsupported)}, got one: a program is a new process "
            "each time"
        )
    restart = options.get("restart", "on-failure")
    if restart not in get_args(Restart):
        raise JobDefinitionError(
            f"{name}: expected restart to be one of {', '.join(get_args(Restart))}, got {restart!r}"
        )
    if isinstance(options.get("environment"), str):
        raise JobDefinitionError(f"{name}: expected the names of environment variables, got one string")
    umask = options.get("umask")
    if umask is not None and not 0 <= umask <= 0o777:
        raise JobDefinitionError(f"{name}: expected a umask from 0o000 to 0o777, got {umask:#o}")
    process_settings = ProcessSettings(tuple(options.get("environment", ())), options.get("user"), umask)
    limits, recycle = options.get("limits", Limits()), options.get("recycle", Recycle())
    return Isolation(limits, recycle, process_settings, restart)
