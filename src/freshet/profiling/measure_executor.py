"""What a profile runs on executors: cutting the sample into texts, and timing the model."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from freshet.embedding.attempts import embed_all
from freshet.embedding.chunking import Chunking
from freshet.embedding.provider import Provider, ProviderSpec

CUT: Final = pa.schema(
    [
        ("characters", pa.int64()),
        ("tokens", pa.int64()),
        ("texts", pa.list_(pa.string())),  # what the model runs on
    ]
)
TIMED: Final = pa.schema([("texts", pa.int64()), ("seconds", pa.float64())])

_WARM_UP_TEXTS: Final = 32


@dataclass(frozen=True)
class Cutting:
    """Cuts records into texts, as a batch of the index would. Pickled to the executors."""

    spec: ProviderSpec
    chunking: Chunking
    vectors: tuple[str, ...]
    """Further vectors, by the columns that hold their texts."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a record."""
        model = self.spec.load()
        for batch in batches:
            texts = [text or "" for text in batch.column("text").to_pylist()]
            columns = [batch.column(name).to_pylist() for name in self.vectors]
            further = list(zip(*columns, strict=True)) or [()] * len(texts)
            cut = [self._cut(model, *one) for one in zip(texts, further, strict=True)]
            tokens = [len(model.token_spans(text)) for text in texts]
            arrays = [pa.array(list(map(len, texts)), pa.int64()), pa.array(tokens, pa.int64())]
            texts_of_all = pa.array(cut, pa.list_(pa.string()))
            yield pa.RecordBatch.from_arrays([*arrays, texts_of_all], schema=CUT)

    def _cut(self, model: Provider, text: str, further: Sequence[str | None]) -> list[str]:
        whole = Chunking(model.window_tokens, 0)
        heads = [whole.head(one, model.token_spans) for one in further if one]
        return [*self.chunking.cut(text, model.token_spans), *heads]


@dataclass(frozen=True)
class Timing:
    """Times the model on texts. Pickled to the executors.

    Each task times the same texts, so that all cores at work can be compared with one.
    """

    spec: ProviderSpec
    texts: tuple[str, ...]
    seconds: float
    """The texts are embedded again and again, and after so long not once more."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each that comes in; loading the model does not count."""
        for batch in batches:
            measured = [self._measured() for _ in range(batch.num_rows)]
            yield pa.RecordBatch.from_pylist(measured, schema=TIMED)

    def _measured(self) -> dict[str, float]:
        model = self.spec.load()
        try:
            embed_all(model, self.texts[:_WARM_UP_TEXTS])
            return self._timed(model)
        finally:
            # Or a worker would hold a model for every `batch_tokens`.
            ProviderSpec.forget_loaded()

    def _timed(self, model: Provider) -> dict[str, float]:
        started, texts = time.perf_counter(), 0
        while not texts or time.perf_counter() - started < self.seconds:
            embed_all(model, self.texts)
            texts += len(self.texts)
        return {"texts": texts, "seconds": time.perf_counter() - started}
