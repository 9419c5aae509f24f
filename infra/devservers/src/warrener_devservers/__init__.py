"""Development servers: RabbitMQ as an ordinary child process, root or not, without Docker.

`warrener up` and the tests run on it. A private server listens on 127.0.0.1 alone, stores everything in one
folder, never touches the distribution's own service, and dies with the process that started it. Linux only.
"""

from warrener_devservers.process import ServerError, ServerFailed, ServerMissing
from warrener_devservers.rabbitmq import PrivateRabbitMQ, RabbitMQCommands, RabbitMQInstallation

__all__ = [
    "PrivateRabbitMQ",
    "RabbitMQCommands",
    "RabbitMQInstallation",
    "ServerError",
    "ServerFailed",
    "ServerMissing",
]
