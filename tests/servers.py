"""Stand-ins for AWS and Azure: real servers in processes of their own, on this machine only.

Event Grid, which fills Azure's queues, does not run locally: tests put its messages in by hand.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

AZURITE = "azurite@3.35.0"
AZURITE_ACCOUNT = "devstoreaccount1"
# The same in every Azurite, and in Microsoft's documents: no secret.
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_START_S = 60
_INSTALL_S = 200


@contextmanager
def moto_server() -> Iterator[str]:
    """AWS, by the URL of its endpoint; empty at first, and gone at the end."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, port):
        yield f"http://127.0.0.1:{port}"


def counting_s3_server() -> AbstractContextManager[Any]:
    """S3 that counts its requests, as the benchmarks use it; see `benchmarks/s3_server.py`."""
    place = Path(__file__).parents[1] / "benchmarks" / "s3_server.py"
    spec = spec_from_file_location("s3_server", place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["s3_server"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    server: AbstractContextManager[Any] = module.s3_server()
    return server


def azurite_queue() -> AbstractContextManager[str]:
    """Azure's queues, by the URL of their endpoint; skips the test where there is no Node.js."""
    return _azurite("queue")


def azurite_blob() -> AbstractContextManager[str]:
    """Azure's blobs, by the URL of their endpoint; skips the test where there is no Node.js."""
    return _azurite("blob")


def connection_string(*, queue: str | None = None, blob: str | None = None) -> str:
    """What AZURE_STORAGE_CONNECTION_STRING must be to get to these endpoints."""
    ends = {"QueueEndpoint": queue, "BlobEndpoint": blob}
    fields = {
        "DefaultEndpointsProtocol": "http",
        "AccountName": AZURITE_ACCOUNT,
        "AccountKey": AZURITE_KEY,
        **{name: f"{url}/{AZURITE_ACCOUNT}" for name, url in ends.items() if url},
    }
    return ";".join(f"{name}={value}" for name, value in fields.items())


@contextmanager
def _azurite(service: str) -> Iterator[str]:
    main = _azurite_folder() / f"node_modules/azurite/dist/src/{service}/main.js"
    port = free_port()
    options = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    with _running(["node", str(main), f"--{service}Port", str(port), *options], port):
        yield f"http://127.0.0.1:{port}"


def _azurite_folder() -> Path:
    """Azurite from npm, installed once for all; skips the test where that cannot be had."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        pytest.skip("Azurite needs Node.js, and there is no npm or no node here")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet"
    folder = cache / AZURITE.replace("@", "-")
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as scratch:
            _install([npm, "install", "--no-audit", "--no-fund", "--prefix", scratch, AZURITE])
            if not folder.exists():  # or another run was faster
                Path(scratch).rename(folder)
    return folder


def _install(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_INSTALL_S)
    except subprocess.SubprocessError as error:
        pytest.skip(f"{AZURITE} could not be downloaded: {error}")


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            if not answers(process, port):
                log.seek(0)
                raise RuntimeError(f"{command[:3]} does not answer: {log.read()[-2_000:]}")
            yield
        finally:
            end(process)


def answers(process: subprocess.Popen[bytes], port: int) -> bool:
    give_up_at = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < give_up_at:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
