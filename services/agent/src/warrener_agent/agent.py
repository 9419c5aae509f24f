"""The declarations of an agent: its job types, programs and schedules."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from pydantic import BaseModel, ValidationError

from warrener_agent.definitions.job import Errors, ExecutorName, JobDefinition, JobOptions, define_job
from warrener_agent.definitions.program import Program, program_handler
from warrener_agent.definitions.signature import read_signature
from warrener_agent.failures import JobDefinitionError
from warrener_agent.workflows.workflow import Workflow
from warrener_contracts.events import ScheduleDeclaration
from warrener_contracts.policy import Guarantee, PolicyOverrides
from warrener_contracts.schedule_rules import SHORT_RULE_FIELDS, Rule, ScheduleChoices, expand_short_rule
from warrener_contracts.templates import has_placeholders
from warrener_contracts.triggers import TriggerRule

F = TypeVar("F", bound=Callable[..., Any])


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule in the code; omitted ones have their defaults.

    One of `rule`, `cron`, `every`, `at` and `after`, with the options of that one, sets the times.
    """

    rule: Rule
    cron: str
    every: timedelta | float | str
    anchor: datetime
    offset: timedelta | float | str
    at: datetime
    after: timedelta | float | str
    timezone: str
    arguments: Mapping[str, Any]
    queue: str
    policy: PolicyOverrides
    choices: ScheduleChoices


class Agent:
    """Job types and their handlers. Only declares them: `python -m warrener_agent` serves them."""

    def __init__(self) -> None:
        self._definitions: dict[str, JobDefinition] = {}
        self._schedules: dict[str, ScheduleDeclaration] = {}

    @property
    def definitions(self) -> Mapping[str, JobDefinition]:
        """The job types that it serves, by name."""
        return MappingProxyType(self._definitions)

    @property
    def schedules(self) -> tuple[ScheduleDeclaration, ...]:
        """The schedules that it declares."""
        return tuple(self._schedules.values())

    def job(
        self,
        name: str,
        *,
        queue: str = "default",
        guarantee: Guarantee | str = Guarantee.IDEMPOTENT,
        executor: ExecutorName | None = None,
        retry_on: Errors = (),
        no_retry_on: Errors = (),
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]:
        """Serve the job type `name` with the decorated function, which stays callable as it is.

        The signature is the contract: annotations check the arguments, the return type checks the result, and
        a parameter annotated with `JobContext` receives the running attempt.

        - `retry_on`, `no_retry_on`: exception classes, or their names with `*` ("requests.*"). An exception
        is retried up to `max_attempts`, unless it is `Fail`, one of `no_retry_on`, or not among `retry_on`
          (default: all).
        - `retry_rules`: changes of the next attempt by how earlier ones have failed, such as another queue.
        - `executor`: "coroutine" (default for an `async def`), "thread" (default for a plain function) or
          "process", the only one that can stop any handler.
        - `depends_on`: names of dependencies. While too many attempts of the job types that need one fail,
          jobs wait, uncharged. `breaker`: the policy that decides this (True: a breaker of the job type's
          own, with defaults).
        - `dispatch_batch`: maximum of first attempts in one message (default 1). They run at once in one
        slot, and come back together if the agent dies: for short coroutines.
        - `gather`: `Gather(up_to=100, within="2s")` runs the handler once for several jobs: it takes a list
          with the arguments of each and returns a list with the result, or the exception, of each. The agents
          of such a type need a queue of their own for it.
        - `public`: True if its events on `warrener.events` carry results and the texts of errors, for anyone
          who may bind a queue there. Replies to requesters and the store always have both.
        - `gates`: `Limit(5)` has at most five jobs of the type dispatched at once, whatever agents there are,
          and `Limit(5, key="{{ arguments.tenant }}")` five of each tenant. The others wait in the store, the
          first due first.
        - `unique`: `Unique("{{ arguments.index }}", repeat="replace")` has no two jobs of one index wait;
          a further request replaces the first one, is rejected, or is answered as that ("first").
        - `encrypted`: True if plain arguments are refused, and results, checkpoints, journals and errors are
          encrypted (`WARRENER_ENCRYPTION_KEYS_FILE`).

        Raises JobDefinitionError for a handler that cannot be served.
        """

        def declare(handler: F) -> F:
            definition = define_job(
                name,
                handler,
                queue=queue,
                guarantee=guarantee,
                executor=executor,
                retry_on=retry_on,
                no_retry_on=no_retry_on,
                options=options,
            )
            self._add(definition)
            return handler

        return declare

    def workflow(
        self,
        name: str,
        *,
        queue: str = "default",
        on_failure: Literal["undo", "hold"] = "undo",
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]:
        """Serve the job type `name` with the decorated `async def`, a workflow: it calls other jobs by its
        parameter annotated with `Workflow`, and takes no slot while it waits for them.

        The options of a job apply; those of a process, `heartbeat_timeout`, `dispatch_batch` and `gather` do
        not.
        `on_failure="hold"`: when it would be dead it waits for an operator, and nothing is undone until then.

        Raises JobDefinitionError for a handler that cannot be served.
        """

        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise JobDefinitionError('expected @agent.workflow("a.name") above an `async def`, got no name')

        def declare(handler: F) -> F:
            if not inspect.iscoroutinefunction(handler):
                raise JobDefinitionError(f"{name}: expected an `async def` for a workflow, got {handler!r}")
            signature = read_signature(handler, name, Workflow)
            if signature.context is None:
                raise JobDefinitionError(
                    f"{name}: expected a parameter annotated with Workflow, got none: a workflow calls by it"
                )
            definition = define_job(
                name,
                handler,
                queue=queue,
                guarantee=Guarantee.IDEMPOTENT,
                executor="workflow",
                options=options,
                on_failure=on_failure,
                signature=signature,
            )
            self._add(definition)
            return handler

        return declare

    def command(
        self,
        name: str,
        program: Program,
        *,
        arguments: type[BaseModel] | None = None,
        result: Any = str,
        description: str = "",
        queue: str = "default",
        guarantee: Guarantee | str = Guarantee.IDEMPOTENT,
        **options: Unpack[JobOptions],
    ) -> None:
        """Serve the job type `name` with a program, run in a process of its own without a shell.

        `arguments`: model of the job's arguments (default: none are allowed). `result`: type of the program's
        standard output: `str` for text, None for nothing, any other type for JSON.

        Raises JobDefinitionError for a program that cannot be served.
        """
        handler, signature = program_handler(name, program, arguments, result, description)
        self._add(
            define_job(
                name,
                handler,
                queue=queue,
                guarantee=guarantee,
                executor=None,
                options=options,
                signature=signature,
            )
        )

    def schedule(
        self, name: str, *, job_type: str | None = None, revision: int = 0, **options: Unpack[ScheduleOptions]
    ) -> Callable[[F], F]:
        """Declare the schedule `name` for the jobs of the decorated handler; stands above `@agent.job`.

        One of `cron`, `every`, `at`, `after` and `rule` sets the times. The scheduler applies a declaration
        once: an operator's later changes, pauses and removals stay until the declaration in the code changes.
        Another `revision` applies it again without a change. `job_type` selects one of several job types of a
        handler, and stands alone for a program, which has nothing to decorate.

        Raises JobDefinitionError for a bad schedule, and for arguments that the handler would refuse.
        """

        if job_type in self._definitions:
            self._add_schedule(_declare_schedule(name, self._definitions[job_type], revision, options))

        def declare(handler: F) -> F:
            definition = _resolve_definition(name, self._definitions.values(), handler, job_type)
            self._add_schedule(_declare_schedule(name, definition, revision, options))
            return handler

        return declare

    def include(self, other: "Agent") -> None:
        """Serve the jobs and schedules of `other` too. Raises JobDefinitionError if both declare one name."""
        for definition in other.definitions.values():
            self._add(definition)
        for declaration in other.schedules:
            self._add_schedule(declaration)

    def _add_schedule(self, declaration: ScheduleDeclaration) -> None:
        name = declaration.schedule.name
        if self._schedules.setdefault(name, declaration) != declaration:
            raise JobDefinitionError(f"schedule {name}: expected one declaration, got two that differ")

    def _add(self, definition: JobDefinition) -> None:
        known = self._definitions.get(definition.name)
        if known is not None and known.handler is not definition.handler:
            raise JobDefinitionError(
                f"{definition.name}: expected one handler, got "
                f"{known.handler.__module__}.{known.handler.__qualname__} and "
                f"{definition.handler.__module__}.{definition.handler.__qualname__}; give one of them "
                "another name"
            )
        for other in self._definitions.values():
            if other.declaration.queue == definition.declaration.queue and (
                (other.gather is None) is not (definition.gather is None)
            ):
                raise JobDefinitionError(
                    f"{definition.name}: expected gathered jobs in a queue of their own, got "
                    f"{other.declaration.queue} for {other.name} too: an agent takes many gathered jobs at "
                    "once, and would send others back; say queue=..."
                )
        self._definitions[definition.name] = definition


