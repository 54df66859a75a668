"""Landing zones on object stores: real servers of S3 and Azure on this machine."""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from freshet.landing.archive import Archive
from freshet.landing.files import READ, FilesHistory, FilesTable, Step
from freshet.landing.options import LandingOptions
from freshet.landing.source import LandingReader
from freshet.stores import delta_tables, remote_systems
from freshet.stores.file_listing import look_at
from freshet.testing import Driver
from landings import NOW
from servers import AZURITE_ACCOUNT, AZURITE_KEY, azurite_blob, connection_string, moto_server

ODD_KEYS = ("in/plain.json", "in/a b+c.json", "in/100%20.json", "in/ü/deep.json", "in/_hidden.json")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def aws(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    access = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in access.items():
        monkeypatch.setenv(name, value)
    remote_systems._other.cache_clear()
    yield access
    remote_systems._other.cache_clear()


def read_all(options: LandingOptions) -> Counter[str]:
    """What the source gives, without Spark around it."""
    reader = LandingReader(options)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    records: Counter[str] = Counter()
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            records.update(batch.column("record").to_pylist())
    reader.stop()
    return records


def test_keys_of_s3_are_taken_as_they_are(aws: dict[str, str], tmp_path: Path) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="zone")
    for key in ODD_KEYS:
        s3.put_object(Bucket="zone", Key=key, Body=json.dumps({"key": key}).encode() + b"\n")
    options = LandingOptions(path="s3://zone/in", state=str(tmp_path / "files"))
    assert read_all(options) == {json.dumps({"key": key}): 1 for key in ODD_KEYS[:-1]}
    paths = sorted(file.path for file in FilesTable(options.state).between(0))
    assert paths == sorted(f"s3://zone/{key}" for key in ODD_KEYS[:-1])


def test_files_of_s3_are_archived_there(aws: dict[str, str], tmp_path: Path) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="moving")
    s3.put_object(Bucket="moving", Key="in/x/a b.json", Body=b"{}\n")
    options = LandingOptions(
        path="s3://moving/in",
        state=str(tmp_path / "files"),
        after_read="archive",
        archive_path="s3://moving/archive",
        retention="0 seconds",
    )
    assert read_all(options) == {"{}": 1}
    moving = Archive(options, FilesHistory(options.state))
    moving.read_up_to(Step(READ, 0, 1, 0, NOW))
    moving.step(NOW)
    found = s3.list_objects_v2(Bucket="moving")["Contents"]
    assert [one["Key"] for one in found if one["Size"]] == ["archive/x/a b.json"]
    assert look_at("s3://moving/in/x/a b.json") is None


@pytest.mark.timeout(400)
def test_blobs_of_azure_are_read_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.fs as pafs

    with azurite_blob() as url:
        authority = url.removeprefix("http://")
        system = pafs.AzureFileSystem(
            AZURITE_ACCOUNT,
            account_key=AZURITE_KEY,
            **{f"{one}_storage_authority": authority for one in ("blob", "dfs")},
            **{f"{one}_storage_scheme": "http" for one in ("blob", "dfs")},
        )
        system.create_dir("zone")
        for key in ODD_KEYS:
            with system.open_output_stream(f"zone/{key}") as stream:
                stream.write(json.dumps({"key": key}).encode() + b"\n")
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(blob=url))
        remote_systems._azure.cache_clear()
        path = f"abfss://zone@{AZURITE_ACCOUNT}.dfs.core.windows.net/in"
        options = LandingOptions(path=path, state=str(tmp_path / "files"))
        assert read_all(options) == {json.dumps({"key": key}): 1 for key in ODD_KEYS[:-1]}
        remote_systems._azure.cache_clear()


# --- notification mode, as a whole ---------------------------------------------------------------

SETTINGS = """\
[pipeline]
name = "docs"
home = "./home"
trigger = "500 milliseconds"
[landing]
path = "s3://events/in"
discovery = "notification"
queue = "{queue}"
backfill_interval = "15 seconds"
[changes]
envelope = "plain"
key = ["id"]
version = "record_version"
[gold]
text = ["title"]
[embedding]
provider = "fake"
[spark]
master = "local[2]"
conf = {{ "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1" }}
"""


def tell(sqs: Any, queue: str, keys: list[str]) -> None:
    """Sends the events of some objects, as S3 writes them."""
    for start in range(0, len(keys), 10):
        entries = [
            {
                "Id": str(number),
                "MessageBody": json.dumps(
                    {
                        "Records": [
                            {
                                "eventName": "ObjectCreated:Put",
                                "s3": {"bucket": {"name": "events"}, "object": {"key": key}},
                            }
                        ]
                    }
                ),
            }
            for number, key in enumerate(keys[start : start + 10])
        ]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_thousand_files_are_read_once_though_events_are_lost_and_doubled(
    aws: dict[str, str], tmp_path: Path
) -> None:
    """A tenth of the events never comes, another tenth comes twice; the backfill finds the rest."""
    s3, sqs, chooser = boto3.client("s3"), boto3.client("sqs"), random.Random(11)
    s3.create_bucket(Bucket="events")
    queue = sqs.create_queue(QueueName="events")["QueueUrl"]
    keys = [f"in/{number:04d}.json" for number in range(1_000)]
    (tmp_path / "freshet.toml").write_text(SETTINGS.format(queue=queue))
    first = b'{"id":"x","record_version":1,"title":"x"}\n'
    s3.put_object(Bucket="events", Key="in/first.json", Body=first)
    command = [
        "/usr/bin/env",
        *(f"{name}={value}" for name, value in aws.items()),
        sys.executable,
        "-c",
        "from freshet.cli import main; main()",
        "run",
    ]
    driver = Driver.start(tmp_path, *command)
    try:
        wait_for(driver, lambda: len(read_rows(tmp_path)) >= 1)
        dropped = set(chooser.sample(keys, 100))
        doubled = set(chooser.sample(sorted(set(keys) - dropped), 100))
        for start in range(0, len(keys), 10):
            landed = keys[start : start + 10]
            for key in landed:
                body = json.dumps({"id": key, "record_version": 1, "title": key}).encode() + b"\n"
                s3.put_object(Bucket="events", Key=key, Body=body)
            tell(sqs, queue, [key for key in landed if key not in dropped])
            tell(sqs, queue, [key for key in landed if key in doubled])
        wait_for(driver, lambda: len(read_rows(tmp_path)) >= 1_001)
        time.sleep(2)
    finally:
        driver.end()
    assert set(read_rows(tmp_path).values()) == {1}
    assert len(read_rows(tmp_path)) == 1_001
    how = Counter(file.how for file in FilesTable(str(tmp_path / "home/files")).between(0))
    assert how["event"] > 0, "no event was of use"
    assert how["listing"] > 0, "nothing was left for a listing to find"


def read_rows(folder: Path) -> Counter[tuple[str, int]]:
    rows: Counter[tuple[str, int]] = Counter()
    for batch in delta_tables.scan(str(folder / "home/bronze"), ("file", "row")):
        rows.update(zip(batch["file"].to_pylist(), batch["row"].to_pylist(), strict=True))
    return rows


def wait_for(driver: Driver, is_so: Any) -> None:
    deadline = time.monotonic() + 150
    while not is_so():
        assert driver.is_alive, (driver.folder / "output.log").read_text()[-3_000:]
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.3)
