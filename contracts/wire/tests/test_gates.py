"""The names of gates."""

from typing import Any
from uuid import UUID

import pytest

from warrener_contracts.gates import find_limit_mistake, is_gate_of, job_gates, map_gate
from warrener_contracts.policy import JobPolicy, Limit
from warrener_contracts.templates import TemplateError

PARENT = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")


def test_a_gate_is_named_by_the_job_type_and_by_what_its_key_becomes() -> None:
    limits = [Limit(5, key="{{ arguments.tenant }}-{{ arguments.region.name }}"), Limit(50)]
    arguments = {"tenant": 7, "region": {"name": "north"}}
    assert job_gates("crm.push", "default", limits, arguments) == [
        ("job/crm.push/7-north", 5),
        ("job/crm.push:2", 50),
    ]
    assert job_gates("crm.push", "default", [Limit(3)], {}) == [("job/crm.push", 3)]
    assert map_gate(PARENT, "map#1") == f"map/{PARENT}/map#1"


def test_limits_have_different_gates_by_their_position() -> None:
    limits = [Limit(1, key="{{ arguments.a }}"), Limit(2, key="{{ arguments.b }}"), Limit(3)]
    names = [name for name, _ in job_gates("t", "default", limits, {"a": "same", "b": "same"})]
    assert len(set(names)) == 3


def test_job_types_share_the_gate_of_a_pool_and_of_a_queue() -> None:
    limits = [Limit(5, pool="crm", key="{{ arguments.a }}"), Limit(50, per="queue"), Limit(3)]
    gates = [("pool/crm/x", 5), ("queue/slow", 50)]
    for job_type in ("t", "u"):
        found = job_gates(job_type, "slow", limits, {"a": "x"})
        assert found == [*gates, (f"job/{job_type}:3", 3)], "the third limit has its own gate"
    assert job_gates("t", "default", [Limit(1, pool="crm")], {}) == [("pool/crm", 1)]
    written = {"slots": 5, "key": "k", "pool": "crm"}
    assert Limit.model_validate(written).model_dump(mode="json") == written
    wrong: Any
    for wrong in ({"pool": "a/b"}, {"pool": ""}, {"per": "job"}, {"pool": "a", "per": "queue"}):
        with pytest.raises(ValueError, match=r"expected .*pool"):
            Limit(1, **wrong)


def test_the_gates_of_a_job_type_are_known_by_name() -> None:
    limits = [Limit(1), Limit(5, pool="crm", key="{{ arguments.a }}"), Limit(50, per="queue")]
    for name in ("job/t", "pool/crm/acme", "queue/slow"):
        assert is_gate_of(name, "t", limits), name
    for name in ("job/u", "job/t/acme", "pool/crm", "pool/crmx/acme", "queue/slow/x", "map/x", ""):
        assert not is_gate_of(name, "t", limits), name


def test_a_long_name_ends_with_its_digest() -> None:
    long = [
        job_gates("t", "default", [Limit(1, key="{{ arguments.a }}")], {"a": "x" * 300 + end})[0][0]
        for end in "ab"
    ]
    assert [len(name) for name in long] == [200, 200]
    assert long[0][:150] == long[1][:150]
    assert long[0] != long[1]


def test_no_key_makes_the_name_that_another_long_one_was_cut_to() -> None:
    limits = [Limit(1, key="{{ arguments.a }}")]
    cut = job_gates("t", "default", limits, {"a": "x" * 300})[0][0]
    assert job_gates("t", "default", limits, {"a": cut.removeprefix("job/t/")})[0][0] != cut


def test_a_key_that_cannot_be_rendered_is_an_error() -> None:
    with pytest.raises(TemplateError, match=r"arguments\.tenant"):
        job_gates("t", "default", [Limit(1, key="{{ arguments.tenant }}")], {})
    assert find_limit_mistake([Limit(1), Limit(2, key="{{ arguments.a }}{{ arguments.a.b }}")], "ab") is None
    for key in ("{{ tenant }}", "{{ arguments.tenant }}", "{{ arguments.about }}"):
        assert key in (find_limit_mistake([Limit(2, key=key)], "ab") or "")


def test_a_limit_may_be_written_without_the_name_of_its_number() -> None:
    assert Limit(5) == Limit(slots=5) == Limit.model_validate({"slots": 5, "newer": True})
    assert JobPolicy.model_validate_json('{"gates":[{"slots":5,"key":"k"}]}').gates == (Limit(5, key="k"),)
    assert JobPolicy(gates=(Limit(5),)).model_dump(mode="json")["gates"] == [{"slots": 5}]
    wrong: Any
    for wrong in (None, 0, "3", True, 10_001):
        message = f"^expected 1 to 10000 slots.* of a limit, got {wrong!r} and"
        with pytest.raises(ValueError, match=message):
            Limit(wrong)
        with pytest.raises(ValueError, match="slots"):
            Limit.model_validate({"slots": wrong})
    with pytest.raises(ValueError, match="slots"):
        Limit.model_validate({})
