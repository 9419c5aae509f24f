"""Names, prose and weight keep to CONTRIBUTING.md; images and the compose file fit together.

`infra/compose-check` plays a job through the images.
"""

import ast
import re
from collections import Counter
from typing import Final

import pytest
from tests.conventions import sources
from tests.conventions.packages import BUDGETS, packages_of
from tests.conventions.sources import PACKAGES, ROOT, modules, tree

NAMES: Final = frozenset(
    """
    anew ask asked asking asks astray become becoming beginnings deaf desk ear ears farewell fate
    fell felled happening happenings hear heard hearing kept letter letters rehearsal rung rungs
    said say says seizure strayed tell telling tells tidings told unheard unsaid whoever wish wishes
    wished
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Words that are no part of a module's, class's, function's or variable's name."""


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


PROSE: Final = {
    "anew": _whole("anew"),
    "ask": _whole("ask|asks|asked|asking"),
    "astray": _whole("astray|strayed"),
    "clause as subject": re.compile(
        r"(?:^|(?<=[.:;] )|(?<=\"\"\"))(?:What|Whoever|Whether) [a-z](?![^.\n]*\?)", re.MULTILINE
    ),
    "become of": _whole("becomes? of|became of"),
    "deaf": _whole("deaf"),
    "felled": _whole("felled"),
    "for ever": _whole("for ever"),
    "hear": _whole("hear|hears|heard"),
    "letter": re.compile(r"(?<!dead )(?<!dead-)(?<!dead_)\bletters?\b", re.IGNORECASE),
    "no more": _whole("no more"),
    "rung": _whole("rungs?"),
    "tell": _whole("tell|tells|told"),
    "tidings": _whole("tidings"),
    "whoever": _whole("whoever"),
    "wish": _whole("wish|wishes|wished"),
}
"""Words and phrases that comments, docstrings, messages and pages do without, by a name for each."""


PACKAGES_IN_IMAGES = {"agent": 31, "scheduler": 48, "supervisor": 52, "console": 55}


def test_names_are_those_of_the_field() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules([*PACKAGES, *sources.TESTS])
        for name in sources.names(path)
        if "dead_letter" not in name.lower() and "DeadLetter" not in name and {*sources.words(name)} & NAMES
    ]
    assert not found, "expected the field's words, got names of others; rename:\n  " + "\n  ".join(found)


@pytest.mark.parametrize("word", PROSE)
def test_prose_and_sql_are_in_the_words_of_the_field(word: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in [*modules(PACKAGES), *sources.statements(), *sources.pages()]
        if PROSE[word].search(sources.text(path))  # to find the prose of a file takes longer than all else
        for match in PROSE[word].finditer(sources.prose(path))
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


def test_agents_store_their_identities_in_a_folder_of_the_user_that_a_volume_holds() -> None:
    image = (ROOT / "infra/images/Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"WARRENER_AGENT_FOLDER=(/\S+)", image)
    as_root, _ = image.split("\nUSER 10001:10001\n")
    assert f"install --directory --mode 0700 --owner warrener --group warrener {folder} " in as_root
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert f'- "agents:{folder}"\n' in compose
