"""Plays the replication tool: drops change files in a landing zone, and remembers the truth."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from freshet.demo.corpus import Document


class Feed:
    """Writes change files, each complete from the moment it is visible.

    `alive` is what a reader of the source would see now: what the index must equal in the end.
    """

    def __init__(self, folder: Path, seed: int = 7) -> None:
        self._folder = folder
        self._random = random.Random(seed)  # noqa: S311 - a demo, not a secret
        self._files = 0
        self._history: list[Document] = []
        self.alive: dict[str, Document] = {}

    def load(self, documents: Sequence[Document], files: int) -> None:
        """The first load, spread over several files."""
        for part in range(files):
            self.send(documents[part::files])

    def send(self, documents: Iterable[Document]) -> None:
        """New versions of documents, in one file."""
        sent = list(documents)
        self._drop(sent)
        self._history += sent
        for document in sent:
            if document.is_deleted:
                self.alive.pop(document.id, None)
            else:
                self.alive[document.id] = document

    def redeliver(self, documents: Sequence[Document]) -> None:
        """Events that were sent before, as a tool does after a crash of its own."""
        self._drop(documents)

    def traffic(self, *, attributes: int, texts: int, deletes: int, again: int) -> None:
        """One file of mixed changes: new attributes, new texts, deletes, and old events again."""
        chosen = self._random.sample(list(self.alive.values()), attributes + texts + deletes)
        old = self._random.sample(self._history, again)
        self.send(
            [
                *(doc.changed(stars=doc.stars + 1) for doc in chosen[:attributes]),
                *(_edited(doc) for doc in chosen[attributes : attributes + texts]),
                *(doc.changed(is_deleted=True) for doc in chosen[attributes + texts :]),
            ]
        )
        self.redeliver(old)

    def _drop(self, documents: Sequence[Document]) -> None:
        name = f"changes-{self._files:05d}.json"
        self._files += 1
        lines = "".join(json.dumps(asdict(document)) + "\n" for document in documents)
        # A name that begins with a dot is not ready yet; the rename makes the file appear whole.
        hidden = self._folder / f".{name}"
        hidden.write_text(lines, encoding="utf-8")
        hidden.rename(self._folder / name)


def _edited(document: Document) -> Document:
    return document.changed(body=f"{document.body} Revised, version {document.record_version + 1}.")
