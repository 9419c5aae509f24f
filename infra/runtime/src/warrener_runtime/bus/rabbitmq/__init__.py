"""The Bus port on RabbitMQ: recovery, publishing and consuming above connections of `warrener_amqp`.

`test_traps.py` shows what it survives: lost channels, cancelled consumers, half-open sockets, memory alarms.
"""
