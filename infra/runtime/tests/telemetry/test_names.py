"""The names of spans and attributes are a contract: each is used and described, none is written twice."""

import re
from pathlib import Path

from warrener_runtime.telemetry import names

ROOT = Path(__file__).parents[4]
_CONSTANT = re.compile(r"^([A-Z][A-Z_]+): Final = ", re.MULTILINE)


def declared() -> list[str]:
    """The names that stand in the module, but for those that are constants of its spans."""
    specs = [*names.declared_spans()]
    constants = {str(one) for spec in specs for pair in spec.constants.items() for one in pair}
    found = _CONSTANT.findall(Path(names.__file__).read_text())
    return [name for name in found if getattr(names, name) not in constants]


def test_each_declared_name_is_used() -> None:
    sources = [
        path.read_text()
        for package in ("infra", "services", "contracts", "client")
        for path in (ROOT / package).rglob("src/**/*.py")
        if path.name != "names.py"
    ]
    used = set(re.findall(r"\bnames\.([A-Z][A-Z_]+)", "\n".join(sources)))
    assert [name for name in declared() if name not in used] == []


def test_no_name_of_an_attribute_stands_elsewhere() -> None:
    """A literal beside the module would escape the reference page. Three names mean other things as well:
    `error.type` is also a field by which escalation policies choose."""
    described = {*names.ATTRIBUTES, *names.EXCEPTION_ATTRIBUTES} - {
        names.QUEUE,
        names.EXCEPTION,
        names.ERROR_TYPE,
    }
    literal = re.compile("|".join(f'"{re.escape(name)}"' for name in described))
    found = [
        str(path.relative_to(ROOT))
        for package in ("services", "contracts", "infra", "client")
        for path in (ROOT / package).rglob("src/**/*.py")
        if path.name != "names.py" and literal.search(path.read_text())
    ]
    assert found == []


def test_each_attribute_is_described_and_no_span_exceeds_the_light_ones() -> None:
    for spec in names.declared_spans():
        attributes = [*spec.attributes, *spec.constants]
        assert set(attributes) <= names.ATTRIBUTES.keys(), spec.operation
        assert len(attributes) == len(set(attributes)) <= 16
        assert spec.constants.get(names.MESSAGING_OPERATION_NAME, spec.operation) == spec.operation
    written = {name for spec in names.declared_spans() for name in (*spec.attributes, *spec.constants)}
    assert names.ATTRIBUTES.keys() == written | {names.LINK}
