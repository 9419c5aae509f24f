"""Metrics of a service: what is recorded, how it is bounded, and how Prometheus reads it. Names of metrics,
spans and attributes are a contract."""

import re
from pathlib import Path

import pytest

from warrener_runtime.telemetry import metric_names, names
from warrener_runtime.telemetry.metrics import LabelBounds, Metrics, render

JOBS = metric_names.MetricSpec("test.jobs", "counter", "{job}", "Jobs.", (names.JOB_TYPE, names.ERROR_TYPE))
WAITING = metric_names.MetricSpec("test.waiting", "gauge", "{job}", "Waiting jobs.", (names.QUEUE,))
DURATION = metric_names.MetricSpec(
    "test.duration", "histogram", "s", "Time.", (names.QUEUE,), constants={"a.b": "c"}, bounds=(1.0, 5.0)
)


def numbers(metrics: Metrics) -> dict[tuple[str, ...], float]:
    (reading,) = metrics.read()
    return dict(reading.numbers)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_a_counter_adds_up_by_its_labels_and_begins_at_zero_where_an_alert_watches_it(
    metrics: Metrics,
) -> None:
    counter = metrics.counter(JOBS)
    counter.add(0, "mail", "")
    assert numbers(metrics) == {("mail", ""): 0}
    counter.add(2, "mail", "")
    counter.add(1, "mail", "")
    counter.add(1, "mail", "Timeout")
    assert numbers(metrics) == {("mail", ""): 3, ("mail", "Timeout"): 1}


def test_a_counter_may_be_read_from_elsewhere(metrics: Metrics) -> None:
    metrics.counter(JOBS).observe(lambda: {(): 7})
    assert numbers(metrics) == {(): 7}


def test_a_gauge_forgets_the_series_that_are_gone(metrics: Metrics) -> None:
    gauge = metrics.gauge(WAITING)
    gauge.replace({("here",): 3, ("there",): 1})
    gauge.replace({("there",): 2})
    assert numbers(metrics) == {("there",): 2}


def test_a_histogram_counts_by_size_up_to_each_bound(metrics: Metrics) -> None:
    histogram = metrics.histogram(DURATION)
    for seconds in (0.5, 1.0, 3.0, 9.0, -0.2):
        histogram.record(seconds, "here")
    (reading,) = metrics.read()
    value = reading.histograms["here",]
    assert value.counts == (3, 1, 1)  # a bound belongs to its bucket; clocks may go backwards
    assert value.total == 13.5
    assert value.values == 5


def test_each_metric_has_one_instrument(metrics: Metrics) -> None:
    assert metrics.counter(JOBS) is metrics.counter(JOBS)
    with pytest.raises(TypeError, match=r"expected test\.jobs to be a counter"):
        metrics.gauge(JOBS)


def test_values_beyond_the_limit_are_other(metrics: Metrics) -> None:
    counter = metrics.counter(JOBS)
    for name in ("x" * 5000, *range(299)):
        counter.add(1, f"type{name}", "")
    counter.add(1, "type7", "")
    found = numbers(metrics)
    assert len(found) == 201
    assert found["type7", ""] == 2
    assert found[metric_names.OTHER, ""] == 100
    assert f"type{'x' * 5000}"[:100] in {labels[0] for labels in found}
    metrics = Metrics()
    metrics.gauge(WAITING).replace({(f"queue{number}",): 1 for number in range(203)})
    assert numbers(metrics)[metric_names.OTHER,] == 3, "gauges add up too"


def test_the_limit_of_a_label_is_the_same_for_all_metrics() -> None:
    bounds = LabelBounds(max_values=1)
    assert bounds.admit((names.QUEUE,), ("here",)) == ("here",)
    assert bounds.admit((names.QUEUE, names.JOB_TYPE), ("there", "mail")) == (metric_names.OTHER, "mail")
    assert bounds.admit((names.QUEUE,), ("",)) == ("",)


def test_labels_and_declaration_must_agree() -> None:
    with pytest.raises(ValueError, match="expected values for the labels"):
        Metrics().counter(JOBS).add(1, "mail")


def test_metrics_that_are_off_record_nothing() -> None:
    metrics = Metrics.disabled()
    metrics.counter(JOBS).add(1, "mail", "")
    metrics.gauge(WAITING).replace({("here",): 1})
    metrics.histogram(DURATION).record(1.0, "here")
    assert metrics.read() == []


