"""Private servers: RabbitMQ and PostgreSQL as ordinary child processes, root or not, without Docker.

`warrener up` and the tests run on them. A private server listens on 127.0.0.1 alone, keeps all it has in one
folder, never touches the distribution's own service, and dies with the process that started it. Linux only.
"""

from warrener_runtime.servers.errors import ServerError, ServerFailed, ServerMissing
from warrener_runtime.servers.postgres import PrivatePostgres
from warrener_runtime.servers.postgres_commands import PostgresCommands
from warrener_runtime.servers.rabbitmq import PrivateRabbitMQ
from warrener_runtime.servers.rabbitmq_commands import RabbitMQCommands
from warrener_runtime.servers.rabbitmq_install import RabbitMQInstallation

__all__ = [
    "PostgresCommands",
    "PrivatePostgres",
    "PrivateRabbitMQ",
    "RabbitMQCommands",
    "RabbitMQInstallation",
    "ServerError",
    "ServerFailed",
    "ServerMissing",
]
