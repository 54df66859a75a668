"""From the vectors of tokens to that of their text, as OpenVINO operators."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from openvino import opset13 as op

Node = Any

_LEAST: Final = 1e-12
_MASKED: Final = -10_000.0


@dataclass(frozen=True)
class Pooling:
    """How the vectors of a text's tokens become one."""

    mode: Literal["mean", "cls", "max"] = "mean"
    is_unit: bool = True
    """Whether vectors are brought to the length 1."""


def pooled(pooling: Pooling, hidden: Node, is_token: Node) -> Node:
    """One vector a text, of vectors (batch x tokens x hidden) and 1.0 where a token is."""
    vectors = {"mean": _mean, "cls": _first, "max": _greatest}[pooling.mode](hidden, is_token)
    return normalised(pooling, vectors)


def normalised(pooling: Pooling, vectors: Node) -> Node:
    """The vectors, of length 1 if that is wanted."""
    return op.normalize_l2(vectors, axes(1), _LEAST, "max") if pooling.is_unit else vectors


def added_to_padding(is_token: Node, *unsqueezed: int) -> Node:
    """A large negative number where no token is, zero elsewhere, with further axes."""
    one = op.constant(np.float32(1))
    is_padding = op.subtract(one, op.unsqueeze(is_token, axes(*unsqueezed)))
    return op.multiply(is_padding, op.constant(np.float32(_MASKED)))


def axis(value: int) -> Node:
    """One whole number."""
    return op.constant(value, np.int64)


def axes(*values: int) -> Node:
    """A list of whole numbers."""
    return op.constant(list(values), np.int64)


def _mean(hidden: Node, is_token: Node) -> Node:
    total = op.matmul(op.unsqueeze(is_token, axes(1)), hidden, False, False)
    count = op.reduce_sum(is_token, axes(1), keep_dims=True)
    return op.divide(op.squeeze(total, axes(1)), count)


def _first(hidden: Node, is_token: Node) -> Node:
    return op.gather(hidden, axis(0), axis(1))


def _greatest(hidden: Node, is_token: Node) -> Node:
    return op.reduce_max(op.add(hidden, added_to_padding(is_token, 2)), axes(1))
