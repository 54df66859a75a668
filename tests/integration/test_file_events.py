"""File events as the kernel, SQS and Azure's queues really send them."""

import base64
import json
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from azure.storage.queue import QueueClient
from watchfiles import Change

from freshet.errors import SettingsError, SetupError, StoreError
from freshet.stores.event_messages import Message, Zone, new_in_s3
from freshet.stores.file_events import FileEvents, FileHint, QueuedEvents, open_events
from freshet.stores.sqs_events import SqsQueue
from servers import AZURITE_ACCOUNT, AZURITE_KEY, azurite_queue, connection_string, moto_server

QUEUE = "freshet-events"
SECRET = "kept-to-ourselves"  # noqa: S105 - a word to look for in messages


def wait_for(events: FileEvents, count: int) -> list[FileHint]:
    """Polls until so many different paths are told, or long enough; returns all that came."""
    hints: list[FileHint] = []
    give_up_at = time.monotonic() + 10
    while len(paths_of(hints)) < count and time.monotonic() < give_up_at:
        hints += events.poll(100)
        time.sleep(0.01)
    return hints


def paths_of(hints: Sequence[FileHint]) -> set[str]:
    return {hint.path for hint in hints}


# --- local ---------------------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> Iterator[FileEvents]:
    (tmp_path / "old.json").write_text("before the watch")
    events = open_events(str(tmp_path), None)
    yield events
    events.close()


def test_files_made_and_written_are_told_and_older_ones_are_not(
    local: FileEvents, tmp_path: Path
) -> None:
    assert local.poll(10) == []
    (tmp_path / "grüße 1+2.json").write_text("x")
    assert wait_for(local, 1) == [FileHint(f"{tmp_path}/grüße 1+2.json", None)]
    (tmp_path / "old.json").write_text("more")
    assert paths_of(wait_for(local, 1)) == {f"{tmp_path}/old.json"}
    assert local.waiting() is None


def test_a_file_that_is_written_slowly_is_told_again_until_its_last_bytes(
    local: FileEvents, tmp_path: Path
) -> None:
    with (tmp_path / "slow.json").open("w") as file:
        for _ in range(3):
            file.write("x")
            file.flush()
            assert paths_of(wait_for(local, 1)) == {f"{tmp_path}/slow.json"}
    assert local.poll(10) == []


