"""A PostgreSQL server of a benchmark's own, which keeps what it has committed, as servers do."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

USER = "postgres"
OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # No checkpoint strikes one writer and not another.
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}


@contextmanager
def postgres_server() -> Iterator[tuple[str, int]]:
    """A host and a port, for as long as the block lasts; `USER` may do everything there."""
    with tempfile.TemporaryDirectory(prefix="freshet-bench-", ignore_cleanup_errors=True) as name:
        owner = _owner()
        if owner:
            shutil.chown(name, owner["user"], owner["group"])
        port, data = _free_port(), f"{name}/data"
        made = [_program("initdb"), "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8"]
        subprocess.run([*made, "--locale=C"], cwd=name, check=True, capture_output=True, **owner)
        command = [_program("postgres"), "-D", data, "-p", str(port)]
        command += [part for key, value in OPTIONS.items() for part in ("-c", f"{key}={value}")]
        with (Path(name) / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=name, stdout=log, stderr=log, **owner)
            try:
                _wait_for(port)
                yield "127.0.0.1", port
            finally:
                process.terminate()
                process.wait(timeout=60)


def _program(name: str) -> str:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
    found = shutil.which(name, path=path)
    if found is None:
        raise SystemExit(f"this benchmark needs PostgreSQL, and there is no {name} here")
    return found


def _owner() -> dict[str, Any]:
    """As whom the server runs: it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    groups = {entry.pw_name: entry.pw_gid for entry in pwd.getpwall()}
    user = next(name for name in ("postgres", "nobody") if name in groups)
    return {"user": user, "group": groups[user], "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    """A port that is open is not enough: the server may still be starting."""
    give_up_at = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(f"postgresql://{USER}@127.0.0.1:{port}/postgres").close()
        except psycopg.OperationalError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)
        else:
            return
