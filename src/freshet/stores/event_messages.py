"""Messages about files, and what they say. Pure: nothing here calls anybody."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

_AZURE_NEW = {
    "Microsoft.Storage.BlobCreated": "url",
    "Microsoft.Storage.BlobRenamed": "destinationUrl",
}
# RecursionError: JSON that is nested too deeply must not stop those who wait behind it.
_UNREADABLE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Message:
    """A message as a queue hands it out; its handle changes each time, its id never."""

    id: str
    handle: str
    body: str


class MessageQueue(Protocol):
    """A queue's own calls, made by several threads at once; each may raise `StoreError`."""

    name: str
    receive_most: int
    delete_most: int

    def receive(self, at_most: int) -> list[Message]:
        """Some of the messages that wait now; others do not see them for a while."""

    def delete(self, messages: Sequence[Message]) -> list[str]:
        """Deletes, and says why of those that it could not."""

    def count(self) -> int:
        """About how many messages wait."""

    def close(self) -> None:
        """Frees its connections."""


@dataclass(frozen=True)
class NewObject:
    """An object that a message calls new; `account` is None where the store has no accounts."""

    bucket: str
    key: str
    etag: str | None = None
    account: str | None = None


@dataclass(frozen=True)
class Zone:
    """A landing path, taken apart; `account` is None where the path does not name one."""

    path: str
    bucket: str
    prefix: str
    account: str | None = None
    recursive: bool = True

    @classmethod
    def of_s3(cls, path: str, *, recursive: bool = True) -> Self:
        """Of `s3://bucket/prefix`."""
        url = urlsplit(path, allow_fragments=False)
        return cls(_below(url), url.netloc, url.path.strip("/"), None, recursive)

    @classmethod
    def of_azure(cls, path: str, *, recursive: bool = True) -> Self:
        """Of `abfss://container@account.host/prefix` and the other ways that Arrow reads."""
        url = urlsplit(path, allow_fragments=False)
        account, place = _azure_place(url)
        container, _, prefix = place.strip("/").partition("/")
        return cls(_below(url), container, prefix, account, recursive)

    def path_of(self, new: NewObject) -> str | None:
        """The object's path as a listing of the landing path writes it; None if it is not there.

        Nor is one that stands for a folder. Which names count is for the caller to say.
        """
        if new.bucket != self.bucket or (self.account and new.account != self.account):
            return None
        below = f"{self.prefix}/" if self.prefix else ""
        relative = new.key.removeprefix(below)
        is_folder = relative.endswith("/") or not relative
        is_too_deep = "/" in relative and not self.recursive
        if not new.key.startswith(below) or is_folder or is_too_deep:
            return None
        return f"{self.path}/{relative}"


def new_in_s3(body: str) -> list[NewObject] | None:
    """What an SQS message calls new, possibly nothing; None if it is not understood at all.

    Understands the events of S3 itself, those within an SNS notification, and EventBridge's.
    """
    try:
        return _distinct(_s3_objects(json.loads(body)))
    except _UNREADABLE:
        return None


def new_in_azure(body: str) -> list[NewObject] | None:
    """What a message of a storage queue calls new; None if it is not understood at all.

    Understands Event Grid's own schema and CloudEvents, one or a list, plain or as base64.
    """
    try:
        events = json.loads(_plain(body))
        return _distinct(_azure_objects(events if isinstance(events, list) else [events]))
    except _UNREADABLE:
        return None


def _distinct(objects: Iterable[NewObject]) -> list[NewObject]:
    return list(dict.fromkeys(objects))


def _s3_objects(message: Mapping[str, Any]) -> Iterator[NewObject]:
    if message.get("Type") == "Notification":  # SNS
        yield from _s3_objects(json.loads(message["Message"]))
    elif "detail-type" in message:  # EventBridge, which does not encode keys
        if message["detail-type"] == "Object Created":
            bucket, stored = message["detail"]["bucket"], message["detail"]["object"]
            yield NewObject(_text(bucket["name"]), _text(stored["key"]), stored.get("etag"))
    elif message.get("Event") != "s3:TestEvent":
        yield from _s3_records(message["Records"])


def _s3_records(records: Iterable[Mapping[str, Any]]) -> Iterator[NewObject]:
    for record in records:
        if record["eventName"].removeprefix("s3:").startswith("ObjectCreated:"):
            bucket, stored = record["s3"]["bucket"], record["s3"]["object"]
            key = unquote_plus(_text(stored["key"]))
            yield NewObject(_text(bucket["name"]), key, stored.get("eTag"))


def _azure_objects(events: Iterable[Mapping[str, Any]]) -> Iterator[NewObject]:
    for event in events:
        kind = _text(event["eventType"] if "eventType" in event else event["type"])
        if kind in _AZURE_NEW:
            data = event["data"]
            account, container, key = _blob_place(urlsplit(_text(data[_AZURE_NEW[kind]])))
            yield NewObject(container, key, data.get("eTag"), account)


def _azure_place(url: SplitResult) -> tuple[str | None, str]:
    """A landing path's account and `container/prefix`."""
    user = url.username
    host = url.hostname or ""
    account = host.partition(".")[0]
    if ".dfs." in host and user:  # container@account.dfs…/prefix
        return account, f"{user}{url.path}"
    if ".dfs." in host or ".blob." in host:  # account.blob…/container/prefix
        return account, url.path
    if "." in host or url.port:  # account@host:port/container/prefix
        return user, url.path
    return user, f"{host}{url.path}"  # container/prefix


def _blob_place(url: SplitResult) -> tuple[str, str, str]:
    """Account, container and key of a blob's URL; on an address, as Azurite's, all is path."""
    host, path = url.hostname or "", unquote(url.path[1:])
    if host == "localhost" or host.replace(".", "").isdigit():
        account, _, path = path.partition("/")
    else:
        account = host.partition(".")[0]
    container, _, key = path.partition("/")
    return account, container, key


def _below(url: SplitResult) -> str:
    """What a listing writes before a file's path: no parameters, no last slash."""
    return f"{url.scheme}://{url.netloc}{url.path}".rstrip("/")


def _plain(body: str) -> str:
    """The text of a body: Event Grid sends base64, and JSON never looks like that."""
    if body.lstrip()[:1] in {"{", "["}:
        return body
    return base64.b64decode(body, validate=True).decode("utf-8")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
