"""Names, prose and weight keep to CONTRIBUTING.md."""

import ast
import re
from collections import Counter

import pytest
from tests.conventions.packages import BUDGETS, packages_of
from tests.conventions.sources import (
    PACKAGES,
    ROOT,
    TESTS,
    modules,
    names,
    pages,
    prose,
    statements,
    tree,
    words,
)
from tests.conventions.vocabulary import NAMES, PROSE

PACKAGES_IN_IMAGES = {"agent": 31, "scheduler": 48, "supervisor": 52, "console": 55}


def test_names_are_those_of_the_field() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules([*PACKAGES, *TESTS])
        for name in names(path)
        if "dead_letter" not in name.lower() and "DeadLetter" not in name and {*words(name)} & NAMES
    ]
    assert not found, "expected the field's words, got names of others; rename:\n  " + "\n  ".join(found)


@pytest.mark.parametrize("word", PROSE)
def test_prose_and_sql_are_in_the_words_of_the_field(word: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in [*modules(PACKAGES), *statements(), *pages()]
        for match in PROSE[word].finditer(prose(path))
    ]
    assert not found, f"expected another word than {word!r}, got these; rewrite:\n  " + "\n  ".join(found)


def test_a_class_name_is_used_once() -> None:
    counts = Counter(
        node.name
        for path in modules(PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twice = sorted(name for name, count in counts.items() if count > 1)
    assert not twice, f"expected one class of each name, got several of {twice}; rename all but one"


@pytest.mark.parametrize(("image", "most"), PACKAGES_IN_IMAGES.items())
def test_a_service_brings_few_packages_of_others(image: str, most: int) -> None:
    text = (ROOT / "requirements" / f"{image}.txt").read_text(encoding="utf-8")
    assert len(re.findall(r"^[a-z0-9][^=\n]*==", text, re.MULTILINE)) <= most


@pytest.mark.parametrize("wheel", BUDGETS)
def test_a_wheel_brings_few_packages_of_others(wheel: str) -> None:
    found = packages_of(wheel)
    assert len(found) <= BUDGETS[wheel], (
        f"expected at most {BUDGETS[wheel]}, got {len(found)}: {sorted(found)}"
    )
