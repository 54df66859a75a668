"""An SQS queue: the only module that calls AWS."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from freshet.errors import SettingsError, StoreError
from freshet.stores.event_messages import Message

_REGION: Final = re.compile(r"^(?:sqs\.([\w-]+)|([\w-]+)\.queue)\.amazonaws\.com")
# A poll is to be short: whoever waits for a dead endpoint can look again, and list meanwhile.
_PATIENCE: Final = {
    "connect_timeout": 2,
    "read_timeout": 5,
    "retries": {"total_max_attempts": 2, "mode": "standard"},
}


class SqsQueue:
    """A queue by its URL; AWS's own variables and files say with which credentials.

    Messages that were received stay unseen by others for the queue's own visibility timeout.
    `count` leaves those out.
    """

    receive_most = 10
    delete_most = 10

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.path.strip("/"):
            raise SettingsError(f"landing.queue must be the URL of an SQS queue, not {url}")
        self.name = url
        region = _REGION.match(parts.hostname or "")
        with self._call("open"):
            self._client = boto3.Session().client(
                "sqs",
                region_name=(region[1] or region[2]) if region else None,
                config=Config(**_PATIENCE),
            )

    def receive(self, at_most: int) -> list[Message]:
        """One call without waiting; it may bring none although some wait."""
        with self._call("receive messages from"):
            answer = self._client.receive_message(
                QueueUrl=self.name, MaxNumberOfMessages=at_most, WaitTimeSeconds=0
            )
        return [
            Message(message["MessageId"], message["ReceiptHandle"], message["Body"])
            for message in answer.get("Messages", [])
        ]

    def delete(self, messages: Sequence[Message]) -> list[str]:
        """One call for up to ten; returns why some could not be deleted."""
        entries = [
            {"Id": str(number), "ReceiptHandle": message.handle}
            for number, message in enumerate(messages)
        ]
        with self._call("delete messages from"):
            answer = self._client.delete_message_batch(QueueUrl=self.name, Entries=entries)
        return [
            f"{entry.get('Code')}: {entry.get('Message', '')}" for entry in answer.get("Failed", [])
        ]

    def count(self) -> int:
        """About how many messages can be received now."""
        with self._call("count the messages of"):
            answer = self._client.get_queue_attributes(
                QueueUrl=self.name, AttributeNames=["ApproximateNumberOfMessages"]
            )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    @contextmanager
    def _call(self, action: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            answer = error.response.get("Error", {})
            reason = f"{answer.get('Message', '')} ({answer.get('Code')})"
            raise StoreError(action, self.name, reason) from error
        except (BotoCoreError, ValueError) as error:
            raise StoreError(action, self.name, error) from error
