"""A PostgreSQL server of the test's own, and sessions with it through psql."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pytest

from servers import answers, end, free_port

DATABASE: Final = "postgres"
USER: Final = "postgres"
_OPTIONS: Final = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
}
_DONE: Final = "-- done --"


@dataclass
class Server:
    """A running server, empty at first; anybody on this machine may do anything with it."""

    port: int
    psql: str
    start: Callable[[], subprocess.Popen[bytes]]
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """What a client connects to."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def session(self) -> "Session":
        """A connection of its own."""
        return Session(self)

    def run(self, sql: str) -> list[str]:
        """What statements answer, in a session of their own."""
        with self.session() as session:
            return session.run(sql)

    def kill(self) -> None:
        """As when the power fails: no connection is closed, nothing is written to the disk."""
        server = self.process.pid
        os.kill(server, signal.SIGSTOP)  # so that it starts nobody meanwhile
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for process in (server, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait(timeout=30)
        # They share memory, which a new server waits for in vain.
        give_up_at = time.monotonic() + 30
        while any(Path(f"/proc/{child}").exists() for child in children):
            assert time.monotonic() < give_up_at, "a process of PostgreSQL does not end"
            time.sleep(0.02)

    def restart(self) -> None:
        """After a kill: with the data that it had."""
        self.process = self.start()


class Session:
    """One connection: transactions that are left open stay open."""

    def __init__(self, server: Server) -> None:
        command = [server.psql, "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]
        command += ["-p", str(server.port), "-U", USER, DATABASE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._psql: subprocess.Popen[str] = subprocess.Popen(
            command, text=True, encoding="utf-8", **pipes
        )

    def run(self, sql: str) -> list[str]:
        """What the statements answer, line by line; raises if one fails."""
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        self._psql.stdin.write(f"{sql};\n\\echo {_DONE}\n")
        self._psql.stdin.flush()
        lines: list[str] = []
        while (line := self._psql.stdout.readline()) != f"{_DONE}\n":
            lines.append(line.removesuffix("\n"))
            if not line:
                raise RuntimeError(f"psql has ended at {sql[:200]}: {lines}")
        return lines

    def close(self) -> None:
        """Ends the connection."""
        self._psql.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def postgres_server(password: str | None = None) -> Iterator[Server]:
    """A server for as long as the test lasts; skips the test where there is no PostgreSQL.

    With a password it lets nobody in without; psql finds that in `PGPASSWORD`.
    """
    programs, port = _programs(), free_port()
    with tempfile.TemporaryDirectory(
        prefix="freshet-postgres-", ignore_cleanup_errors=True
    ) as name:
        owner = _owner()
        if owner:
            shutil.chown(name, owner["user"], owner["group"])
        data = f"{name}/data"
        made = [programs["initdb"], "-D", data, "-U", USER, "-E", "UTF8"]
        made += ["--locale=C", "--no-sync", "-A", "trust" if password is None else "scram-sha-256"]
        if password is not None:
            (Path(name) / "password").write_text(f"{password}\n")
            made += ["--pwfile", "password"]
        subprocess.run(made, cwd=name, check=True, capture_output=True, **owner)
        command = [programs["postgres"], "-D", data, "-p", str(port)]
        command += [part for key, value in _OPTIONS.items() for part in ("-c", f"{key}={value}")]
        with (Path(name) / "log").open("w+") as log:

            def start() -> subprocess.Popen[bytes]:
                process = subprocess.Popen(command, cwd=name, stdout=log, stderr=log, **owner)
                if not answers(process, port):
                    end(process)
                    log.seek(0)
                    raise RuntimeError(f"PostgreSQL does not answer: {log.read()[-2_000:]}")
                return process

            server = Server(port, programs["psql"], start, start())
            try:
                yield server
            finally:
                end(server.process)


def _programs() -> dict[str, str]:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
    found = {name: shutil.which(name, path=path) for name in ("initdb", "postgres", "psql")}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        pytest.skip(f"there is no PostgreSQL here: no {', '.join(missing)}")
    return {name: str(place) for name, place in found.items()}


def _owner() -> dict[str, Any]:
    """As whom the server runs: it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry.pw_gid for entry in pwd.getpwall()}
    user = next((name for name in ("postgres", "nobody") if name in names), None)
    if user is None:
        pytest.skip("PostgreSQL refuses to run as root, and there is no other user here")
    return {"user": user, "group": names[user], "extra_groups": []}
