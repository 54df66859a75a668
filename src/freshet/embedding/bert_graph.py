"""A sentence model of the BERT family as an OpenVINO graph, built straight from its weights.

Pooling and normalisation are inside the graph, so that one call turns token ids into unit vectors.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op

Weights = dict[str, NDArray[np.float32]]
Node = Any

_LEAST: Final = 1e-12
_MASKED: Final = -10_000.0


@dataclass(frozen=True)
class Shape:
    """What the weights do not tell of a model."""

    hidden: int
    heads: int
    layers: int
    epsilon: float = 1e-12
    first_position: int = 0
    """Where the position table begins: RoBERTa's has two rows before."""
    pooling: Literal["mean", "cls", "max"] = "mean"
    is_unit: bool = True
    """Whether vectors are brought to the length 1."""


def build(weights: Weights, shape: Shape) -> ov.Model:
    """The model: `input_ids` and `attention_mask` (batch x tokens) to vectors (batch x hidden)."""
    ids = op.parameter([-1, -1], ov.Type.i64, name="input_ids")
    mask = op.parameter([-1, -1], ov.Type.i64, name="attention_mask")
    is_token = op.convert(mask, "f32")
    hidden = _embeddings(weights, shape, ids)
    bias = _attention_bias(is_token)
    for layer in range(shape.layers):
        hidden = _layer(weights, shape, f"encoder.layer.{layer}.", hidden, bias)
    return ov.Model([op.result(_pooled(shape, hidden, is_token))], [ids, mask], "sentences")


def _embeddings(weights: Weights, shape: Shape, ids: Node) -> Node:
    words = op.gather(_constant(weights["embeddings.word_embeddings.weight"]), ids, _axis(0))
    # A single text has token type 0 everywhere, so that row folds into the position table.
    places = _constant(
        weights["embeddings.position_embeddings.weight"][shape.first_position :]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    length = op.gather(op.shape_of(ids), _axes(1), _axis(0))
    used = op.slice(places, _axes(0), length, _axes(1), _axes(0))
    return _layer_norm(weights, shape, "embeddings.LayerNorm", op.add(words, used))


def _attention_bias(is_token: Node) -> Node:
    is_padding = op.subtract(op.constant(np.float32(1)), op.unsqueeze(is_token, _axes(1, 2)))
    return op.multiply(is_padding, op.constant(np.float32(_MASKED)))


def _layer(weights: Weights, shape: Shape, name: str, hidden: Node, bias: Node) -> Node:
    context = _attention(weights, shape, name, hidden, bias)
    attended = op.add(_linear(weights, f"{name}attention.output.dense", context), hidden)
    hidden = _layer_norm(weights, shape, f"{name}attention.output.LayerNorm", attended)
    inner = op.gelu(_linear(weights, f"{name}intermediate.dense", hidden), "erf")
    outer = _linear(weights, f"{name}output.dense", inner)
    return _layer_norm(weights, shape, f"{name}output.LayerNorm", op.add(outer, hidden))


def _attention(weights: Weights, shape: Shape, name: str, hidden: Node, bias: Node) -> Node:
    query, key, value = (
        _by_head(shape, _linear(weights, f"{name}attention.self.{part}", hidden))
        for part in ("query", "key", "value")
    )
    context = op.scaled_dot_product_attention(query, key, value, bias)
    joined = op.transpose(context, _axes(0, 2, 1, 3))
    return op.reshape(joined, _axes(0, 0, shape.hidden), special_zero=True)


def _by_head(shape: Shape, projected: Node) -> Node:
    sizes = _axes(0, 0, shape.heads, shape.hidden // shape.heads)
    split = op.reshape(projected, sizes, special_zero=True)
    return op.transpose(split, _axes(0, 2, 1, 3))


def _pooled(shape: Shape, hidden: Node, is_token: Node) -> Node:
    pooled = {"mean": _mean, "cls": _first, "max": _greatest}[shape.pooling](hidden, is_token)
    return op.normalize_l2(pooled, _axes(1), _LEAST, "max") if shape.is_unit else pooled


def _mean(hidden: Node, is_token: Node) -> Node:
    total = op.matmul(op.unsqueeze(is_token, _axes(1)), hidden, False, False)
    count = op.reduce_sum(is_token, _axes(1), keep_dims=True)
    return op.divide(op.squeeze(total, _axes(1)), count)


def _first(hidden: Node, is_token: Node) -> Node:
    return op.gather(hidden, _axis(0), _axis(1))


def _greatest(hidden: Node, is_token: Node) -> Node:
    is_padding = op.subtract(op.constant(np.float32(1)), op.unsqueeze(is_token, _axes(2)))
    below_all = op.multiply(is_padding, op.constant(np.float32(_MASKED)))
    return op.reduce_max(op.add(hidden, below_all), _axes(1))


def _layer_norm(weights: Weights, shape: Shape, name: str, values: Node) -> Node:
    normal = op.mvn(values, _axes(-1), True, shape.epsilon, "inside_sqrt")
    scaled = op.multiply(normal, _constant(weights[f"{name}.weight"]))
    return op.add(scaled, _constant(weights[f"{name}.bias"]))


def _linear(weights: Weights, name: str, values: Node) -> Node:
    product = op.matmul(values, _constant(weights[f"{name}.weight"]), False, True)
    return op.add(product, _constant(weights[f"{name}.bias"]))


def _constant(values: NDArray[np.float32]) -> Node:
    return op.constant(np.ascontiguousarray(values, dtype=np.float32))


def _axis(value: int) -> Node:
    return op.constant(value, np.int64)


def _axes(*values: int) -> Node:
    return op.constant(list(values), np.int64)
