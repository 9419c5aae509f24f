"""The cluster is one broker on three nodes: a queue has a replica on each, and outlives any of them."""

import asyncio

import aiormq
from pamqp.common import FieldValue
from tests.servers.cluster import RabbitMQCluster

QUORUM: dict[str, FieldValue] = {"x-queue-type": "quorum"}


async def test_a_queue_outlives_its_node_and_a_node_comes_back(rabbitmq_cluster: RabbitMQCluster) -> None:
    first, last = rabbitmq_cluster.nodes[0], rabbitmq_cluster.nodes[2]
    async with aiormq.connect(first.url) as connection:
        channel = await connection.channel()
        await channel.queue_declare("outlives", durable=True, arguments=QUORUM)
        await channel.basic_publish(b"one", routing_key="outlives")
        await asyncio.to_thread(first.settle)
        await asyncio.to_thread(last.kill)

        await channel.basic_publish(b"two", routing_key="outlives")

        await asyncio.to_thread(last.start)
        members = await asyncio.to_thread(last.evaluate, "length(rabbit_nodes:all_running())")
        found = await channel.queue_delete("outlives")
    assert members == "3"
    assert found.message_count == 2
