"""The journeys of the architecture page go down; decisions call neither clock nor randomness."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from tests.conventions.sources import PACKAGES, ROOT, modules, tree
from tools.house import import_graph

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SECTION = re.compile(r"^## (.* becomes .*)\n((?:.*\n)*?)(?=^## |\Z)", re.MULTILINE)
STEP = re.compile(r"^\d+\. `([\w/]+)` · ([^:]*):", re.MULTILINE)
FOLDERS = {
    "client": "client/src/warrener_client",
    "console": "services/console/src/warrener",
    "contracts/wire": "contracts/wire/src/warrener_contracts",
    "infra/store": "infra/store/src/warrener_store",
    "scheduler": "services/scheduler/src/warrener_scheduler",
    "agent": "services/agent/src/warrener_agent",
    "supervisor": "services/supervisor/src/warrener_supervisor",
}
JOURNEYS = {
    title: [
        (FOLDERS[place], name)
        for place, files in STEP.findall(text)
        for name in re.findall(r"`([^`]+)`", files)
    ]
    for title, text in SECTION.findall(PAGE.read_text(encoding="utf-8"))
}
MOST_FILES = 10
BOTTOM = ("decisions/", "ledger/")

PURE = [
    path
    for path in modules(PACKAGES)
    if "decisions" in path.parts or path.name in {"decisions.py", "state_machine.py"}
]
IMPURE_CALLS = frozenset(
    """
    getrandbits monotonic now open perf_counter randint random sleep time time_ns today token_hex
    urandom utcnow uuid1 uuid4 uuid7
    """.split()  # noqa: SIM905 - a list of words is read as words
)


def module(place: tuple[str, str]) -> str:
    folder, name = place
    return ".".join([Path(folder).name, *Path(name).with_suffix("").parts])


def climbs(places: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the imports that lead from a file back to an earlier one of the same service."""
    for earlier, later in combinations(places, 2):
        if earlier[0] != later[0] or not earlier[0].startswith("services/"):
            continue
        at_bottom = earlier[1].startswith(BOTTOM)
        upper, lower = (earlier, later) if not at_bottom else (later, earlier)
        if at_bottom and later[1].startswith(BOTTOM):
            continue
        if imports(module(lower), module(upper)):
            yield f"{lower[1]} -> {upper[1]}"


def imports(importer: str, imported: str) -> bool:
    """True if a module of `importer` imports one of `imported`. Import contracts cover longer ways."""
    return any(
        import_graph().direct_import_exists(importer=one, imported=imported, as_packages=False)
        or any(
            name.startswith(f"{imported}.") for name in import_graph().find_modules_directly_imported_by(one)
        )
        for one in {importer, *import_graph().find_descendants(importer)}
    )


def impure_calls(source: ast.Module) -> list[str]:
    found: list[str] = []
    for node in ast.walk(source):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            found.append(f"line {node.lineno}: async")
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in IMPURE_CALLS:
                found.append(f"line {node.lineno}: {name}()")
    return found


def test_there_are_four_journeys() -> None:
    assert len(JOURNEYS) == 4


@pytest.mark.parametrize("title", JOURNEYS)
def test_a_journey_passes_few_files_and_all_exist(title: str) -> None:
    places = JOURNEYS[title]
    missing = [name for folder, name in places if not (ROOT / folder / name).exists()]
    assert not missing, f"expected files of the repository, got {missing}"
    assert 1 < len(places) == len(set(places)) <= MOST_FILES


@pytest.mark.parametrize("title", JOURNEYS)
def test_a_journey_goes_down_only(title: str) -> None:
    found = list(climbs(JOURNEYS[title]))
    assert not found, f"expected imports of later files alone, got {found}"


def test_a_way_back_up_is_found() -> None:
    places = next(places for title, places in JOURNEYS.items() if title.startswith("A request"))
    assert list(climbs(places[::-1]))


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_decision_takes_time_and_chance_as_values(path: Path) -> None:
    found = impure_calls(tree(path))
    assert not found, f"expected a parameter instead of a clock, a file or randomness, got {found}"


@pytest.mark.parametrize("line", ["datetime.now(UTC)", "uuid4()", "random.random()", "time.monotonic()"])
def test_a_clock_or_randomness_is_found(line: str) -> None:
    assert impure_calls(ast.parse(line))
