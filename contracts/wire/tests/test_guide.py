"""The delays of the guide are those of the code."""

from datetime import timedelta
from pathlib import Path

import pytest

from warrener_contracts.fields import parse_duration
from warrener_contracts.policy import Backoff, JobPolicy

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "choose-a-retry-policy.md"
LINES = GUIDE.read_text("utf-8").splitlines()
CURVES = [line for line in LINES if line.startswith("| `Backoff")]
WIRE = {name: line for line in LINES if (name := line.split(" | ")[0]).startswith("| ") and ' | `{"' in line}


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]


@pytest.mark.parametrize("line", CURVES, ids=lambda line: cells(line)[0])
def test_the_table_of_delays_is_what_the_code_waits(line: str) -> None:
    written, *delays = cells(line)
    backoff = eval(written, {"Backoff": Backoff})
    assert isinstance(backoff, Backoff)
    expected = [backoff.base_delay(failures) for failures in range(1, len(delays) + 1)]
    assert [parse_duration(delay.replace(" min", "m").replace(" ", "")) for delay in delays] == expected


def test_the_table_has_every_curve() -> None:
    names = {cells(line)[0].partition("(")[0] for line in CURVES}
    assert names == {"Backoff", "Backoff.fixed", "Backoff.linear", "Backoff.exponential", "Backoff.listed"}


def test_the_json_of_the_guide_is_read_as_the_guide_claims() -> None:
    read = {cells(line)[0]: Backoff.model_validate_json(cells(line)[1]) for line in WIRE.values()}
    assert read == {
        "exponential": Backoff.exponential("2s", factor=3, limit="10m"),
        "fixed": Backoff.fixed("30s"),
        "linear": Backoff.linear("10s", step="1m", limit="3m"),
        "a list": Backoff.listed("1s", "1m", "1h").model_copy(update={"factor": 2.0}),
    }


def test_the_defaults_that_the_guide_names_are_those_of_the_code() -> None:
    policy = JobPolicy()
    text = GUIDE.read_text("utf-8")
    assert f"| `max_attempts` | {policy.max_attempts} |" in text
    assert f"| `max_lost_attempts` | {policy.max_lost_attempts} |" in text
    assert f"| `max_snoozes` | {policy.max_snoozes} |" in text
    assert policy.backoff == Backoff.exponential("1s", factor=2, limit="5m", jitter=0.1)
    assert policy.backoff.base_delay(1) == timedelta(seconds=1)
