"""What messages about files say, in all the ways in which S3 and Azure write them."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.stores.event_messages import NewObject, Zone, new_in_azure, new_in_s3

ACCOUNT_URL = "https://acme.blob.core.windows.net"


def s3_record(key: str, event: str = "ObjectCreated:Put", **more: Any) -> dict[str, Any]:
    stored = {"key": key, "size": 3, **more}
    return {"eventName": event, "s3": {"bucket": {"name": "zone"}, "object": stored}}


def s3_event(*records: dict[str, Any]) -> str:
    return json.dumps({"Records": records})


def blob_event(url: str, kind: str = "BlobCreated", **data: Any) -> dict[str, Any]:
    return {"eventType": f"Microsoft.Storage.{kind}", "data": {"url": url, **data}}


def test_every_record_of_an_s3_event_is_told_with_its_key_decoded() -> None:
    body = s3_event(s3_record("in/a+b%2Bc.json", eTag="e1"), s3_record("in/gr%C3%BC%C3%9Fe%2520"))
    assert new_in_s3(body) == [
        NewObject("zone", "in/a b+c.json", "e1"),
        NewObject("zone", "in/grüße%20"),
    ]


def test_an_s3_event_within_an_sns_notification_says_the_same() -> None:
    inner = s3_event(s3_record("in/a+b"))
    outer = json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:x", "Message": inner})
    assert new_in_s3(outer) == new_in_s3(inner) == [NewObject("zone", "in/a b")]


def test_event_bridge_does_not_encode_keys() -> None:
    detail = {"bucket": {"name": "zone"}, "object": {"key": "in/a+b %20", "etag": "e"}}
    created = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    assert new_in_s3(json.dumps(created)) == [NewObject("zone", "in/a+b %20", "e")]
    deleted = created | {"detail-type": "Object Deleted"}
    assert new_in_s3(json.dumps(deleted)) == []


@pytest.mark.parametrize(
    "kind", ["ObjectCreated:CompleteMultipartUpload", "ObjectCreated:Copy", "ObjectCreated:Post"]
)
def test_an_object_counts_however_it_was_made(kind: str) -> None:
    assert new_in_s3(s3_event(s3_record("a", kind))) == [NewObject("zone", "a")]


def test_only_what_was_created_counts() -> None:
    removed = s3_record("a", "ObjectRemoved:Delete")
    assert new_in_s3(s3_event(removed, s3_record("b"))) == [NewObject("zone", "b")]
    assert new_in_s3(s3_event(removed)) == []
    assert new_in_s3(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})) == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "hello",
        "null",
        "7",
        "[]",
        "{}",
        '{"Records": 3}',
        '{"Records": [{}]}',
        '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}}}]}',
        '{"Type": "Notification", "Message": "hello"}',
        '{"detail-type": "Object Created", "detail": {"bucket": {"name": "b"}, "object": {}}}',
        "[" * 100_000,
    ],
)
def test_an_s3_message_that_makes_no_sense_is_not_understood(body: str) -> None:
    assert new_in_s3(body) is None


@pytest.mark.parametrize("encode", [str, lambda text: base64.b64encode(text.encode()).decode()])
@pytest.mark.parametrize("is_list", [False, True])
def test_azure_events_come_plain_or_as_base64_and_one_or_many(encode: Any, is_list: bool) -> None:
    event = blob_event(f"{ACCOUNT_URL}/zone/in/a%20b%2Bc+d/gr%C3%BC%C3%9Fe", eTag="0x8D")
    body = encode(json.dumps([event] if is_list else event))
    assert new_in_azure(body) == [NewObject("zone", "in/a b+c+d/grüße", "0x8D", "acme")]


def test_cloud_events_name_their_type_otherwise() -> None:
    data = {"url": f"{ACCOUNT_URL}/zone/a"}
    event = {"specversion": "1.0", "type": "Microsoft.Storage.BlobCreated", "data": data}
    assert new_in_azure(json.dumps(event)) == [NewObject("zone", "a", None, "acme")]


@pytest.mark.parametrize("api", ["FlushWithClose", "PutBlob", "PutBlockList", "CopyBlob"])
def test_a_blob_counts_however_it_was_made(api: str) -> None:
    event = blob_event("https://acme.dfs.core.windows.net/zone/a", api=api)
    assert new_in_azure(json.dumps(event)) == [NewObject("zone", "a", None, "acme")]


def test_a_renamed_blob_is_new_where_it_went() -> None:
    data = {"sourceUrl": f"{ACCOUNT_URL}/elsewhere/a", "destinationUrl": f"{ACCOUNT_URL}/zone/b"}
    event = {"eventType": "Microsoft.Storage.BlobRenamed", "data": data}
    assert new_in_azure(json.dumps(event)) == [NewObject("zone", "b", None, "acme")]


def test_deleted_blobs_and_folders_are_nothing_new() -> None:
    deleted = [blob_event(f"{ACCOUNT_URL}/zone/a", "BlobDeleted")]
    assert new_in_azure(json.dumps(deleted)) == []
    assert new_in_azure(json.dumps(blob_event("x", "DirectoryCreated"))) == []


def test_azurite_has_the_account_in_the_path() -> None:
    event = blob_event("http://127.0.0.1:10000/devstoreaccount1/zone/in/a")
    assert new_in_azure(json.dumps(event)) == [NewObject("zone", "in/a", None, "devstoreaccount1")]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "hello",
        "aGVsbG8=",
        "////",
        "[7]",
        "{}",
        '{"eventType": "Microsoft.Storage.BlobCreated"}',
        '{"eventType": "Microsoft.Storage.BlobCreated", "data": {"url": "http://[1/a/b"}}',
        '{"eventType": ["a"]}',
        "[" * 100_000,
    ],
)
def test_an_azure_message_that_makes_no_sense_is_not_understood(body: str) -> None:
    assert new_in_azure(body) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["Records", "eventName", "s3", "bucket", "object", "key", "detail-type",
                         "detail", "Type", "Message", "eventType", "type", "data", "url"]),
        inner | st.sampled_from(["ObjectCreated:Put", "Object Created", "Notification",
                                 "Microsoft.Storage.BlobCreated"]),
        max_size=4,
    ),
)  # fmt: skip


@given(JSON.map(json.dumps) | st.text())
def test_no_message_whatever_can_stop_those_behind_it(body: str) -> None:
    for read in (new_in_s3, new_in_azure):
        assert all(isinstance(new, NewObject) for new in read(body) or [])


@pytest.mark.parametrize(
    ("landing", "key", "path"),
    [
        ("s3://zone/in", "in/a b/ü.json", "s3://zone/in/a b/ü.json"),
        ("s3://zone/in/", "in/a", "s3://zone/in/a"),
        ("s3://zone", "a/b", "s3://zone/a/b"),
        ("s3://zone/", "a", "s3://zone/a"),
        ("s3://zone/in?region=eu-central-1", "in/a", "s3://zone/in/a"),
        ("s3://zone/in", "inside/a", None),
        ("s3://zone/in", "in", None),
        ("s3://zone/in", "other/in/a", None),
        ("s3://zone/in", "in/folder/", None),
        ("s3://elsewhere/in", "in/a", None),
    ],
)
def test_an_object_is_written_as_below_the_landing_path_or_left_out(
    landing: str, key: str, path: str | None
) -> None:
    assert Zone.of_s3(landing).path_of(NewObject("zone", key)) == path


def test_sub_folders_are_left_out_if_so_asked() -> None:
    zone = Zone.of_s3("s3://zone/in", recursive=False)
    assert zone.path_of(NewObject("zone", "in/a")) == "s3://zone/in/a"
    assert zone.path_of(NewObject("zone", "in/b/a")) is None


@pytest.mark.parametrize(
    "landing",
    [
        "abfss://zone@acme.dfs.core.windows.net/in",
        "abfss://acme.blob.core.windows.net/zone/in",
        "abfs://acme@zone/in",
        "abfs://acme@127.0.0.1:10000/zone/in/",
        "az://zone/in",
    ],
)
def test_a_container_is_found_in_every_way_to_write_a_landing_path(landing: str) -> None:
    zone = Zone.of_azure(landing)
    root = landing.rstrip("/")
    assert zone.path_of(NewObject("zone", "in/a", None, "acme")) == f"{root}/a"
    assert zone.path_of(NewObject("zone", "out/a", None, "acme")) is None
    assert zone.path_of(NewObject("other", "in/a", None, "acme")) is None


def test_another_account_is_another_place_unless_the_landing_path_names_none() -> None:
    elsewhere = NewObject("zone", "in/a", None, "other")
    named = Zone.of_azure("abfss://zone@acme.dfs.core.windows.net/in")
    assert named.path_of(elsewhere) is None
    assert Zone.of_azure("az://zone/in").path_of(elsewhere) == "az://zone/in/a"
