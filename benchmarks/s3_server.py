"""An S3 server that counts requests and takes its time: moto, with a delay before each answer.

It runs in a process of its own, so that it outlives whoever writes to it. `GET /_requests` tells
the requests since it started: a JSON array of `[kind, bucket, key, number]`; `PUT /_delay?ms=30`
sets the delay. Kinds are those that a bill tells apart: LIST, GET, HEAD, PUT, COPY, DELETE, PART
and UPLOAD (the parts of a large object, and its begin and end).

    python benchmarks/s3_server.py --port 9000 --delay-ms 30
"""

import argparse
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, quote
from urllib.request import Request, urlopen

REQUESTS, DELAY = "/_requests", "/_delay"
START_S = 60
ACCESS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Asked:
    """So many requests of a kind, for one key; of a listing, the prefix that it is of."""

    kind: str
    bucket: str
    key: str
    number: int


class Counting:
    """A WSGI application around another one: counts, waits, and passes on."""

    def __init__(self, application: Any, delay_s: float) -> None:
        self._application = application
        self._delay_s = delay_s
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """One request."""
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        if path == DELAY:
            self._delay_s = float(parse_qs(query)["ms"][0]) / 1_000
        if path in {DELAY, REQUESTS}:
            start_response("200 OK", [("Content-Type", "application/json")])
            with self._lock:
                return [json.dumps([[*what, n] for what, n in self._counts.items()]).encode()]
        _, bucket, *rest = path.split("/", 2)
        asked = parse_qs(query, keep_blank_values=True)
        key = rest[0] if rest and rest[0] else asked.get("prefix", [""])[0]
        with self._lock:
            self._counts[_kind(environ, bool(rest and rest[0]), asked), bucket, key] += 1
        time.sleep(self._delay_s)
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer


def _kind(environ: dict[str, Any], has_key: bool, asked: dict[str, list[str]]) -> str:
    method = environ["REQUEST_METHOD"]
    if "uploadId" in asked or "uploads" in asked:
        return "PART" if method == "PUT" else "UPLOAD"
    if method == "POST" and "delete" in asked:
        return "DELETE"
    if method == "GET" and not has_key:
        return "LIST"
    return "COPY" if "HTTP_X_AMZ_COPY_SOURCE" in environ else str(method)


@dataclass(frozen=True)
class Server:
    """A running server, by the URL of its endpoint."""

    url: str

    @property
    def access(self) -> dict[str, str]:
        """The environment that leads to it."""
        return {**ACCESS, "AWS_ENDPOINT_URL": self.url}

    def asked(self) -> list[Asked]:
        """All requests since it started."""
        with urlopen(self.url + REQUESTS) as answer:  # noqa: S310
            return [Asked(*entry) for entry in json.load(answer)]

    def delay(self, ms: float) -> None:
        """How long it takes to answer, from now on."""
        self._put(f"{DELAY}?ms={ms}")

    def make_bucket(self, name: str) -> None:
        """A bucket, empty at first."""
        self._put(f"/{name}")

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """An object."""
        self._put(f"/{bucket}/{quote(key)}", data)

    def _put(self, path: str, data: bytes = b"") -> None:
        # Else the data would be taken for a form.
        kind = {"Content-Type": "application/octet-stream"}
        urlopen(Request(self.url + path, data, kind, method="PUT")).close()  # noqa: S310


@contextmanager
def s3_server(delay_ms: float = 0) -> Iterator[Server]:
    """A server in a process of its own, for as long as the block lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, "--port", str(port), "--delay-ms", str(delay_ms)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(process, port)
        yield Server(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    give_up_at = time.monotonic() + START_S
    while time.monotonic() < give_up_at and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the S3 server does not answer")


def main() -> None:
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import run_simple  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--delay-ms", type=float, default=0)
    options = parser.parse_args()
    application = Counting(
        DomainDispatcherApplication(create_backend_app), options.delay_ms / 1_000
    )
    run_simple(
        "127.0.0.1", options.port, application, threaded=True, request_handler=MotoRequestHandler
    )


if __name__ == "__main__":
    main()
