"""Where tables and checkpoints of a run lie: on a disk, or on an S3 server that takes its time.

The server runs on this machine, in a process of its own, and counts what it is asked
(`s3_server`). So requests of a batch can be told exactly, and its time as if the store were as far
away as the delay says; the server's own work takes some of the machine's cores, as a store would
not.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from s3_server import Server, s3_server

BUCKET = "bench"
DISK = "local disk"
KINDS = ("LIST", "GET", "HEAD", "PUT", "COPY", "DELETE")
"""Of requests, as a bill tells them apart; the parts of a large object count as PUT."""
Requests = Counter[str]


@dataclass(frozen=True)
class Store:
    """A folder or a URI, with a folder below it for every rival."""

    root: str
    server: Server | None = None
    delay_ms: float = 0.0

    @property
    def told(self) -> str:
        """As a page says it."""
        if self.server is None:
            return DISK
        return f"S3 on the same machine, {self.delay_ms:g} ms before every answer"

    def place(self, name: str) -> str:
        """The folder of a name."""
        return f"{self.root}/{name}"

    def below(self, name: str) -> "Store":
        """A folder of a name, as a store."""
        return Store(self.place(name), self.server, self.delay_ms)

    def clear(self, name: str = "") -> None:
        """Removes a folder from a disk; a server is gone after the run, with all that it has."""
        if self.server is None:
            shutil.rmtree(self.place(name), ignore_errors=True)

    def asked(self) -> Requests:
        """Requests so far, by kind; none are counted on a disk."""
        counts: Requests = Counter()
        for one in self.server.asked() if self.server is not None else ():
            counts["PUT" if one.kind in {"PART", "UPLOAD"} else one.kind] += one.number
        return counts


@contextmanager
def store(folder: Path, delay_ms: float | None) -> Iterator[Store]:
    """A folder of the disk, or a server with a delay, for as long as the block lasts."""
    if delay_ms is None:
        yield Store(str(folder))
        return
    with s3_server() as server:
        os.environ.update(server.access)
        server.make_bucket(BUCKET)
        server.delay(delay_ms)
        yield Store(f"s3://{BUCKET}", server, delay_ms)
