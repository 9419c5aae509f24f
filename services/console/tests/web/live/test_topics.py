"""Topics of messages, by their routing keys and the ids in their bodies."""

import pytest

from warrener.web.live.event_consumer import topics_of

JOB = "0190d5a0-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("job.finished.succeeded.mail.send", {"jobs", "queues", "overview", "type:mail.send"}),
        (
            "job.finished.dead.mail.send",
            {"jobs", "queues", "overview", "type:mail.send", "dead-letters", "incidents"},
        ),
        ("job.retrying.mail", {"jobs", "queues", "overview", "type:mail"}),
        ("job.dead.mail", {"jobs", "queues", "overview", "type:mail", "dead-letters", "incidents"}),
        ("job.rejected.unknown", {"jobs", "queues", "overview", "type:unknown", "parked"}),
        ("schedule.ticked.requested.nightly.report", {"schedules", "overview", "schedule:nightly.report"}),
        ("breaker.changed.open", {"breakers", "incidents", "jobs", "overview"}),
        ("agent.lost.host-1", {"agents", "jobs", "overview"}),
        ("service.unresponsive.scheduler", {"incidents", "queues", "overview"}),
        ("reply.someone", set[str]()),
        ("", set[str]()),
    ],
)
def test_a_key_names_what_changes(key: str, expected: set[str]) -> None:
    assert topics_of(key, b"", ()) == expected


def test_a_watched_job_is_found_in_the_body() -> None:
    body = f'[{{"subject":"{JOB}"}}]'.encode()
    watched = [f"job:{JOB}", "job:another", "queue:mails", "type:sms"]
    found = topics_of("job.finished.succeeded.mail", body, watched)
    assert found >= {f"job:{JOB}", "queue:mails"}
    assert not found & {"job:another", "type:sms"}
