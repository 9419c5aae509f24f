"""What the conventions still allow. Each number may only become smaller.

After something was mended, `python -m tests.conventions.allowance` writes the smaller numbers.
"""

import ast
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.conventions.sources import PACKAGES, TESTS, area, modules, names, pages, prose, tree, words
from tests.conventions.vocabulary import NAMES, PROSE

FILE = Path(__file__).with_name("allowance.json")
Counts = dict[str, dict[str, int]]


def measure() -> Counts:
    """How often each rule is broken, by the part of the repository."""
    return {"names": _names(), "prose": _prose(), "class names": _class_names()}


def allowed() -> Counts:
    """How often each rule may be broken."""
    limits: Counts = json.loads(FILE.read_text(encoding="utf-8"))
    return limits


def above(found: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """What is more than is allowed."""
    return [
        f"{key}: {count}, at most {limits.get(key, 0)}"
        for key, count in found.items()
        if count > limits.get(key, 0)
    ]


def below(found: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """What is allowed, and was mended."""
    return [
        f"{key}: {found.get(key, 0)} of {limit}" for key, limit in limits.items() if found.get(key, 0) < limit
    ]


def _names() -> dict[str, int]:
    counts: Counter[str] = Counter()
    for path in modules([*PACKAGES, *TESTS]):
        for name in names(path):
            if "dead_letter" not in name.lower() and "DeadLetter" not in name:
                counts.update(f"{area(path)}: {word}" for word in {*words(name)} & NAMES)
    return dict(sorted(counts.items()))


def _prose() -> dict[str, int]:
    counts: Counter[str] = Counter()
    for path in [*modules(PACKAGES), *pages()]:
        text = prose(path)
        for label, pattern in PROSE.items():
            if found := len(pattern.findall(text)):
                counts[f"{area(path)}: {label}"] += found
    return dict(sorted(counts.items()))


def _class_names() -> dict[str, int]:
    counts = Counter(
        node.name
        for path in modules(PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {name: count for name, count in sorted(counts.items()) if count > 1}


def main() -> int:
    """Write the smaller numbers; 1 if something is above what is allowed."""
    found = measure()
    limits = allowed() if FILE.exists() else found
    if more := [line for rule in found for line in above(found[rule], limits[rule])]:
        print("expected no more of these than before, got:", *more, sep="\n  ", file=sys.stderr)
        return 1
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"allowance: {sum(sum(counts.values()) for counts in found.values())} places are still allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
