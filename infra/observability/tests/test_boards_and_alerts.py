"""Boards and alerts name metrics, labels and commands that exist."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from warrener.command.app import app
from warrener_runtime.telemetry import metric_names

HERE = Path(__file__).parents[1]
BOARDS = sorted((HERE / "grafana").glob("*.json"))
(ALERTS,) = yaml.safe_load((HERE / "prometheus/alerts.yml").read_text("utf-8"))["groups"]
RULES: list[dict[str, Any]] = ALERTS["rules"]
TRIED = (HERE / "prometheus/alerts.test.yml").read_text("utf-8")
FUNCTIONS = {"sum", "max", "by", "rate", "increase", "histogram_quantile", "absent", "and", "or", "on", "le"}
"""The words of PromQL that we use; `le` is the label of buckets."""
TARGET = {"target_info": {"service_name"}}
"""What every Prometheus has of a scraped service."""


def series() -> dict[str, set[str]]:
    """Every series that Prometheus has of a declared metric, with its labels."""
    found = {name: set(labels) for name, labels in TARGET.items()}
    for spec in metric_names.declared_metrics():
        labels = {metric_names.prometheus_label(name) for name in (*spec.labels, *spec.constants)}
        suffixes = ("_bucket", "_sum", "_count") if spec.kind == "histogram" else ("",)
        found |= {metric_names.prometheus_name(spec) + suffix: labels for suffix in suffixes}
    return found


SERIES = series()


def unknown_words(expression: str) -> set[str]:
    """The words of an expression that are no series, no label of one of its series, and no PromQL."""
    words = set(re.findall(r"[a-zA-Z_:][\w:]*", re.sub(r'"[^"]*"|\[[^]]*\]', "", expression)))
    named = words & SERIES.keys()
    labels = {label for name in named for label in SERIES[name]}
    return words - named - labels - FUNCTIONS


def targets(board: Path) -> Iterator[dict[str, str]]:
    for panel in json.loads(board.read_text("utf-8"))["panels"]:
        yield from panel.get("targets", ())


def test_a_name_that_does_not_exist_is_found() -> None:
    assert unknown_words('sum by (warrener_queue) (warrener_jobs{state="x"})') == {"state"}
    assert unknown_words("rate(warrener_jobs_finished[5m])") == {"warrener_jobs_finished"}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_board_names_metrics_that_exist_and_its_legends_are_labels_of_its_lines(board: Path) -> None:
    found = list(targets(board))
    assert found
    for target in found:
        assert unknown_words(target["expr"]) == set(), target["expr"]
        by = re.search(r"by \(([^)]*)\)", target["expr"])
        legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert legend <= {label.strip() for label in (by[1].split(",") if by else ())}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_board_can_be_drawn(board: Path) -> None:
    document = json.loads(board.read_text("utf-8"))
    assert document["uid"] == board.stem
    panels = document["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert not any(overlap(one, other) for one, other in combinations(places, 2))


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one[at] < other[at] + other[n] and other[at] < one[at] + one[n] for at, n in ("xw", "yh"))


COMMANDS = {group.name for group in app.registered_groups} | {
    info.name or (info.callback.__name__ if info.callback else "") for info in app.registered_commands
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_names_metrics_and_commands_that_exist_and_is_tried_and_explained(
    rule: dict[str, Any],
) -> None:
    assert unknown_words(rule["expr"]) == set()
    assert TRIED.count(f"alertname: {rule['alert']}") >= 2, "once where all is well, and once as it fires"
    assert rule["annotations"].keys() == {"summary", "description"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(re.findall(r"`warrener ([\w-]+)", rule["annotations"]["description"])) <= COMMANDS


@pytest.mark.parametrize("spec", list(metric_names.declared_metrics()), ids=lambda spec: spec.name)
def test_each_metric_is_drawn_or_watched(spec: metric_names.MetricSpec) -> None:
    drawn = [target["expr"] for board in BOARDS for target in targets(board)]
    texts = [*drawn, *(rule["expr"] for rule in RULES)]
    assert any(metric_names.prometheus_name(spec) in text for text in texts)
