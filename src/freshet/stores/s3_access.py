"""The way to S3, told once in the variables that Amazon's own tools read, and handed to all others.

`AWS_ENDPOINT_URL`, `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`; without keys, the profiles and roles of the machine
count. Lance, delta-rs and Arrow read them by themselves. Spark is told all but the keys, which it
looks for itself: what it is told can be read in a list of processes.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

SCHEMES: Final = ("s3", "s3a")
_ALLOW_HTTP: Final = "AWS_ALLOW_HTTP"
_NO_SECRETS: Final = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", _ALLOW_HTTP)
_AMAZONS_CHAIN: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_GIVEN_KEYS: Final = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
)


def is_on_s3(uri: str) -> bool:
    """Whether an address is one of S3."""
    return urlsplit(uri).scheme in SCHEMES


@dataclass(frozen=True)
class S3Access:
    """Where S3 is and who asks; nothing of it means Amazon's own, and whom the machine is."""

    endpoint: str | None = None
    region: str | None = None
    variables: Mapping[str, str] | None = None
    """What Python on other machines needs in its environment, too; keys it must find there."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """As some environment tells it."""
        told = {name: environment[name] for name in _NO_SECRETS if environment.get(name)}
        region = told.get("AWS_REGION") or told.get("AWS_DEFAULT_REGION")
        access = cls(told.get("AWS_ENDPOINT_URL"), region)
        if access.is_plain_http:
            told.setdefault(_ALLOW_HTTP, "true")
        return cls(access.endpoint, region, told)

    @property
    def is_plain_http(self) -> bool:
        """Whether the endpoint itself says that nothing is encrypted on the way."""
        return (self.endpoint or "").startswith("http://")

    def spark_conf(self) -> dict[str, str]:
        """What makes Spark read and write `s3://…`, and safely."""
        conf = {
            # S3A with an atomic create; Delta's log and the checkpoints need it.
            "spark.hadoop.fs.s3.impl": "freshet.ConditionalS3A",
            "spark.hadoop.fs.s3a.impl": "freshet.ConditionalS3A",
            # Puts a commit if there is none, without a look before: that is what GCS can do, too.
            "spark.delta.logStore.s3.impl": "io.delta.storage.GCSLogStore",
            "spark.delta.logStore.s3a.impl": "io.delta.storage.GCSLogStore",
            # Puts a file of a checkpoint once, instead of a copy under another name.
            "spark.sql.streaming.checkpointFileManagerClass": "freshet.S3Checkpoints",
            "spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(
                (*_GIVEN_KEYS, _AMAZONS_CHAIN)
            ),
            # Both would need a further library.
            "spark.hadoop.fs.s3a.input.stream.type": "classic",
            "spark.hadoop.fs.s3a.audit.enabled": "false",
        }
        if self.region is not None:
            conf["spark.hadoop.fs.s3a.endpoint.region"] = self.region
        if self.endpoint is not None:
            conf |= {
                "spark.hadoop.fs.s3a.endpoint": self.endpoint,
                "spark.hadoop.fs.s3a.path.style.access": "true",
                "spark.hadoop.fs.s3a.connection.ssl.enabled": str(not self.is_plain_http).lower(),
            }
        for name, value in (self.variables or {}).items():
            conf[f"spark.executorEnv.{name}"] = value
        return conf


def let_in(uris: Iterable[str]) -> None:
    """Adds to this process's environment what Lance and delta-rs lack there to get to S3.

    They go to a server without encryption only if they are told so. An endpoint of `http://…` says
    as much.
    """
    if any(is_on_s3(uri) for uri in uris) and S3Access.of(os.environ).is_plain_http:
        os.environ.setdefault(_ALLOW_HTTP, "true")
