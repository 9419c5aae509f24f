"""Names, prose and weight keep to CONTRIBUTING.md; what does not yet is counted."""

import re

import pytest
from tests.conventions.allowance import above, allowed, below, measure
from tests.conventions.packages import BUDGETS, packages_of
from tests.conventions.sources import ROOT

MEASURED = measure()
PACKAGES_IN_IMAGES = {"agent": 31, "scheduler": 40, "supervisor": 44, "console": 32}


@pytest.mark.parametrize("rule", MEASURED)
def test_no_rule_is_broken_more_often_than_before(rule: str) -> None:
    more = above(MEASURED[rule], allowed()[rule])
    assert not more, f"{rule}: expected no more than is allowed; use other words:\n  " + "\n  ".join(more)


@pytest.mark.parametrize("rule", MEASURED)
def test_what_was_mended_is_allowed_no_longer(rule: str) -> None:
    less = below(MEASURED[rule], allowed()[rule])
    assert not less, (
        f"{rule}: expected an allowance that fits; do: python -m tests.conventions.allowance\n  "
        + "\n  ".join(less)
    )


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
