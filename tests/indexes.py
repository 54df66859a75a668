"""Small indexes of the project's own columns, filled without Spark by the fake model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import lance
import pyarrow as pa

from freshet.embedding import IndexRows, ProviderSpec
from freshet.embedding.chunking import Chunking
from freshet.embedding.fake import FakeProvider
from freshet.rows import CurrentRows
from freshet.search import Searcher
from freshet.stores.lance_tables import ROW_ADDRESS, LanceTable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = IndexRows(
    ProviderSpec("fake"),
    Chunking(8, 2),
    attributes={"section": "string"},
    vectors={"title_vector": ["title"]},
)


@dataclass
class SmallIndex:
    """An index; every call is one commit, and returns the version that it made."""

    uri: str
    metric: str = "cosine"
    embedded: list[str] = field(default_factory=list)
    """The questions that were embedded."""

    def __post_init__(self) -> None:
        LanceTable.create(self.uri, ROWS.schema, key="key", metadata=ROWS.metadata)

    def add(
        self,
        texts: Mapping[str, str],
        section: str = "a",
        titles: Mapping[str, str] | None = None,
        *,
        is_refused: bool = False,
    ) -> int:
        """Adds records; with `is_refused`, the model has given no vectors."""
        titled = [(titles or {}).get(key) for key in texts]
        records = {
            "key": list(texts),
            "record_version": ["1"] * len(texts),
            "text": list(texts.values()),
            "title_vector": pa.array(titled, pa.string()),
            "section": [section] * len(texts),
        }
        made = ROWS.build(pa.table(records), _nothing(), NOW)
        assert made is not None
        rows = made.rows
        if is_refused:
            nulls = pa.nulls(rows.num_rows, rows.schema.field("vector").type)
            rows = rows.set_column(rows.schema.get_field_index("vector"), "vector", nulls)
        return self.write(rows)

    def write(self, rows: pa.Table) -> int:
        """Adds rows as they are."""
        table = LanceTable.open(self.uri)
        return table.commit(None, table.write_files(rows.to_reader()), {})

    def delete(self, *keys: str) -> int:
        """Takes records out."""
        table = LanceTable.open(self.uri)
        found = table.lookup("key", keys, ["key"])
        return table.commit(table.removal(found.column(ROW_ADDRESS).to_pylist()), [], {})

    def make_indexes(self, partitions: int = 2) -> None:
        """Those that the optimizer makes."""
        dataset = lance.dataset(self.uri)
        dataset.create_index(
            "vector",
            "IVF_HNSW_SQ",
            name="vector_idx",
            metric=self.metric,
            num_partitions=partitions,
        )
        dataset.create_scalar_index("text", "INVERTED", name="text_idx")

    def clean(self, versions: Sequence[int]) -> None:
        """Removes versions, as the optimizer does."""
        lance.dataset(self.uri).cleanup_old_versions(versions=list(versions))

    def searcher(self, **told: Any) -> Searcher:
        """A searcher, by default with the model that filled the index."""
        own: dict[str, Any] = {
            "uri": self.uri,
            "model_id": FakeProvider.model_id,
            "embed": self._embed,
            "attributes": None,
            "metric": self.metric,
        }
        return Searcher(**own | told)

    def _embed(self, question: str) -> Any:
        self.embedded.append(question)
        return FakeProvider().embed([question])[0]

    def become_of_another_model(self, model_id: str) -> None:
        """Overwrites the index as a rebuild does, with the same rows."""
        table = LanceTable.open(self.uri)
        fragments = [
            piece
            for batch in table.read(table.schema.names, table.fragment_ids)
            for piece in table.write_files(pa.Table.from_batches([batch]).to_reader())
        ]
        table.overwrite(
            ROWS.schema, fragments, {}, dict(ROWS.metadata) | {"freshet.model": model_id}
        )


def _nothing() -> CurrentRows:
    empty = ROWS.schema.empty_table()
    numbered = empty.append_column("_rowid", pa.array([], pa.int64()))
    return CurrentRows(numbered, lambda ids, columns: empty.select(columns))