def _declare_schedule(
    name: str, definition: JobDefinition, revision: int, options: ScheduleOptions
) -> ScheduleDeclaration:
    known = ScheduleOptions.__annotations__
    if unknown := sorted(options.keys() - known):
        raise JobDefinitionError(
            f"schedule {name}: expected options among {', '.join(sorted(known))}, got {', '.join(unknown)}"
        )
    given = dict(options)
    try:
        values = {word: value for word, value in given.items() if word not in SHORT_RULE_FIELDS}
        values |= {"name": name, "job_type": definition.name, "rule": expand_short_rule(given)}
        declaration = ScheduleDeclaration.model_validate({"schedule": values, "revision": revision})
        rule, arguments = declaration.schedule.rule, declaration.schedule.arguments
        has_event = isinstance(rule, TriggerRule) and rule.event_argument is not None
        if not has_event and not has_placeholders(arguments):  # else ticks add to them: each job is checked
            definition.signature.read(arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, found['loc']))}: {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors(include_url=False)
        )
        raise JobDefinitionError(f"schedule {name}: {problems}") from error
    except ValueError as error:
        raise JobDefinitionError(f"schedule {name}: {error}") from error
    return declaration


def _resolve_definition(
    name: str, definitions: Iterable[JobDefinition], handler: object, job_type: str | None
) -> JobDefinition:
    """Return the job type of a schedule. Raises JobDefinitionError unless there is exactly one."""
    found = [
        definition
        for definition in definitions
        if (definition.handler is handler if job_type is None else definition.name == job_type)
    ]
    if len(found) == 1:
        return found[0]
    if job_type is not None:
        raise JobDefinitionError(f"schedule {name}: expected a job type of this agent, got {job_type!r}")
    found_names = ", ".join(definition.name for definition in found) or "none: put it above @agent.job(...)"
    raise JobDefinitionError(
        f"schedule {name}: expected the handler of one job type, got that of {found_names}"
        + ("; say job_type" if found else "")
    )
