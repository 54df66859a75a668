"""How much of the truth a search finds in real texts, by partitions of the index and by `nprobes`.

Vectors that a benchmark draws around centres lie in few partitions, so they do not tell how many
must be looked into. These are of documentation inside installed Python packages, by the model
MiniLM. As an index has a partition for 4,096 rows, 62 partitions are those of 250,000 rows.

    python benchmarks/recall_of_texts.py                  # 4 minutes, most of it the model
"""

import argparse
import time
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from freshet.demo.corpus import collect
from freshet.embedding import ProviderSpec
from freshet.optimizer.limits import graph_of
from freshet.stores.lance_search import DISTANCE, Knobs
from measuring import machine, median, scratch_folder, show_progress, timed_ms

KIND, METRIC, K = "IVF_HNSW_SQ", "cosine", 10
QUESTIONS = 300
PARTITIONS, PROBES = (2, 8, 16, 31, 62), (2, 4, 8, 16, 32)


def vectors_of(count: int) -> Any:
    """Unit vectors of so many texts."""
    texts = [f"{one.title}. {one.body}" for one in collect(count)]
    show_progress(f"the model, {len(texts):,} texts")
    return ProviderSpec("minilm", threads=2).load().embed(texts)


def indexed(folder: Path, vectors: Any, partitions: int) -> Any:
    """A Lance table of the vectors with an index."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    rows = pa.table({"place": pa.array(range(len(vectors))), "vector": column})
    dataset = lance.write_dataset(rows, folder / str(partitions))
    told = {"metric": METRIC, "num_partitions": partitions, **graph_of(KIND)}
    dataset.create_index("vector", KIND, **told)
    return dataset


def measure(dataset: Any, questions: Any, truth: Any, knobs: Knobs) -> tuple[float, float]:
    """The mean of recall, and the median of milliseconds."""
    found, times = [], []
    query = {"column": "vector", "k": 2 * K, "metric": METRIC}
    query |= knobs.for_rows(2 * K, of=dataset.count_rows())
    for question, nearest in zip(questions, truth, strict=True):
        answers: list[Any] = []

        def ask(question: Any = question, answers: list[Any] = answers) -> None:
            columns = ["place", DISTANCE]
            answers.append(dataset.to_table(columns=columns, nearest=query | {"q": question}))

        times.append(timed_ms(ask))
        places = answers[0].column("place").to_pylist()[:K]
        found.append(len(set(places) & set(nearest)) / K)
    return float(np.mean(found)), median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, default=20_000)
    options = parser.parse_args()
    started = time.perf_counter()
    vectors = vectors_of(options.texts)
    show_progress("")
    questions, rest = vectors[:QUESTIONS], vectors[QUESTIONS:]
    truth = np.argsort(-(rest @ questions.T), axis=0)[:K].T
    print(f"{machine()}: {len(rest):,} texts, {QUESTIONS} questions, recall@{K} and median of ms")
    print("partitions" + "".join(f"{f'nprobes {probes}':>16}" for probes in PROBES))
    with scratch_folder() as folder:
        for partitions in PARTITIONS:
            dataset = indexed(folder, rest, partitions)
            told = ""
            for probes in (probes for probes in PROBES if probes <= partitions):
                recall, ms = measure(dataset, questions, truth, Knobs(probes))
                told += f"{f'{recall:.3f}, {ms:.1f}':>16}"
            print(f"{partitions:>10}{told}")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
