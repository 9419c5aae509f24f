"""Patterns and parsers that read foreign text take a time in proportion to its length.

This is the one test of time outside `tools/benchmarks`: a quadratic pattern holds the interpreter's lock for
seconds, and no result shows it. It compares the processor time of a text with that of one ten times as long,
so it depends neither on the machine nor on its load: a linear reader needs 10 times as much, a quadratic one
100 times.
"""

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from time import process_time
from typing import cast

import pytest
from pydantic import TypeAdapter
from tests.conventions.sources import PACKAGES, modules, tree

from warrener.operations.masking import Masker
from warrener_agent.ledger.statements import number_parameters
from warrener_amqp.address import parse_address
from warrener_calendar.cron import parse_cron
from warrener_contracts.codec import decode
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.fields import Duration
from warrener_contracts.policy import matches_pattern
from warrener_contracts.postgres_address import parse_url
from warrener_contracts.templates import TemplateNames, find_mistakes, render
from warrener_runtime.log_output import hide_secrets
from warrener_runtime.secrets import mask
from warrener_runtime.terminal import escape_controls
from warrener_store.jobs.job_search import id_part
from warrener_supervisor.decisions.cause import fingerprint

SIZES = (1_000, 10_000, 100_000, 1_000_000)
"""Characters of the texts."""
_GENEROUS = 40
"""Times as long that a text of ten times the length may take."""
_NOISE = 0.005
"""Seconds below which the clock's steps and a cold cache count for more than the text."""
_ANCHORED = {"match", "fullmatch"}
_METHODS = {*_ANCHORED, "search", "sub", "subn", "split", "findall", "finditer"}

Reader = Callable[[str], object]
Writer = Callable[[int], str]
OURS = {"warrener_store.statements": "reads the files of SQL of its own wheel"}
"""Modules whose patterns read no foreign text."""
PARSERS: Mapping[str, Reader] = {
    "secrets": mask,
    "log line": lambda text: hide_secrets(None, "", {"event": text, "facts": {"value": [text]}}),
    "console's secrets": Masker().text,
    "documents": lambda text: Masker().value({"value": text, text: "value"}),
    "templates": lambda text: list(find_mistakes([text], TemplateNames(()))),
    "rendering": lambda text: render(text, {}, missing=lambda _: ""),
    "events": lambda text: decode(text.encode(), "application/cloudevents+json"),
    "event types": lambda text: decode(b'{"specversion":"1.0","type":"%b"}' % text.encode(), None),
    "durations": TypeAdapter(Duration).validate_python,
    "cron": parse_cron.__wrapped__,
    "broker's address": lambda text: parse_address(f"amqp://{text}"),
    "store's address": lambda text: parse_url(f"postgresql://{text}"),
    "causes": lambda text: fingerprint(
        "a", ErrorInfo(kind=ErrorKind.ERROR, type="E", message="", stack=text)
    ),
    "names of errors": lambda text: matches_pattern("*a" * 50, text),
    "statements": number_parameters.__wrapped__,
    "control characters": escape_controls,
    "searches": id_part,
}
"""Readers of foreign text that are no single pattern."""
_SAMPLES = ["password=", "://", "{{", "}}", *"a0 \n\"'\\:@/=[{,.*%"]


def _sources() -> Iterator[tuple[Path, str]]:
    """Yield each file that uses `re`, with the name of its module."""
    for path in modules(PACKAGES):
        if any(isinstance(node, ast.Import) and node.names[0].name == "re" for node in ast.walk(tree(path))):
            package = next(folder for folder in PACKAGES if path.is_relative_to(folder))
            yield path, ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")


def _patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        pattern = cast("re.Pattern[str] | re.Pattern[bytes]", value)
        written = pattern.pattern  # one of bytes is tried as its text
        yield re.compile(written.decode() if isinstance(written, bytes) else written, pattern.flags)
    elif isinstance(value, tuple | list):
        for one in cast("list[object]", value):
            yield from _patterns_in(one)


def _methods_of(name: str, path: Path) -> set[str]:
    """The methods of the pattern `name` that its module calls; `search` if it calls none by this name."""
    return {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and node.attr in _METHODS
    } or {"search"}


def _named_patterns() -> Iterator[tuple[str, re.Pattern[str], set[str]]]:
    for path, module in _sources():
        if module in OURS:
            continue
        for name, value in vars(importlib.import_module(module)).items():
            for number, pattern in enumerate(_patterns_in(value)):
                yield f"{module}.{name}[{number}]", pattern, _methods_of(name, path)
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name("re"), attr=method), args=[ast.Constant(str(text)), *_]
                ) if method in _METHODS:
                    yield f"{module}:{node.lineno}", re.compile(text), {method}
                case _:
                    pass


def _reader(pattern: re.Pattern[str], methods: set[str]) -> Reader:
    if methods <= _ANCHORED:
        return lambda text: [getattr(pattern, method)(text) for method in methods]
    return lambda text: pattern.sub("", text)


def _samples(pattern: re.Pattern[str]) -> list[str]:
    """Texts out of which a pattern finds many beginnings: its fixed texts, signs and classes."""
    written = re.sub(r"\\[a-zA-Z]", " ", pattern.pattern)
    fixed = re.findall(r"[^\\\[\](){}|*+?^$.]{2,}", written)
    return list(dict.fromkeys(["a", "0", " ", "\n", *fixed, *re.findall(r"\W|\w(?=\W)", written)]))


def _texts(samples: list[str]) -> Iterator[Writer]:
    def repeated(unit: str) -> Writer:
        return lambda size: (unit * (size // len(unit) + 1))[:size]

    def after(head: str, unit: str) -> Writer:
        return lambda size: (head + unit * (size // len(unit) + 1))[:size] + "\0"

    for one, other in product(samples, samples):
        yield repeated(one + other)
        yield after(one, other)


def _time(read: Reader, write: Writer, size: int, runs: int) -> float:
    """The shortest time of so many runs, each with another text, so that no cache has it."""

    def once(text: str) -> float:
        began = process_time()
        with suppress(ValueError, ArithmeticError):  # the text is refused
            read(text)
        return process_time() - began

    return min(once(write(size - run)) for run in range(runs))


def _require_linear(read: Reader, samples: list[str]) -> None:
    """Try the worst of many texts at each size."""
    worst = max(_texts(samples), key=lambda text: _time(read, text, 2_000, 1))
    before = _NOISE
    for size in SIZES:
        needed = max(_time(read, worst, size, 3 if size < SIZES[-1] else 1), _NOISE)
        assert needed < before * _GENEROUS, (
            f"expected {size:,} characters to take about 10 times as long as {size // 10:,}, "
            f"got {needed / before:.0f} times with {worst(40)!r}; anchor the search, or bound what it reads"
        )
        before = needed


@cache
def _found() -> dict[str, tuple[re.Pattern[str], set[str]]]:
    return {name: (pattern, methods) for name, pattern, methods in _named_patterns()}


@pytest.mark.parametrize("name", sorted(_found()))
def test_a_pattern_takes_linear_time(name: str) -> None:
    pattern, methods = _found()[name]
    _require_linear(_reader(pattern, methods), _samples(pattern))


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_takes_linear_time(name: str) -> None:
    _require_linear(PARSERS[name], _SAMPLES)
