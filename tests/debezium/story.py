"""What happens in the live test: a database at work, its engine killed in the middle of a file."""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from debezium.engine import Engine, events_of, whole_files
from debezium.replay import Event, Row, key_text
from debezium.workload import MARK_ID, TABLES, Workload
from postgres_server import Session

KEYS: Final = {"articles": ("id",), "translations": ("article_id", "lang")}
_SELECTS: Final = {
    "articles": "select id, title, body, tags, price::text, to_char(published at time zone 'UTC', "
    """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') published from articles""",
    "translations": "select * from translations",
}
_LATE_FOR: Final = 10
"""Short transactions that commit while a long one is open."""


@dataclass(frozen=True)
class Story:
    """What the engine wrote, and what the tables held in the end."""

    seed: int
    landings: dict[str, Path]
    """Of each table: the folder of its files."""
    whole_at_kill: dict[str, list[Path]]
    half_at_kill: dict[str, list[Event]]
    """Events of files that had no name yet."""
    final: dict[str, dict[str, Row]]
    """Of each table: key → row."""

    def events(self, table: str) -> list[Event]:
        """All that landed, some of it twice."""
        return list(events_of(whole_files(self.landings[table])))

    def later_files(self, table: str) -> list[Path]:
        """What the engine wrote after its restart."""
        before = set(self.whole_at_kill[table])
        return [file for file in whole_files(self.landings[table]) if file not in before]


@dataclass
class Source:
    """The database with its users: short transactions, and long ones that commit late."""

    session: Session
    late: Session
    seed: int

    def __post_init__(self) -> None:
        self.chooser = random.Random(self.seed)
        self.workload = Workload(self.chooser)

    def work(self, transactions: int, *, pause_s: float = 0.02) -> Iterator[int]:
        """Runs them one by one, and gives the caller a turn after each."""
        for number, sql in enumerate(self.workload.transactions(transactions)):
            if number % _LATE_FOR == 0:
                self.late.run(f"begin; {self.workload.late()}")
            self.session.run(sql)
            if number % _LATE_FOR == _LATE_FOR - 1:
                self.late.run("commit")
            time.sleep(self.chooser.uniform(0, pause_s))
            yield number

    def rows(self, table: str) -> dict[str, Row]:
        """What a table holds: key → row."""
        lines = self.session.run(f"select row_to_json(t) from ({_SELECTS[table]}) t")
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return {key_text({name: row[name] for name in KEYS[table]}): row for row in rows}


def live(engine: Engine, source: Source) -> Story:
    """Work before the engine starts, while it runs, while it is dead, and after its restart."""
    landings = {table: engine.landing(table) for table in KEYS}
    source.session.run(TABLES)
    for _ in source.work(60, pause_s=0):
        pass
    _start(engine, source)
    _work_and_kill(engine, source)
    whole_at_kill = {table: whole_files(landing) for table, landing in landings.items()}
    half_at_kill = {table: list(events_of(engine.half_written(table))) for table in KEYS}
    _start(engine, source)
    for _ in source.work(90):
        engine.check()
    source.session.run(source.workload.last())
    _wait_until(engine, lambda: all(map(_has_mark, landings.values())))
    engine.end()
    final = {table: source.rows(table) for table in KEYS}
    return Story(source.seed, landings, whole_at_kill, half_at_kill, final)


def _start(engine: Engine, source: Source) -> None:
    """Work goes on meanwhile; ends when the engine has written something."""
    before = _count(engine)
    engine.start()
    for _ in source.work(30, pause_s=0.2):
        engine.check()
    _wait_until(engine, lambda: _count(engine) > before)


def _count(engine: Engine) -> int:
    return sum(len(whole_files(engine.landing(table))) for table in KEYS)


def _work_and_kill(engine: Engine, source: Source) -> None:
    kill_from, is_dead = source.chooser.randint(80, 140), False
    for number in source.work(200, pause_s=0.06):
        if not is_dead and number >= kill_from:
            is_dead = engine.killed_mid_file()
    assert is_dead, "the engine was never in the middle of a file"


def _has_mark(landing: Path) -> bool:
    return any(str(MARK_ID) in file.read_text() for file in whole_files(landing)[-1:])


def _wait_until(engine: Engine, is_done: Callable[[], bool], patience_s: float = 120) -> None:
    deadline = time.monotonic() + patience_s
    while not is_done():
        engine.check()
        assert time.monotonic() < deadline, "the events did not come"
        time.sleep(0.1)
