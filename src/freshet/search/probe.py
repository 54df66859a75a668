"""A recall probe: how many of the true neighbours the vector index finds, and how fast.

Questions are vectors that the table has, so no model is needed, and the figures follow the data.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from freshet.stores.lance_search import (
    DEFAULT_KNOBS,
    VECTOR,
    Knobs,
    SearchableTable,
    Vectors,
)
from freshet.stores.lance_tables import ROW_ID

_MOST_COMPARED: Final = 8_000_000
"""Vectors that an exact search may compare: rows times samples."""
_LEAST_SAMPLES: Final = 4
_TRIES: Final = 4
_SHORTEST: Final = 1e-30
_RELATIVE: Final = 1e-5
_ABSOLUTE: Final = 1e-6
"""Distances that differ by less are equal: float32 rounds them, and Lance and numpy not alike."""


@dataclass(frozen=True)
class Probe:
    """What a probe measured; of rows of one version."""

    recall: float
    """The share of the k nearest rows that the index found; others just as near count, too."""
    p50_ms: float
    p95_ms: float
    p99_ms: float
    samples: int
    rows: int
    version: int


def probe(
    uri: str,
    *,
    metric: str,
    k: int = 10,
    samples: int = 16,
    nprobes: int | None = DEFAULT_KNOBS.nprobes,
    ef: int | None = DEFAULT_KNOBS.ef,
    refine: int = DEFAULT_KNOBS.refine,
    seed: int,
) -> Probe | None:
    """Asks a table for the neighbours of some of its rows; None if these have no vectors.

    Reads no column but the vectors: of the samples, of what the index finds, and once of all rows
    for the exact answer. Of a large table it takes fewer samples, four at least.
    """
    table = SearchableTable.open(uri)
    if VECTOR not in table.schema.names:
        return None
    rows = table.count()
    asked = _sampled(table, rows, sample_size(samples, rows), random.Random(seed))  # noqa: S311
    if asked is None:
        return None
    ask = partial(table.nearest, rows=k, metric=metric, knobs=Knobs(nprobes, ef, refine))
    for vector in asked:
        ask(vector)  # loads what of the index the samples need
    found, times_ms = [], []
    for vector in asked:
        started = time.perf_counter()
        nearest = ask(vector)
        times_ms.append(1_000 * (time.perf_counter() - started))
        found.append(nearest.column(ROW_ID).to_pylist())
    exact = table.exact_distances(asked, k=k, metric=metric)
    shares = [
        share_found(distances(vector, table.vectors_of(row_ids), metric), nearest)
        for vector, row_ids, nearest in zip(asked, found, exact, strict=True)
    ]
    p50, p95, p99 = (float(np.percentile(times_ms, share)) for share in (50, 95, 99))
    recall = sum(shares) / len(shares)
    return Probe(recall, p50, p95, p99, samples=len(asked), rows=rows, version=table.version)


def sample_size(wanted: int, rows: int) -> int:
    """So many samples that an exact search for all of them stays affordable."""
    return max(_LEAST_SAMPLES, min(wanted, _MOST_COMPARED // max(rows, 1)))


def distances(vector: Vectors, others: Vectors, metric: str) -> Sequence[float]:
    """Distances as Lance defines them: `l2` is squared, and `dot` is 1 minus the product."""
    one, many = vector.astype(np.float64), others.astype(np.float64)
    if metric == "l2":
        apart: np.ndarray[tuple[int], np.dtype[np.float64]] = ((many - one) ** 2).sum(axis=1)
    elif metric == "cosine":
        lengths = np.linalg.norm(many, axis=1) * np.linalg.norm(one)
        apart = 1 - many @ one / np.maximum(lengths, _SHORTEST)
    else:
        apart = 1 - many @ one
    return [float(distance) for distance in apart]


def share_found(found: Sequence[float], nearest: Sequence[float]) -> float:
    """The share of the nearest rows that were found, told by distances alone.

    A row at the same distance as the last of the nearest is as good as that one.
    """
    if not nearest:
        return 1.0
    limit = nearest[-1] + _RELATIVE * abs(nearest[-1]) + _ABSOLUTE
    return min(1.0, sum(distance <= limit for distance in found) / len(nearest))


def _sampled(
    table: SearchableTable, rows: int, count: int, chooser: random.Random
) -> Vectors | None:
    """Vectors of random rows; fewer if many have none, and None if none of these has one."""
    taken: list[Vectors] = []
    for _ in range(_TRIES if rows else 0):
        places = sorted(chooser.sample(range(rows), min(count, rows)))
        taken.append(table.vectors_at(places))
        if sum(map(len, taken)) >= count or len(places) == rows:
            break
    return np.concatenate(taken)[:count] if any(map(len, taken)) else None
