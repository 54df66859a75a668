"""What the demo shows, step by step. It says everything to a screen and prints nothing itself."""

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from freshet.demo.corpus import Document, collect
from freshet.demo.feed import Feed
from freshet.errors import FreshetError, SettingsError
from freshet.pipeline import Pipeline
from freshet.search import Hit
from freshet.settings import load
from freshet.sink import BatchReport
from freshet.stores.lance_tables import LanceTable

QUESTION: Final = "remove the rows that have missing values"
_REWRITTEN: Final = "Removes the rows that have missing values, and tells how many there were."
_MARKER: Final = ".freshet-demo"
_ROUNDS: Final = 4
_PATIENCE_S: Final = 120
_SETTINGS: Final = """\
[pipeline]
name = "docs"
home = "./home"
trigger = "1 second"
max_rows_per_batch = 1200

[landing]
path = "./landing"

[changes]
envelope = "plain"
key = ["id"]
version = "record_version"
deleted = "is_deleted"

[gold]
text = ["title", "body"]
attributes = ["package", "stars:long"]

[embedding]
provider = "minilm"
"""


class Screen(Protocol):
    """Where the story is shown."""

    def chapter(self, title: str) -> None:
        """Begins a part."""

    def line(self, text: str) -> None:
        """Says something."""

    def hits(self, hits: Sequence[Hit]) -> None:
        """Shows search results."""

    def batches(self, rows: Sequence[dict[str, Any]]) -> None:
        """Shows ledger rows."""

    def batch(self, report: BatchReport) -> None:
        """Shows a batch the moment it is committed."""

    def progress(self, text: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """A progress bar; call what it gives with the number done."""
        ...

    def verdict(self, verdict: Any) -> None:
        """Shows the verdict of verify."""


def tell(folder: Path, screen: Screen, *, records: int) -> bool:
    """Runs the demo in a folder, afresh; whether the index equals the source in the end."""
    _start_afresh(folder)
    screen.chapter("Real text: the documentation inside the Python packages of this machine")
    documents = collect(records)
    packages = len({document.package for document in documents})
    screen.line(f"{len(documents):,} functions and classes of {packages} packages")
    with Story(folder, screen, documents) as story:
        story.load()
        story.update_and_delete()
        story.live_traffic()
    return story.prove()


def _start_afresh(folder: Path) -> None:
    """Empties a folder that an earlier demo made, and no other."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARKER).exists():
        raise SettingsError(
            f"{folder} is not empty and not of an earlier demo: name another folder"
        )
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "landing").mkdir(parents=True)
    (folder / _MARKER).touch()
    (folder / "freshet.toml").write_text(_SETTINGS, encoding="utf-8")


class Story:
    """The running pipeline beside the tool that feeds it."""

    def __init__(self, folder: Path, screen: Screen, documents: list[Document]) -> None:
        self._screen = screen
        self._documents = documents
        self._feed = Feed(folder / "landing")
        self._pipeline = Pipeline(load(folder / "freshet.toml"), on_batch=self._on_batch)
        self._searcher = self._pipeline.searcher()
        self._reports: list[BatchReport] = []
        self._shows_batches = False
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pipeline")

    def __enter__(self) -> "Story":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._pipeline.run(stop=self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again where the story waits
            self._failure = error

    def _on_batch(self, report: BatchReport) -> None:
        self._reports.append(report)
        if self._shows_batches:
            self._screen.batch(report)

    # --- the chapters ----------------------------------------------------------------------------

    def load(self) -> None:
        """The first load, watched until every record can be found."""
        total = len(self._documents)
        self._screen.chapter("First load: change files land, records become searchable")
        self._feed.load(self._documents, files=12)
        started = time.perf_counter()
        self._thread.start()
        with self._screen.progress("searchable", total) as advance:
            self._wait(lambda: self._searchable(advance) >= total)
        embed_s = sum(report.embed_s for report in self._reports)
        took_s = time.perf_counter() - started
        self._screen.line(
            f"{total:,} records after {took_s:.0f} s, Spark's start included; "
            f"the model ran for {embed_s:.0f} s: {total / embed_s:,.0f} texts/s on the executors"
        )

    def update_and_delete(self) -> None:
        """One record whose fate shows in the answers."""
        self._screen.chapter(f"Search: {QUESTION!r}")
        found = self._search()
        self._screen.hits(found)
        chosen = self._unrelated({hit.key for hit in found})
        self._screen.chapter(f"Update: the text of {chosen.id} changes at the source")
        new = chosen.changed(body=_REWRITTEN)
        took = self._until(lambda: self._feed.send([new]), lambda: self._search()[0].key == new.id)
        self._screen.line(f"first in the answers {took:.1f} s after its file landed")
        self._screen.hits(self._search())
        self._screen.chapter(f"Delete: {chosen.id} is deleted at the source")
        gone = new.changed(is_deleted=True)
        took = self._until(lambda: self._feed.send([gone]), lambda: not self._finds(gone.id))
        self._screen.line(f"out of the answers {took:.1f} s after the delete landed")
        self._until(
            lambda: self._feed.redeliver([chosen, new]),
            lambda: self._reports[-1].counts.rows_stale > 0,
        )
        again = "it is back!" if self._finds(gone.id) else "it stays deleted"
        self._screen.line(f"its older versions are delivered once more: {again}")
        self._screen.hits(self._search())

    def live_traffic(self) -> None:
        """Rounds of mixed changes while the pipeline runs."""
        self._screen.chapter("Live: updates, deletes and re-deliveries, while the pipeline runs")
        self._screen.line(
            f"{_ROUNDS} rounds of 160 changed attributes, 40 changed texts, 20 deletes and "
            "80 old events again"
        )
        self._shows_batches = True
        for _ in range(_ROUNDS):
            all_taken = self._taken_since(len(self._reports), events=300)
            self._feed.traffic(attributes=160, texts=40, deletes=20, again=80)
            self._wait(all_taken)

    def prove(self) -> bool:
        """The figures, a recount, and verify."""
        self._screen.chapter("What every batch took")
        rows = self._pipeline.ledger()
        self._screen.batches(rows)
        later = [row["total_s"] for row in rows[len(rows) // 2 :]]
        self._screen.line(
            f"{sum(row['rows_embedded'] for row in rows):,} texts embedded, "
            f"{sum(row['rows_reused'] for row in rows):,} vectors reused, "
            f"{sum(row['rows_stale'] for row in rows):,} stale events dropped; "
            f"median batch of the second half {statistics.median(later):.2f} s"
        )
        self._screen.chapter("Proof: the index equals the source")
        is_equal = self._equals_source()
        self._screen.line(
            "the feed's own list of living records and the index are "
            + ("the same, record by record" if is_equal else "NOT THE SAME")
        )
        verdict = self._pipeline.verify()
        self._screen.verdict(verdict)
        return is_equal and verdict.ok

    # --- what the chapters need ------------------------------------------------------------------

    def _search(self) -> list[Hit]:
        return self._searcher.search(QUESTION, k=3)

    def _finds(self, key: str) -> bool:
        return any(hit.key == key for hit in self._search())

    def _unrelated(self, found: set[str]) -> Document:
        return next(
            doc for doc in self._documents if doc.package == "python" and doc.id not in found
        )

    def _searchable(self, advance: Callable[[int], None]) -> int:
        count = sum(report.counts.rows_upserted for report in self._reports)
        advance(count)
        return count

    def _taken_since(self, seen: int, events: int) -> Callable[[], bool]:
        return lambda: sum(report.counts.rows_in for report in self._reports[seen:]) >= events

    def _until(self, act: Callable[[], None], is_done: Callable[[], bool]) -> float:
        started = time.perf_counter()
        act()
        self._wait(is_done)
        return time.perf_counter() - started

    def _wait(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_done():
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise FreshetError(f"nothing happened for {_PATIENCE_S} s; see home/logs/spark.log")
            time.sleep(0.05)

    def _equals_source(self) -> bool:
        table = LanceTable.open(self._pipeline.home.index)
        found = {
            row["key"]: (row["text"], row["stars"])
            for batch in table.read(["key", "text", "stars"], table.fragment_ids)
            for row in batch.to_pylist()
        }
        wanted = {
            doc.id: (f"{doc.title}\n{doc.body}", doc.stars) for doc in self._feed.alive.values()
        }
        return found == wanted
