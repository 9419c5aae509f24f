"""The face of an agent: the jobs it knows how to run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel

from warrener_agent.command_definitions import define_command
from warrener_agent.errors import ErrorRules, Errors
from warrener_agent.failures import JobDefinitionError
from warrener_agent.job_definitions import ExecutorName, JobDefinition, JobOptions, define_job
from warrener_agent.program import Program
from warrener_agent.schedules import ScheduleOptions, declare_schedule, resolve_definition
from warrener_contracts.events import ScheduleDeclaration
from warrener_contracts.policy import Guarantee

F = TypeVar("F", bound=Callable[..., Any])


class Agent:
    """Job types and their handlers. Declares, and does nothing else: `python -m warrener_agent` serves it."""

    def __init__(self) -> None:
        self._definitions: dict[str, JobDefinition] = {}
        self._schedules: dict[str, ScheduleDeclaration] = {}

    @property
    def definitions(self) -> Mapping[str, JobDefinition]:
        """What it serves, by job type."""
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
        no_retry: Errors = (),
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]:
        """Serve the job type `name` with the decorated function, which stays a function that anybody may
        call.

        Its signature is the contract: arguments are checked by the annotations, the result by the return
        type, and a parameter annotated with `JobContext` is given the running attempt. An exception is tried
        again, up to `max_attempts`, unless it is `Fail`, one of `no_retry`, or none of `retry_on` where that
        is given: exception classes, and names of such with `*` ("requests.*"). `executor` is "coroutine" for
        an `async def` and "thread" for a plain function if not said; only a "process" can be stopped whatever
        it does. `depends_on` names what it needs and others run: while too many attempts fail of job types
        that need it, jobs wait, uncharged; `breaker` says when that is (True: one of its own, as usual).
        `per_message`: so many first attempts that are dispatched at once may come in one message, run at once
        in one slot, and come back together if the agent dies: for coroutines that are over soon.

        Raises JobDefinitionError for what cannot be served.
        """

        def declare(handler: F) -> F:
            definition = define_job(
                name,
                handler,
                queue=queue,
                guarantee=guarantee,
                executor=executor,
                errors=ErrorRules(retry_on, no_retry),
                options=options,
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

        `arguments` is a model of what a job may say; without one it may say nothing. `result` is the type of
        what the program writes to its standard output: `str` is its text, None nothing, anything else JSON.

        Raises JobDefinitionError for what cannot be served.
        """
        self._add(
            define_command(
                name,
                program,
                arguments=arguments,
                result=result,
                description=description,
                queue=queue,
                guarantee=guarantee,
                options=options,
            )
        )

    def schedule(
        self,
        name: str,
        *,
        job_type: str | None = None,
        edition: int = 0,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[F], F]:
        """Declare the schedule `name` for the jobs of the decorated handler; stands above `@agent.job`.

        One of `cron`, `every`, `at`, `after` and `rule` says when. The scheduler takes a declaration up when
        it is first heard, and never again: what an operator puts, pauses or removes afterwards stays so,
        until the code says something new. Another `edition` makes it new without a change. `job_type` says
        which is meant where a handler serves several, and stands alone for a program: there is nothing to
        decorate.

        Raises JobDefinitionError for what cannot be kept, and for arguments that the handler would refuse.
        """

        if job_type in self._definitions:
            self._add_schedule(declare_schedule(name, self._definitions[job_type], edition, options))

        def declare(handler: F) -> F:
            definition = resolve_definition(name, self._definitions.values(), handler, job_type)
            self._add_schedule(declare_schedule(name, definition, edition, options))
            return handler

        return declare

    def include(self, other: "Agent") -> None:
        """Serve what `other` serves too. Raises JobDefinitionError where both serve one name."""
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
        self._definitions[definition.name] = definition
