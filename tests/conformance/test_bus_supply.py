"""What a Bus must tell so that a consumer can know whether it gets what it should."""

from tests.conformance.bus_rigs import make_messages, names, receive, until_waiting

from warrener_runtime.bus import Bus, QueueStats


async def test_backlog_counts_messages_and_consumers(bus: Bus) -> None:
    assert await bus.backlog("jobs") == QueueStats(0, 0)
    await bus.publish(make_messages(range(5)))
    await until_waiting(bus, "jobs", 5, 0)
    subscription = await bus.subscribe("jobs", prefetch=2)
    await until_waiting(bus, "jobs", 3, 1)
    await subscription.stop()


async def test_a_queue_that_does_not_exist_has_nothing(bus: Bus) -> None:
    assert await bus.backlog("nowhere") == QueueStats(0, 0)
    assert await bus.backlog("jobs") == QueueStats(0, 0), "and asking for it has broken nothing"


async def test_a_consumer_knows_what_has_come_and_whether_more_may(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=2)
    assert (subscription.received_count, subscription.has_capacity) == (0, True)
    await bus.publish(make_messages(range(2)))
    came = await receive(subscription, 2)
    assert (subscription.received_count, subscription.has_capacity) == (2, False)
    await subscription.ack(came)
    assert (subscription.received_count, subscription.has_capacity) == (2, True)


async def test_a_renewed_consumer_gets_what_was_unacknowledged_once_more(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=10)
    await bus.publish(make_messages(range(3)))
    came = await receive(subscription, 3)
    subscription.resubscribe()
    again = await receive(subscription, 3)
    assert names(again) == names(came)
    assert all(delivery.redelivered for delivery in again)
    await subscription.ack(came)  # of the life before: passed over
    await subscription.ack(again)
    await until_waiting(bus, "jobs", 0, 1)
    assert subscription.live


async def test_7_what_is_unacknowledged_goes_back_when_a_consumer_is_closed(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=2)
    await bus.publish(make_messages(range(3)))
    came = await receive(subscription, 2)
    await subscription.close()
    await until_waiting(bus, "jobs", 3, 0)
    await subscription.ack(came)  # it is over: passed over
    await subscription.close()
    again = await bus.subscribe("jobs", prefetch=10)
    assert set(names(await receive(again, 3))) == {"0", "1", "2"}
    assert not subscription.live
