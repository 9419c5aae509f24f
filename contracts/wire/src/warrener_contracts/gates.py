"""The gates of a job: their names, from the limits of its type and its arguments. Pure."""

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from uuid import UUID

from warrener_contracts.fields import JsonObject
from warrener_contracts.policy import Limit
from warrener_contracts.templates import TemplateNames, find_mistakes, render, to_text

_MAX_NAME = 200  # characters; of a longer one the end is a digest, and of one that ends like a digest
_DIGEST_SIZE = 8
_DIGESTED = re.compile(r"#[0-9a-f]{16}\Z")


def find_limit_mistake(limits: Sequence[Limit], parameters: Iterable[str]) -> str | None:
    """Explain the first mistake in the keys of limits; None without any. `parameters`: those of the job type
    that each request gives."""
    names = TemplateNames([f"arguments.{one}{rest}" for one in parameters for rest in ("", ".*")])
    mistakes = (mistake for limit in limits for mistake in find_mistakes(limit.key, names))
    return next((f"{mistake}; name parameters without a default" for mistake in mistakes), None)


def job_gates(
    job_type: str, queue: str, limits: Sequence[Limit], arguments: JsonObject
) -> list[tuple[str, int]]:
    """Return the names of the gates of a job in the order of its limits, and how many slots each has. Raises
    TemplateError if a key names an argument that is not there.

    Two limits of a type have different gates, also if their keys have the same text. Those of one pool or
    queue have one gate if their keys have the same text: the job takes one slot of it.
    """
    gates: list[tuple[str, int]] = []
    for number, limit in enumerate(limits, 1):
        name = f"job/{job_type}" if number == 1 else f"job/{job_type}:{number}"
        if limit.pool is not None:
            name = f"pool/{limit.pool}"
        elif limit.per is not None:
            name = f"{limit.per}/{queue}"
        if limit.key:
            name = f"{name}/{to_text(render(limit.key, {'arguments': arguments}))}"
        gates.append((_bounded(name), limit.slots))
    return gates


def is_gate_of(name: str, job_type: str, limits: Sequence[Limit]) -> bool:
    """True if a job of this type may need a slot of the gate of this name."""
    plain = [limit.model_copy(update={"key": ""}) for limit in limits]
    queue = name.removeprefix("queue/").partition("/")[0]
    bases = job_gates(job_type, queue, plain, {})
    return any(
        name.startswith(f"{base}/") if limit.key else name == base
        for (base, _), limit in zip(bases, limits, strict=True)
    )


def map_gate(parent_id: UUID, map_id: str) -> str:
    """Return the name of the gate that the jobs of a map pass."""
    return _bounded(f"map/{parent_id}/{map_id}")


def _bounded(name: str) -> str:
    if len(name) <= _MAX_NAME and not _DIGESTED.search(name):
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_SIZE).hexdigest()
    return f"{name[: _MAX_NAME - len(digest) - 1]}#{digest}"
