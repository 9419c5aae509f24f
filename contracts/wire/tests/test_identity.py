"""Derived ids never change: with another id, a repeat would look new and its job would run twice."""

from uuid import UUID

import pytest

from warrener_contracts.identity import child_job_id, event_identity, event_job_id, job_id_of

JOB = UUID("019440f7-3a00-7c3e-8f21-5b0a4d9e6c11")


@pytest.mark.parametrize(
    ("source", "event_id", "job_id"),
    [
        ("airline/operations", "order-17", "d07d1ceb-c167-5ed9-bd66-3f728faf4f7a"),
        ("airline/tickets", "order-17", "27a124bc-bad3-5f65-8782-ccb88e18134c"),
        ("airline/operations", "order-18", "d321dcdc-3d09-5711-a38d-94b5116032d8"),
        ("", "", "5b1b2d93-ea77-5ccc-a3a7-dcdba66c9c77"),
        ("aéroport", "№ 17", "a6946d00-2c8a-5fdf-a052-997ccd452ebd"),
    ],
)
def test_an_id_of_any_form_makes_a_job_id(source: str, event_id: str, job_id: str) -> None:
    assert str(job_id_of(source, event_id)) == job_id


@pytest.mark.parametrize("written", [str(JOB), str(JOB).upper(), JOB.hex])
def test_a_uuid_is_the_job_id_for_every_source(written: str) -> None:
    assert job_id_of("airline", written) == job_id_of("harbour", written) == JOB


@pytest.mark.parametrize(
    "alike", [f"{{{JOB}}}", f"{JOB} ", "0_1" + "0" * 29, " 1" + "0" * 30, "+1" + "0" * 30]
)
def test_what_only_looks_like_a_uuid_is_a_name(alike: str) -> None:
    assert job_id_of("airline", alike).version == 5
    assert job_id_of("airline", alike) != job_id_of("harbour", alike)


def test_source_and_id_are_not_run_together() -> None:
    assert job_id_of("a", "bc") != job_id_of("ab", "c")


def test_a_child_job_has_the_same_id_in_every_attempt() -> None:
    assert str(child_job_id(JOB, "index")) == "cd97fec9-fba3-50c8-9c18-16775a0096c8"
    assert child_job_id(JOB, "index") != child_job_id(JOB, "archive")


def test_the_job_of_an_event_is_the_same_in_every_scheduler() -> None:
    event = event_identity("tower", "7")
    assert str(event) == "369122df-869c-54b6-b539-6062ef758576"
    assert str(event_job_id("landing", event)) == "e6e4172e-5ad7-58ad-912c-e2a5e7801443"
    assert event_identity("tow", "er7") != event
    assert event_identity("tower", str(JOB)) != JOB, "what looks like an id is none: two may say the same"
