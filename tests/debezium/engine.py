"""Debezium's engine as a process that can be killed, and what it has written."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from debezium.jars import debezium_jars, java
from debezium.replay import Event
from freshet.testing import Driver
from postgres_server import DATABASE, USER, Server

_PROGRAM: Final = Path(__file__).with_name("Engine.java")
_PREFIX: Final = "live"
_SEQS_OF_A_START: Final = 1_000_000
_SETTINGS: Final = {
    "name": "live",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": _PREFIX,
    "plugin.name": "pgoutput",
    "snapshot.mode": "initial",
    "publication.autocreate.mode": "filtered",
    "slot.name": "live",
    "slot.drop.on.stop": "false",
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
    "decimal.handling.mode": "string",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "header.converter.schemas.enable": "false",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms": "1000",
    # One file: so many events, or those of so long.
    "max.batch.size": "40",
    "poll.interval.ms": "500",
}


@dataclass
class Engine:
    """Debezium on some tables of a server. Each start goes on where the one before was known to be.

    Guarantee: the whole files of a table hold every event of it, in order, at least once; after a
    kill a file with a hidden name may be left, whose events come again.
    """

    server: Server
    folder: Path
    tables: tuple[str, ...]
    pause_ms: int = 4
    """For every event that is written, so that a file takes a while."""
    _starts: int = 0
    _driver: Driver | None = None

    def start(self) -> None:
        """Starts it anew; does not wait for anything."""
        self._starts += 1
        for table in self.tables:
            self.landing(table).mkdir(parents=True, exist_ok=True)
        settings = _SETTINGS | {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": "trusted",
            "database.dbname": DATABASE,
            "table.include.list": ",".join(f"public.{table}" for table in self.tables),
            "offset.storage.file.filename": str(self.folder / "offsets.dat"),
            "landing.path": str(self.folder / "landing"),
            "landing.pause.ms": str(self.pause_ms),
            "landing.first.seq": str(self._starts * _SEQS_OF_A_START),
        }
        file = self.folder / "engine.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ["-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp"]
        options += [f"{debezium_jars()}/*", str(_PROGRAM), str(file)]
        self._driver = Driver.start(self.folder, java(), *options)

    def landing(self, table: str) -> Path:
        """Where the files of a table land."""
        return self.folder / "landing" / f"{_PREFIX}.public.{table}"

    def killed_mid_file(self) -> bool:
        """Kills it if it is in the middle of writing a file, and says whether it was."""
        assert self._driver is not None
        self._signal(signal.SIGSTOP)
        if any(next(events_of(self.half_written(table)), None) for table in self.tables):
            self._driver.kill()
            return True
        self._signal(signal.SIGCONT)
        return False

    def half_written(self, table: str) -> list[Path]:
        """Files of a table that have no name yet."""
        return sorted(self.landing(table).glob(".*.jsonl"))

    def end(self) -> None:
        """Ends it, however far it is."""
        if self._driver is not None:
            self._driver.end()

    def check(self) -> None:
        """Raises if it has ended by itself."""
        assert self._driver is not None
        if not self._driver.is_alive:
            raise RuntimeError((self.folder / "output.log").read_text()[-4_000:])

    def _signal(self, number: int) -> None:
        self.check()
        assert self._driver is not None
        os.kill(self._driver.process.pid, number)


def whole_files(landing: Path) -> list[Path]:
    """The files of a table that have their names, in the order of writing."""
    return sorted(landing.glob("[0-9]*.jsonl"))


def events_of(files: list[Path]) -> Iterator[Event]:
    """All events of some files; what is cut off at a file's end is left out."""
    for file in files:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        yield from map(json.loads, lines)
