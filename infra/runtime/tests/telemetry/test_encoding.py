"""Spans that we write by hand are, for who reads them, those that the SDK's exporter would have written."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from warrener_runtime.telemetry.encoding import encoder
from warrener_runtime.telemetry.live_span import EndedSpan, FinishedSpan, to_readable_span
from warrener_runtime.telemetry.recorder import origin_of
from warrener_runtime.telemetry.resource import service_resource
from warrener_runtime.telemetry.spans import SpanRef, SpanShape, SpanStart, plain_shape

ORIGIN = origin_of(service_resource("warrener-agent"))
NANOSECONDS = st.integers(0, 2**63)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = TEXTS | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
ATTRIBUTES = st.dictionaries(TEXTS.map("own.{}".format), VALUES, max_size=8)


def identifier(digits: int) -> st.SearchStrategy[str]:
    return st.integers(1, 16**digits - 1).map(lambda number: f"{number:0{digits}x}")


SHAPES = st.builds(
    SpanShape,
    name=TEXTS,
    kind=st.sampled_from(["internal", "producer", "consumer", "client", "server"]),
    attributes=st.dictionaries(TEXTS.map("shared.{}".format), VALUES, max_size=8),
)
BEGUN = st.builds(
    SpanStart,
    ref=st.builds(SpanRef, identifier(32), identifier(16), st.sampled_from([1, 3])),
    parent_id=st.just("") | identifier(16),
    tracestate=st.sampled_from([None, "vendor=1", "a=b,c=d"]),
    shape=SHAPES,
    start_ns=NANOSECONDS,
)
FINISHED = st.builds(
    FinishedSpan, begun=BEGUN, end_ns=NANOSECONDS, attributes=ATTRIBUTES, error=st.none() | TEXTS
)


def begun(name: str) -> SpanStart:
    return SpanStart(SpanRef("1" * 32, "2" * 16, 1), "", None, plain_shape(name, "consumer"), 1)


def read(spans: list[EndedSpan]) -> list[ExportTraceServiceRequest]:
    return [ExportTraceServiceRequest.FromString(raw) for raw in encoder(ORIGIN)(spans)]


@given(st.lists(FINISHED, min_size=1, max_size=5))
def test_what_is_written_by_hand_reads_as_what_the_sdk_writes(spans: list[FinishedSpan]) -> None:
    (request,) = read([*spans])
    assert request == encode_spans([to_readable_span(span, ORIGIN) for span in spans])


def test_spans_with_more_data_go_by_the_sdk_beside_ours() -> None:
    ours = FinishedSpan(begun("ours"), 2, {}, None)
    rich: ReadableSpan = to_readable_span(ours._replace(begun=begun("rich")), ORIGIN)
    requests = read([ours, rich, ours])
    names = [span.name for one in requests for span in one.resource_spans[0].scope_spans[0].spans]
    assert names == ["ours", "ours", "rich"]


def test_half_a_surrogate_pair_costs_no_more_than_itself() -> None:
    torn = FinishedSpan(begun("torn"), 2, {"a": "x\ud800y"}, "\udfff")
    (request,) = read([torn])
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert (span.attributes[0].value.string_value, span.status.message) == ("x?y", "?")


def test_many_spans_are_several_requests_of_about_a_mebibyte() -> None:
    large = FinishedSpan(begun("large"), 2, {}, "e" * 4000)
    requests = list(encoder(ORIGIN)([large] * 1000))
    assert len(requests) == 4
    assert max(map(len, requests)) < 1_100_000
