"""`docs/reference/traces.md`: every span and attribute."""

from collections.abc import Iterable, Mapping

from tools.reference import GENERATED

from warrener_runtime.telemetry import names

_HEAD = f"""\
{GENERATED}

# Traces

Every span that Warrener records, with its attributes. The names follow OpenTelemetry's conventions for
messaging, and `warrener.` begins those of our own. To get at them: [Trace jobs](../howto/trace-jobs.md).
"""


def traces_page() -> str:
    """The whole page as Markdown."""
    spans = [
        (
            f"`{spec.operation} <job type>`",
            spec.kind,
            ", ".join(spec.services),
            spec.description,
            ", ".join(f"`{name}`" for name in spec.attributes),
            ", ".join(f"`{name}` = `{value}`" for name, value in spec.constants.items()),
        )
        for spec in names.declared_spans()
    ]
    parts = [
        _HEAD,
        "## Spans\n",
        _table(("span", "kind", "of", "", "attributes", "always"), spans),
        "## Attributes of spans and links\n",
        _described(names.ATTRIBUTES),
        "## Attributes of services\n",
        _described(names.RESOURCE_ATTRIBUTES),
        f"## Attributes of the event `{names.EXCEPTION}`\n",
        _described(names.EXCEPTION_ATTRIBUTES),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _described(attributes: Mapping[str, str]) -> str:
    return _table(("attribute", ""), [(f"`{name}`", about) for name, about in attributes.items()])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
