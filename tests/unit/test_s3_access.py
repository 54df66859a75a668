"""How S3 is reached: what is told to whom, and what is never told."""

import os

import pytest

from freshet.errors import SetupError, StoreError
from freshet.stores import delta_jars, s3_access, s3_jars
from freshet.stores.s3_access import S3Access

AMAZON = {
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "the id",
    "AWS_SECRET_ACCESS_KEY": "the secret",
    "AWS_SESSION_TOKEN": "the token",
}


def test_spark_is_never_told_a_key() -> None:
    conf = S3Access.of(AMAZON).spark_conf()
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"
    assert not {"the id", "the secret", "the token"} & set(conf.values())


def test_of_amazon_itself_no_endpoint_is_told_and_nothing_goes_unencrypted() -> None:
    conf = S3Access.of(AMAZON).spark_conf()
    assert "spark.hadoop.fs.s3a.endpoint" not in conf
    assert "spark.executorEnv.AWS_ALLOW_HTTP" not in conf
    assert "spark.hadoop.fs.s3a.connection.ssl.enabled" not in conf


@pytest.mark.parametrize(("endpoint", "is_plain"), [("http://a:1", True), ("https://a:1", False)])
def test_only_an_endpoint_that_says_http_is_asked_without_encryption(
    endpoint: str, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    access = S3Access.of(os.environ)
    assert access.is_plain_http is is_plain
    conf = access.spark_conf()
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == str(not is_plain).lower()
    s3_access.let_in(["/a/local/home"])
    assert "AWS_ALLOW_HTTP" not in os.environ
    s3_access.let_in(["s3://bucket/home"])
    assert ("AWS_ALLOW_HTTP" in os.environ) is is_plain


def test_jars_that_cannot_be_had_are_named_in_one_sentence(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"hadoop-aws 3\.5\.0 and parts of AWS SDK 2\.35\.4"):
        s3_jars.s3_jars("/bin/false")
    assert not list(delta_jars.cache_folder().glob("*.jar"))


@pytest.mark.parametrize(
    "said",
    [
        "LanceError(IO): Failed to get AWS credentials: NotLoaded, /home/x/aws.rs:607:30",
        "Generic S3 error\n   \x1b[31m↳\x1b[0m Error performing PUT http://here/latest/api/token\n",
    ],
)
def test_that_there_are_no_keys_is_told_in_one_sentence(said: str) -> None:
    error = StoreError("open", "s3://bucket/home", OSError(said))
    assert str(error).startswith("could not open s3://bucket/home: no keys for S3 were found; set")
    assert "\n" not in str(error)


def test_of_a_chain_of_causes_all_are_told_in_one_line() -> None:
    said = (
        "Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing GET\n   \x1b[31m↳\x1b[0m 503 Busy\n"
    )
    error = StoreError("read", "s3://bucket/home", OSError(said))
    assert error.reason == "Generic S3 error: Error performing GET: 503 Busy"
