"""Request jobs from Warrener and wait for their results.

    async with Client("amqp://…") as client:
        job = await client.request("flights.load", {"path": "2013-01-01.csv"})
        report = await job.result()

`request` returns when the broker has confirmed. From then on the job reaches an end, even if processes die
(guarantee G1). `SyncClient` is the same client for code without an event loop.
"""

from warrener_client.client import Client
from warrener_client.errors import (
    BadRequest,
    ClientClosed,
    ClientError,
    CommandRefused,
    CommandTimeout,
    JobCancelled,
    JobDied,
    JobExpired,
    JobFailed,
    NotConfirmed,
    NotConnected,
    RequestRejected,
    RequestTooLarge,
    RequestUnroutable,
    ResultMismatch,
    ResultTimeout,
    ResultUnreadable,
)
from warrener_client.job import Job
from warrener_client.outbox import Outbox
from warrener_client.requests import JobSpec
from warrener_client.sync import SyncClient, SyncJob
from warrener_contracts.canvas import ChainStep, GroupMember, GroupResult
from warrener_contracts.policy import Backoff, PolicyOverrides

__all__ = [
    "Backoff",
    "BadRequest",
    "ChainStep",
    "Client",
    "ClientClosed",
    "ClientError",
    "CommandRefused",
    "CommandTimeout",
    "GroupMember",
    "GroupResult",
    "Job",
    "JobCancelled",
    "JobDied",
    "JobExpired",
    "JobFailed",
    "JobSpec",
    "NotConfirmed",
    "NotConnected",
    "Outbox",
    "PolicyOverrides",
    "RequestRejected",
    "RequestTooLarge",
    "RequestUnroutable",
    "ResultMismatch",
    "ResultTimeout",
    "ResultUnreadable",
    "SyncClient",
    "SyncJob",
]
