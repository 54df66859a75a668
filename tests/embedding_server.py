"""A model server for tests: the fake provider behind OpenAI's interface, with scripted troubles."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from freshet.embedding.fake import FakeProvider

MODEL = "words"
DIMENSION = FakeProvider.dimension
POISON = "unspeakable"
"""A request with a text that holds this word is refused."""
HANGS_S = 3.0
"""How long a request that hangs is left without an answer."""


class EmbeddingServer(ThreadingHTTPServer):
    """Answers requests; each trouble of the list spoils one request, in order."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.troubles: list[str] = []
        self.answered: list[str] = []
        self.requests = 0
        self.keys: set[str | None] = set()
        self.used_tokens: int | None = None
        """What each answer says that it used."""
        self.refused_word: str | None = POISON
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def settings(self) -> dict[str, Any]:
        """The section `[embedding]` that names it."""
        named = {"provider": "openai", "model": MODEL, "dimension": DIMENSION}
        return named | {"url": self.url, "api_key_env": ""}

    def refuses(self, texts: list[str]) -> bool:
        return self.refused_word is not None and any(self.refused_word in one for one in texts)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that went away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.requests += 1
            self.server.keys.add(self.headers.get("authorization"))
            trouble = self.server.troubles.pop(0) if self.server.troubles else None
        if trouble == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif trouble == "hang":
            self.server.released.wait(HANGS_S)
            self.close_connection = True
        elif trouble == "garbage":
            self._answer(200, {"data": "none"})
        elif trouble == "nan":
            self._answer(200, {"data": [{"index": 0, "embedding": [float("nan")] * DIMENSION}]})
        elif trouble is not None:
            self._answer(int(trouble), {"error": "as the test wants it"})
        elif self.server.refuses(wanted["input"]):
            self._answer(400, {"error": "an input cannot be embedded"})
        else:
            self._embed(wanted)

    def _embed(self, wanted: dict[str, Any]) -> None:
        assert wanted["model"] == MODEL
        vectors = FakeProvider().embed(wanted["input"])
        with self.server.lock:
            self.server.answered += wanted["input"]
        # In another order than asked: `index` tells.
        data = [
            {"index": place, "embedding": vector.tolist()} for place, vector in enumerate(vectors)
        ]
        used = self.server.used_tokens
        usage = {} if used is None else {"usage": {"total_tokens": used}}
        self._answer(200, {"data": data[::-1]} | usage)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(sent)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *args: Any) -> None:
        """Tests are quiet."""


@contextmanager
def serving(port: int = 0) -> Iterator[EmbeddingServer]:
    """A server that runs until the end of the block."""
    server = EmbeddingServer(port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        for connection in server.connections:
            # Clients keep their connections open.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()
