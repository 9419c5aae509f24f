"""Acknowledging by range: everything that is done and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from warrener_runtime.bus.rabbitmq.consumer import plan_acks
from warrener_runtime.bus.rabbitmq.lean.consumer_channel import AckPlan


def acknowledged(plan: AckPlan, unsettled: list[int]) -> set[int]:
    """What a broker takes the plan to mean."""
    in_range = {tag for tag in unsettled if plan.up_to is not None and tag <= plan.up_to}
    return in_range | set(plan.individual)


@given(st.data())
def test_a_plan_acknowledges_exactly_what_is_done(data: st.DataObject) -> None:
    unsettled = sorted(data.draw(st.sets(st.integers(1, 60), min_size=1)))
    done = data.draw(st.sets(st.sampled_from(unsettled), min_size=1))
    plan = plan_acks(unsettled, done)
    assert acknowledged(plan, unsettled) == done
    assert plan.individual == sorted(set(plan.individual))


def test_a_whole_batch_is_one_acknowledgement() -> None:
    assert plan_acks(range(1, 501), set(range(1, 501))) == AckPlan(500, [])


def test_gaps_cost_one_each() -> None:
    assert plan_acks([3, 4, 5, 7, 8, 9], {3, 4, 8}) == AckPlan(4, [8])
    assert plan_acks([3, 4, 5], {4}) == AckPlan(None, [4])
