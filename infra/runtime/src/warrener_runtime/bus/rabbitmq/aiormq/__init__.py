"""The client library aiormq: carries `listen` by FastStream, and the lane `aio-pika`."""
