"""A job type that is a program, as an agent serves it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, create_model

from warrener_agent.errors import ErrorRules
from warrener_agent.failures import JobDefinitionError
from warrener_agent.job_definitions import JobDefinition, JobOptions, define_job
from warrener_agent.program import OutputFormat, Program, ProgramCall
from warrener_agent.signature import Signature
from warrener_contracts.policy import Guarantee


class NoArguments(BaseModel):
    """Of a program that is called in the same way each time."""

    model_config = ConfigDict(extra="forbid")


def define_command(
    name: str,
    program: Program,
    *,
    arguments: type[BaseModel] | None,
    result: Any,
    description: str,
    queue: str,
    guarantee: Guarantee | str,
    options: JobOptions,
) -> JobDefinition:
    """The job type `name`, done by `program`. Raises JobDefinitionError that says what is wrong with it."""
    signature = _signature(name, arguments or NoArguments, result)
    _check(name, program, signature)
    output: OutputFormat = "text" if result is str else "nothing" if result is None else "json"

    def make_call(**given: Any) -> ProgramCall:
        return program.make_call(given, output)

    make_call.__doc__ = description
    return define_job(
        name,
        make_call,
        queue=queue,
        guarantee=guarantee,
        executor=None,
        errors=ErrorRules(),
        options=options,
        signature=signature,
    )


def _signature(name: str, arguments: type[BaseModel], result: Any) -> Signature:
    if (
        arguments.model_config.get("extra") != "forbid"
    ):  # as with a function: what it does not know is refused
        arguments = create_model(arguments.__name__, __base__=arguments, __cls_kwargs__={"extra": "forbid"})
    names: Mapping[str, str] = {field: field for field in arguments.model_fields}
    try:
        signature = Signature(None, names, arguments, TypeAdapter(result))
        _ = signature.arguments_schema, signature.result_schema
    except (PydanticUserError, NameError) as error:
        raise JobDefinitionError(
            f"{name}: expected types that can be read from JSON and written to it, got: {error}"
        ) from error
    return signature


def _check(name: str, program: Program, signature: Signature) -> None:
    try:
        unknown = program.names - set(signature.names)
    except ValueError as error:
        raise JobDefinitionError(f"{name}: {error}") from error
    if unknown:
        raise JobDefinitionError(
            f"{name}: expected {', '.join(sorted(signature.names)) or 'no argument'} in braces, got "
            f"{', '.join(sorted(unknown))}: declare it in `arguments`"
        )