def test_a_file_that_is_moved_in_is_told_by_its_new_name(
    local: FileEvents, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "a.json"
    outside.write_text("x")
    outside.rename(tmp_path / "in.json")
    assert paths_of(wait_for(local, 1)) == {f"{tmp_path}/in.json"}
    (tmp_path / "in.json").rename(tmp_path / "renamed.json")
    assert paths_of(wait_for(local, 1)) == {f"{tmp_path}/renamed.json"}


def test_files_in_new_folders_are_told_however_fast_they_came(
    local: FileEvents, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = set()
    for number in range(30):
        folder = tmp_path / f"{number}" / "b" / "c"
        folder.mkdir(parents=True)
        (folder / "x.json").write_text("x")
        expected.add(f"{folder}/x.json")
    moved = tmp_path_factory.mktemp("outside") / "day"
    (moved / "deep").mkdir(parents=True)
    (moved / "deep" / "y.json").write_text("x")
    moved.rename(tmp_path / "day")
    expected.add(f"{tmp_path}/day/deep/y.json")
    assert paths_of(wait_for(local, len(expected))) == expected
    (tmp_path / "day" / "deep" / "later.json").write_text("x")
    assert f"{tmp_path}/day/deep/later.json" in paths_of(wait_for(local, 1))


def test_what_is_deleted_or_only_a_folder_is_not_told(local: FileEvents, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "brief.json").write_text("x")
    (tmp_path / "brief.json").unlink()
    (tmp_path / "old.json").unlink()
    (tmp_path / "last.json").write_text("x")
    assert paths_of(wait_for(local, 1)) == {f"{tmp_path}/last.json"}
    assert local.poll(10) == []


def test_sub_folders_are_not_watched_if_so_asked(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    events = open_events(str(tmp_path), None, recursive=False)
    (tmp_path / "sub" / "a.json").write_text("x")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "b.json").write_text("x")
    (tmp_path / "c.json").write_text("x")
    assert paths_of(wait_for(events, 1)) == {f"{tmp_path}/c.json"}
    time.sleep(0.1)
    assert events.poll(10) == []
    events.close()


@pytest.mark.parametrize("written", ["landing", "landing/", "./landing", "../{name}/landing"])
def test_local_paths_begin_as_the_landing_path_is_written(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landing").mkdir()
    monkeypatch.chdir(tmp_path)
    landing = written.format(name=tmp_path.name)
    events = open_events(landing, None)
    (tmp_path / "landing" / "a.json").write_text("x")
    assert paths_of(wait_for(events, 1)) == {f"{landing.rstrip('/')}/a.json"}
    events.close()


def test_no_more_than_the_limit_comes_at_once_and_the_rest_later(
    local: FileEvents, tmp_path: Path
) -> None:
    for number in range(25):
        (tmp_path / f"{number}.json").write_text("x")
    time.sleep(0.2)
    came = [local.poll(10) for _ in range(3)]
    assert [len(hints) for hints in came] == [10, 10, 5]
    assert len(paths_of([hint for hints in came for hint in hints])) == 25


def test_a_quiet_poll_is_short(local: FileEvents) -> None:
    started = time.monotonic()
    assert [local.poll(10) for _ in range(20)] == [[]] * 20
    assert time.monotonic() - started < 2


def test_a_landing_folder_that_vanished_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    events = open_events(str(landing), None)
    shutil.rmtree(landing)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"could not watch .*: the folder is gone"):
            events.poll(10)
    landing.mkdir()
    (landing / "a.json").write_text("x")
    assert paths_of(wait_for(events, 1)) == {f"{landing}/a.json"}
    (landing / "b.json").write_text("x")
    assert f"{landing}/b.json" in paths_of(wait_for(events, 1))
    events.close()


def test_a_landing_folder_that_is_replaced_between_two_polls_is_watched_anew(
    tmp_path: Path,
) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    events = open_events(str(landing), None)
    landing.rename(tmp_path / "old")
    landing.mkdir()
    (landing / "a.json").write_text("x")
    assert paths_of(wait_for(events, 1)) == {f"{landing}/a.json"}
    events.poll(10)
    (landing / "b.json").write_text("x")
    assert paths_of(wait_for(events, 1)) == {f"{landing}/b.json"}
    events.close()


def test_a_landing_folder_that_never_was_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="could not watch"):
        open_events(str(tmp_path / "nowhere"), None)


def test_a_name_that_is_no_text_does_not_end_the_watch(
    local: FileEvents, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (Path(os.fsdecode(bytes(tmp_path) + b"/\xff.json"))).write_text("x")
    time.sleep(0.1)
    assert local.poll(10) == []
    assert [record.message for record in caplog.records] == ["file_events_lost"]
    (tmp_path / "a.json").write_text("x")
    assert paths_of(wait_for(local, 1)) == {f"{tmp_path}/a.json"}


class ScriptedWatcher:
    """In place of the kernel: says what the test wants, when the test wants it."""

    def __init__(self, *_: Any) -> None:
        self.answers: deque[Any] = deque()

    def watch(self, *_: Any) -> Any:
        return self.answers.popleft() if self.answers else "timeout"


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FileEvents, deque[Any]]:
    watcher = ScriptedWatcher()
    monkeypatch.setattr("freshet.stores.file_events.RustNotify", lambda *_: watcher)
    return open_events(str(tmp_path), None), watcher.answers


def test_a_file_that_came_after_the_look_into_a_new_folder_and_before_its_watch_is_told(
    scripted: tuple[FileEvents, deque[Any]], tmp_path: Path
) -> None:
    events, answers = scripted
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.json").write_text("x")
    answers.append({(Change.added, str(tmp_path / "new"))})
    assert paths_of(events.poll(10)) == {f"{tmp_path}/new/a.json"}
    (tmp_path / "new" / "b.json").write_text("x")
    assert paths_of(events.poll(10)) == {f"{tmp_path}/new/b.json"}
    assert events.poll(10) == []


def test_a_folder_that_only_changed_is_not_looked_into(
    scripted: tuple[FileEvents, deque[Any]], tmp_path: Path
) -> None:
    events, answers = scripted
    (tmp_path / "a.json").write_text("x")
    answers.append({(Change.modified, str(tmp_path))})
    assert events.poll(10) == []


def test_a_signal_that_the_watcher_took_ends_the_poll(
    scripted: tuple[FileEvents, deque[Any]],
) -> None:
    events, answers = scripted
    answers.append("signal")
    with pytest.raises(KeyboardInterrupt):
        events.poll(10)


# --- S3 ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aws_endpoint() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture
def aws(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Makes clients; the environment leads to the local server."""
    values = {
        "AWS_ENDPOINT_URL": aws_endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    client: Callable[[str], Any] = boto3.Session().client
    return client


@pytest.fixture
def queue_url(aws: Callable[[str], Any]) -> Iterator[str]:
    client = aws("sqs")
    url = client.create_queue(QueueName=QUEUE)["QueueUrl"]
    yield url
    client.delete_queue(QueueUrl=url)
    client.close()


@pytest.fixture
def bucket(aws: Callable[[str], Any], queue_url: str) -> Any:
    """A bucket that tells the queue of everything that happens in it."""
    arn = f"arn:aws:sqs:us-east-1:123456789012:{QUEUE}"
    told = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
    client = aws("s3")
    client.create_bucket(Bucket="zone")
    client.put_bucket_notification_configuration(
        Bucket="zone", NotificationConfiguration={"QueueConfigurations": [told]}
    )
    return client


@pytest.fixture
def s3_events(queue_url: str) -> Iterator[FileEvents]:
    events = open_events("s3://zone/in", queue_url)
    yield events
    events.close()


def send(aws: Callable[[str], Any], url: str, *bodies: Any) -> None:
    client = aws("sqs")
    for body in bodies:
        text = body if isinstance(body, str) else json.dumps(body)
        client.send_message(QueueUrl=url, MessageBody=text)
    client.close()


def in_queue(aws: Callable[[str], Any], url: str) -> int:
    """All messages, also those that were received and not deleted."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    client = aws("sqs")
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    client.close()
    return sum(int(found[name]) for name in names)


def created(*keys: str, bucket: str = "zone") -> dict[str, Any]:
    return {
        "Records": [
            {
                "eventName": "ObjectCreated:Put",
                "s3": {"bucket": {"name": bucket}, "object": {"key": key, "eTag": "e"}},
            }
            for key in keys
        ]
    }


def test_uploaded_objects_are_told_until_they_are_done(
    bucket: Any, s3_events: FileEvents, aws: Callable[[str], Any], queue_url: str
) -> None:
    keys = ["in/a.json", "in/a b+c%20.json", "in/tag=1/grüße.json"]
    for key in keys:
        bucket.put_object(Bucket="zone", Key=key, Body=b"x")
    bucket.put_object(Bucket="zone", Key="out/a.json", Body=b"x")
    bucket.delete_object(Bucket="zone", Key="in/a.json")
    waiting = s3_events.waiting()
    assert waiting is not None
    assert waiting >= 6, "the test event, four uploads and a deletion"
    hints = s3_events.poll(100)
    assert sorted(hint.path for hint in hints) == sorted(f"s3://zone/{key}" for key in keys)
    assert all(hint.etag and hint.receipt for hint in hints)
    assert in_queue(aws, queue_url) == 3, "what gives no hint is gone"
    s3_events.done(hints)
    assert in_queue(aws, queue_url) == 0
    assert s3_events.poll(100) == []


def test_a_multipart_upload_tells_one_path_and_leaves_no_message(
    bucket: Any, s3_events: FileEvents, aws: Callable[[str], Any], queue_url: str
) -> None:
    upload = bucket.create_multipart_upload(Bucket="zone", Key="in/big.json")["UploadId"]
    part = {"Bucket": "zone", "Key": "in/big.json", "UploadId": upload}
    etag = bucket.upload_part(**part, PartNumber=1, Body=b"x")["ETag"]
    bucket.complete_multipart_upload(
        **part, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}
    )
    hints = s3_events.poll(100)
    assert paths_of(hints) == {"s3://zone/in/big.json"}
    s3_events.done(hints)
    assert in_queue(aws, queue_url) == 0


def test_sns_and_event_bridge_are_understood_in_a_real_queue(
    aws: Callable[[str], Any], s3_events: FileEvents, queue_url: str
) -> None:
    place = {"bucket": {"name": "zone"}, "object": {"key": "in/b+b.json", "etag": "e"}}
    send(
        aws,
        queue_url,
        {"Type": "Notification", "Message": json.dumps(created("in/a+a.json"))},
        {"detail-type": "Object Created", "source": "aws.s3", "detail": place},
        created("in/c.json", bucket="another"),
    )
    hints = s3_events.poll(100)
    assert paths_of(hints) == {"s3://zone/in/a a.json", "s3://zone/in/b+b.json"}
    s3_events.done(hints)
    assert in_queue(aws, queue_url) == 0


def test_a_message_of_several_files_goes_when_the_last_of_them_is_done(
    aws: Callable[[str], Any], s3_events: FileEvents, queue_url: str
) -> None:
    send(aws, queue_url, created("in/a", "in/b", "out/c", "in/a"))
    first, second = s3_events.poll(100)
    s3_events.done([first, first])
    assert in_queue(aws, queue_url) == 1
    s3_events.done([second])
    assert in_queue(aws, queue_url) == 0


def test_what_is_not_done_is_told_again_and_what_is_done_is_not(
    aws: Callable[[str], Any], s3_events: FileEvents, queue_url: str
) -> None:
    client = aws("sqs")
    client.set_queue_attributes(QueueUrl=queue_url, Attributes={"VisibilityTimeout": "1"})
    client.close()
    send(aws, queue_url, created("in/a", "in/b"))
    first, second = s3_events.poll(100)
    assert s3_events.poll(100) == [], "it is not shown again at once"
    s3_events.done([first])
    assert wait_for(s3_events, 1) == [second]
    s3_events.done([second])
    time.sleep(1.2)
    assert in_queue(aws, queue_url) == 0
    assert s3_events.poll(100) == []


def test_a_restart_is_told_what_the_one_before_did_not_finish(
    aws: Callable[[str], Any], queue_url: str
) -> None:
    client = aws("sqs")
    client.set_queue_attributes(QueueUrl=queue_url, Attributes={"VisibilityTimeout": "1"})
    client.close()
    send(aws, queue_url, created("in/a", "in/b"))
    before = open_events("s3://zone/in", queue_url)
    before.done(before.poll(100)[:1])
    before.close()
    after = open_events("s3://zone/in", queue_url)
    hints = wait_for(after, 2)
    assert paths_of(hints) == {"s3://zone/in/a", "s3://zone/in/b"}
    after.done(hints)
    assert in_queue(aws, queue_url) == 0
    after.close()


def test_many_messages_come_in_one_poll_but_about_as_many_as_asked_for(
    aws: Callable[[str], Any], s3_events: FileEvents, queue_url: str
) -> None:
    send(aws, queue_url, *(created(f"in/{number}") for number in range(45)))
    few = s3_events.poll(3)
    assert len(few) == 3
    rest = wait_for(s3_events, 42)
    assert len(paths_of([*few, *rest])) == 45
    s3_events.done([*few, *rest])
    assert in_queue(aws, queue_url) == 0


def test_messages_that_make_no_sense_are_deleted_and_reported_once(
    aws: Callable[[str], Any],
    s3_events: FileEvents,
    queue_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send(aws, queue_url, "hello", {"a": 1}, created("in/a"))
    assert paths_of(s3_events.poll(100)) == {"s3://zone/in/a"}
    assert in_queue(aws, queue_url) == 1
    [record] = [record for record in caplog.records if record.name.startswith("freshet")]
    assert record.message == "messages_not_understood"
    assert vars(record)["fields"] == {"queue": queue_url, "messages": 2}


def test_a_message_that_sqs_will_not_delete_does_not_keep_the_others(
    aws: Callable[[str], Any], queue_url: str
) -> None:
    send(aws, queue_url, "hello")
    queue = SqsQueue(queue_url)
    [message] = queue.receive(10)
    [reason] = queue.delete([replace(message, handle="never given"), message])
    assert reason.startswith("ReceiptHandleIsInvalid")
    assert in_queue(aws, queue_url) == 0
    queue.close()


@pytest.mark.usefixtures("aws")
def test_a_queue_that_is_not_there_is_named_in_the_error() -> None:
    events = open_events("s3://zone/in", "http://127.0.0.1/123456789012/nowhere")
    with pytest.raises(StoreError, match=r"receive messages from http.*nowhere") as caught:
        events.poll(10)
    assert SECRET not in str(caught.value)
    with pytest.raises(StoreError, match="could not count"):
        events.waiting()
    events.close()


@pytest.mark.usefixtures("aws")
def test_an_endpoint_that_does_not_answer_is_an_error_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    events = open_events("s3://zone/in", "http://127.0.0.1:9/123456789012/queue")
    started = time.monotonic()
    with pytest.raises(StoreError, match="Could not connect"):
        events.poll(10)
    assert time.monotonic() - started < 10
    events.close()


class SlowQueue:
    """As far away as the real service: each call takes a twentieth of a second."""

    name = "slow"
    receive_most = 10
    delete_most = 10

    def __init__(self, keys: Sequence[str]) -> None:
        bodies = [json.dumps(created(key)) for key in keys]
        self.messages = deque(Message(str(id_), "", body) for id_, body in enumerate(bodies))
        self.receives = 0

    def receive(self, at_most: int) -> list[Message]:
        self.receives += 1
        time.sleep(0.05)
        return [self.messages.popleft() for _ in range(at_most) if self.messages]

    def delete(self, messages: Sequence[Message]) -> list[str]:
        time.sleep(0.05)
        return [f"no {message.id}" for message in messages]

    def count(self) -> int:
        return len(self.messages)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("folder", ["in", "out"])
def test_calls_of_a_far_queue_are_made_at_once_and_a_poll_stays_short(folder: str) -> None:
    queue = SlowQueue([f"{folder}/{number}" for number in range(5_000)])
    events = QueuedEvents(queue, Zone.of_s3("s3://zone/in"), new_in_s3)
    started = time.monotonic()
    hints = events.poll(5_000)
    assert time.monotonic() - started < 1.5
    assert 5_000 - queue.count() > 200, "one after the other, 80 at most"
    assert len(hints) == (5_000 - queue.count() if folder == "in" else 0)
    events.close()


def test_a_poll_of_an_empty_queue_costs_one_call() -> None:
    queue = SlowQueue([])
    events = QueuedEvents(queue, Zone.of_s3("s3://zone/in"), new_in_s3)
    assert events.poll(1_000) == []
    assert queue.receives == 1
    events.close()


def test_messages_that_could_not_be_deleted_are_reported_and_raise_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = QueuedEvents(SlowQueue(["in/a", "in/b"]), Zone.of_s3("s3://zone/in"), new_in_s3)
    events.done(events.poll(10))
    [record] = caplog.records
    assert record.message == "messages_not_deleted"
    assert vars(record)["fields"] == {"queue": "slow", "messages": 2, "reason": "no 0"}
    events.close()


# --- Azure ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def azure_endpoint() -> Iterator[str]:
    with azurite_queue() as endpoint:
        yield endpoint


@pytest.fixture
def azure_queue(azure_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueueClient]:
    """An empty queue; the environment leads to it. Messages are put in by hand."""
    secret = connection_string(queue=azure_endpoint)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", secret)
    with QueueClient.from_connection_string(secret, QUEUE) as client:
        client.create_queue()
        yield client
        client.delete_queue()


@pytest.fixture
def azure_events(azure_queue: QueueClient) -> Iterator[FileEvents]:
    events = open_events(LANDING, azure_queue.queue_name)
    yield events
    events.close()


LANDING = f"abfss://zone@{AZURITE_ACCOUNT}.dfs.core.windows.net/in"


def blob_created(key: str, **more: Any) -> dict[str, Any]:
    url = f"https://{AZURITE_ACCOUNT}.blob.core.windows.net/zone/{key}"
    data = {"api": "PutBlob", "url": url, "eTag": "0x8D"}
    return {"eventType": "Microsoft.Storage.BlobCreated", "data": data, **more}


def as_event_grid_sends(event: Any) -> str:
    return base64.b64encode(json.dumps(event).encode()).decode()


def left(queue: QueueClient) -> int | None:
    return queue.get_queue_properties().approximate_message_count


def test_blobs_are_told_until_they_are_done(
    azure_queue: QueueClient, azure_events: FileEvents
) -> None:
    azure_queue.send_message(as_event_grid_sends(blob_created("in/a%20b%2Bc/gr%C3%BC%C3%9Fe")))
    azure_queue.send_message(json.dumps([blob_created("in/x"), blob_created("in/y")]))
    azure_queue.send_message(as_event_grid_sends(blob_created("out/x")))
    azure_queue.send_message(json.dumps({"type": "Microsoft.Storage.BlobDeleted"}))
    assert azure_events.waiting() == 4
    hints = azure_events.poll(100)
    below = {"a b+c/grüße", "x", "y"}
    assert paths_of(hints) == {f"{LANDING}/{name}" for name in below}
    assert {hint.etag for hint in hints} == {"0x8D"}
    assert left(azure_queue) == 2, "what gives no hint is gone"
    azure_events.done([hint for hint in hints if not hint.path.endswith("y")])
    assert left(azure_queue) == 1, "one of two files in a message is not done"
    azure_events.done(hints)
    assert left(azure_queue) == 0
    assert azure_events.poll(100) == []


def test_many_azure_messages_come_in_one_poll(
    azure_queue: QueueClient, azure_events: FileEvents
) -> None:
    for number in range(70):
        azure_queue.send_message(json.dumps(blob_created(f"in/{number}")))
    few = azure_events.poll(5)
    assert len(few) == 5
    hints = [*few, *wait_for(azure_events, 65)]
    assert len(paths_of(hints)) == 70
    azure_events.done(hints)
    assert left(azure_queue) == 0


def test_azure_messages_that_are_gone_already_are_reported_and_raise_nothing(
    azure_queue: QueueClient, azure_events: FileEvents, caplog: pytest.LogCaptureFixture
) -> None:
    azure_queue.send_message("no sense")
    azure_queue.send_message(json.dumps(blob_created("in/a")))
    hints = azure_events.poll(100)
    azure_queue.clear_messages()
    azure_events.done(hints)
    told = [record.message for record in caplog.records if record.name.startswith("freshet")]
    assert told == ["messages_not_understood", "messages_not_deleted"]


def test_an_azure_queue_is_known_by_its_url_too(azure_queue: QueueClient) -> None:
    azure_queue.send_message(json.dumps(blob_created("in/a")))
    events = open_events(LANDING, azure_queue.url)
    assert paths_of(events.poll(10)) == {f"{LANDING}/a"}
    events.close()
    with pytest.raises(SettingsError, match="leads to"):
        open_events(LANDING, "https://other.queue.core.windows.net/queue")


@pytest.mark.usefixtures("azure_queue")
def test_an_azure_queue_that_is_not_there_is_named_in_the_error() -> None:
    events = open_events(LANDING, "nowhere")
    with pytest.raises(StoreError, match=r"receive messages from http.*/nowhere") as error:
        events.poll(10)
    assert AZURITE_KEY not in str(error.value)
    events.close()


def test_no_secret_of_azure_is_ever_in_a_message(
    azure_queue: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = azure_queue.url
    wrong = base64.b64encode(SECRET.encode()).decode()
    queue_at = url.removesuffix(f"/{AZURITE_ACCOUNT}/{QUEUE}")
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        connection_string(queue=queue_at).replace(AZURITE_KEY, wrong),
    )
    messages = []
    for queue in (QUEUE, f"{url}?sv=2020-08-04&sig={SECRET}"):
        events = open_events(LANDING, queue)
        with pytest.raises(StoreError) as denied:
            events.poll(10)
        messages.append(str(denied.value))
        events.close()
    with pytest.raises(SettingsError) as mistaken:
        open_events(LANDING, f"AccountName=x;AccountKey={SECRET}")
    messages.append(str(mistaken.value))
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"AccountKey={SECRET}")
    with pytest.raises(StoreError) as malformed:
        open_events(LANDING, QUEUE)
    messages.append(str(malformed.value))
    assert not [text for text in messages if SECRET in text or wrong in text]


def test_an_azure_account_that_does_not_answer_is_an_error_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = connection_string(queue="http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", secret)
    events = open_events(LANDING, QUEUE)
    started = time.monotonic()
    with pytest.raises(StoreError, match="could not receive"):
        events.poll(10)
    assert time.monotonic() - started < 10
    events.close()


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["s3://zone/in", LANDING, "abfs://acme@zone/in", "az://zone"])
@pytest.mark.parametrize("queue", [None, "", " "])
def test_a_store_without_events_of_its_own_needs_a_queue(path: str, queue: str | None) -> None:
    with pytest.raises(SettingsError, match=r"landing\.queue is missing: "):
        open_events(path, queue)


def test_a_queue_of_sqs_is_named_by_its_url() -> None:
    with pytest.raises(SettingsError, match=r"landing\.queue must be the URL"):
        open_events("s3://zone/in", "my-queue")


def test_an_azure_queue_needs_the_connection_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    with pytest.raises(SettingsError, match="AZURE_STORAGE_CONNECTION_STRING is not set"):
        open_events(LANDING, QUEUE)


def test_a_store_that_sends_no_events_is_refused() -> None:
    with pytest.raises(SettingsError, match="no file events for gs://"):
        open_events("gs://zone/in", "queue")


@pytest.mark.parametrize(
    ("path", "library", "extra"), [("s3://zone", "boto3", "s3"), ("az://zone", "azure", "azure")]
)
def test_a_missing_extra_is_named(
    path: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules, library]:
        if name.startswith((library, "freshet.stores.sqs", "freshet.stores.azure")):
            monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    mine = {"s3": "freshet.stores.sqs_events", "azure": "freshet.stores.azure_events"}
    monkeypatch.delitem(sys.modules, mine[extra], raising=False)
    with pytest.raises(SetupError, match=rf"pip install 'freshet\[{extra}\]'"):
        open_events(path, "https://example.com/queue")