def test_prometheus_reads_all_kinds(metrics: Metrics) -> None:
    metrics.counter(JOBS).add(2, 'a"b\\c\nd', "")
    metrics.gauge(WAITING).replace({("here",): 1})
    for seconds in (0.5, 9.0):
        metrics.histogram(DURATION).record(seconds, "here")
    assert render(metrics.read(), {"service.name": "warrener-agent"}).splitlines() == [
        "# HELP target_info The service that these metrics are of.",
        "# TYPE target_info gauge",
        'target_info{service_name="warrener-agent"} 1',
        "# HELP test_duration_seconds Time.",
        "# TYPE test_duration_seconds histogram",
        'test_duration_seconds_bucket{a_b="c",warrener_queue="here",le="1.0"} 1',
        'test_duration_seconds_bucket{a_b="c",warrener_queue="here",le="5.0"} 1',
        'test_duration_seconds_bucket{a_b="c",warrener_queue="here",le="+Inf"} 2',
        'test_duration_seconds_sum{a_b="c",warrener_queue="here"} 9.5',
        'test_duration_seconds_count{a_b="c",warrener_queue="here"} 2',
        "# HELP test_jobs_total Jobs.",
        "# TYPE test_jobs_total counter",
        r'test_jobs_total{warrener_job_type="a\"b\\c\nd"} 2',
        "# HELP test_waiting Waiting jobs.",
        "# TYPE test_waiting gauge",
        'test_waiting{warrener_queue="here"} 1',
    ]


@pytest.mark.parametrize("spec", list(metric_names.declared_metrics()), ids=lambda spec: spec.name)
def test_a_declaration_is_whole(spec: metric_names.MetricSpec) -> None:
    assert spec.description.endswith(".")
    assert set(spec.labels) <= metric_names.LABELS.keys()
    assert spec.services
    assert (spec.kind == "histogram") == bool(spec.bounds)
    assert list(spec.bounds) == sorted(set(spec.bounds))


def test_no_two_metrics_have_one_name() -> None:
    found = [metric_names.prometheus_name(spec) for spec in metric_names.declared_metrics()]
    assert len(found) == len(set(found)) > 20


ROOT = Path(__file__).parents[4]
_CONSTANT = re.compile(r"^([A-Z][A-Z_]+): Final = ", re.MULTILINE)


def declared() -> list[str]:
    """The names that stand in the module, but for those that are constants of its spans."""
    specs = [*names.declared_spans()]
    constants = {str(one) for spec in specs for pair in spec.constants.items() for one in pair}
    found = _CONSTANT.findall(Path(names.__file__).read_text())
    return [name for name in found if getattr(names, name) not in constants]


def sources() -> dict[str, str]:
    """The text of every module but that of the names."""
    packages = ("infra", "services", "contracts", "client")
    paths = [path for package in packages for path in (ROOT / package).rglob("src/**/*.py")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths if path.name != "names.py"}


def test_each_declared_name_is_used() -> None:
    used = set(re.findall(r"\bnames\.([A-Z][A-Z_]+)", "\n".join(sources().values())))
    assert [name for name in declared() if name not in used] == []


def test_no_name_of_an_attribute_stands_elsewhere() -> None:
    """A literal beside the module would escape the reference page. Three names mean other things as well:
    `error.type` is also a field by which escalation policies choose."""
    other_things = {names.QUEUE, names.EXCEPTION, names.ERROR_TYPE}
    described = {*names.ATTRIBUTES, *names.EXCEPTION_ATTRIBUTES} - other_things
    literal = re.compile("|".join(f'"{re.escape(name)}"' for name in described))
    assert [path for path, text in sources().items() if literal.search(text)] == []


def test_each_attribute_is_described_and_no_span_exceeds_the_light_ones() -> None:
    for spec in names.declared_spans():
        attributes = [*spec.attributes, *spec.constants]
        assert set(attributes) <= names.ATTRIBUTES.keys(), spec.operation
        assert len(attributes) == len(set(attributes)) <= 16
        assert spec.constants.get(names.MESSAGING_OPERATION_NAME, spec.operation) == spec.operation
    written = {name for spec in names.declared_spans() for name in (*spec.attributes, *spec.constants)}
    assert names.ATTRIBUTES.keys() == written | {names.LINK}
