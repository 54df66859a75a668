"""An Azure storage queue: the only module that calls Azure's own SDK."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.queue import LinearRetry, QueueClient

from freshet.errors import SettingsError, StoreError
from freshet.stores import azure_account
from freshet.stores.event_messages import Message

_QUEUE: Final = re.compile(r"(?:https?://.+/)?[a-z0-9-]{3,63}/?(?:\?.*)?")
_GONE: Final = {"MessageNotFound", "PopReceiptMismatch"}


class AzureQueue:
    """A storage queue; `count` also counts messages that were received and not deleted.

    Messages that were received stay unseen by others for 30 s, which is what Azure chooses.
    """

    receive_most = 32
    delete_most = 1

    def __init__(self, client: QueueClient) -> None:
        self._client = client
        self.name = _without_secrets(client.url)

    @classmethod
    def open(cls, queue: str) -> Self:
        """By a URL with a SAS token, or by a URL or a name in the connection string's account."""
        if not _QUEUE.fullmatch(queue):  # which is not repeated: it may be a connection string
            raise SettingsError("landing.queue must be the URL or the name of a storage queue")
        url = _without_secrets(queue)
        if url != queue:
            with _calling("open", url):
                return cls(QueueClient.from_queue_url(queue, **_patience()))
        with _calling("open", url):
            client = QueueClient.from_connection_string(
                _connection_string(), url.rpartition("/")[2], **_patience()
            )
        opened = cls(client)
        if "://" in url and opened.name != url:
            raise SettingsError(
                f"landing.queue is {url}, but {azure_account.VARIABLE} leads to {opened.name}"
            )
        return opened

    def receive(self, at_most: int) -> list[Message]:
        """One call, without waiting."""
        with _calling("receive messages from", self.name):
            found = self._client.receive_messages(messages_per_page=at_most, max_messages=at_most)
            page = list(next(found.by_page(), ()))
        return [Message(message.id, message.pop_receipt or "", message.content) for message in page]

    def delete(self, messages: Sequence[Message]) -> list[str]:
        """One call for each; returns why some could not be deleted."""
        with _calling("delete messages from", self.name):
            return [reason for message in messages if (reason := self._delete(message))]

    def count(self) -> int:
        """About how many messages there are."""
        with _calling("count the messages of", self.name):
            return self._client.get_queue_properties().approximate_message_count or 0

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def _delete(self, message: Message) -> str | None:
        try:
            self._client.delete_message(message.id, message.handle)
        except HttpResponseError as error:
            code: str | None = getattr(error, "error_code", None)
            if code not in _GONE:
                raise
            return code
        return None


def _connection_string() -> str:
    secret = azure_account.connection_string()
    if secret is None:
        raise SettingsError(
            f"{azure_account.VARIABLE} is not set: it says how to get into the queue's account"
        )
    return secret


def _patience() -> dict[str, Any]:
    """A poll is to be short: whoever finds the queue dead looks again, and lists meanwhile."""
    retry = LinearRetry(backoff=1, retry_total=1, random_jitter_range=0)
    return {"connection_timeout": 2, "read_timeout": 5, "retry_policy": retry}


@contextmanager
def _calling(action: str, name: str) -> Iterator[None]:
    try:
        yield
    except (AzureError, ValueError) as error:
        raise StoreError(action, name, error) from error


def _without_secrets(url: str) -> str:
    """A queue's URL or name without a SAS token."""
    return url.partition("?")[0].rstrip("/")
