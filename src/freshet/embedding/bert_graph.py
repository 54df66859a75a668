"""A sentence model of the BERT family as an OpenVINO graph, built straight from its weights.

Pooling and normalisation are inside the graph, so that one call turns token ids into unit vectors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from safetensors.numpy import load_file

from freshet.embedding.pooling_graph import Node, Pooling, added_to_padding, axes, axis, pooled

Weights = dict[str, NDArray[np.float32]]

_PREFIXES: Final = ("bert.", "roberta.")


@dataclass(frozen=True)
class Shape:
    """What the weights do not tell of a model."""

    hidden: int
    heads: int
    layers: int
    epsilon: float = 1e-12
    first_position: int = 0
    """Where the position table begins: RoBERTa's has two rows before."""


def read(file: Path, shape: Shape, pooling: Pooling) -> ov.Model:
    """The model whose weights are in a safetensors file."""
    weights = {_plain(name): values for name, values in load_file(file).items()}
    return build(weights, shape, pooling)


def build(weights: Weights, shape: Shape, pooling: Pooling) -> ov.Model:
    """The model: `input_ids` and `attention_mask` (batch x tokens) to vectors (batch x hidden)."""
    ids = op.parameter([-1, -1], ov.Type.i64, name="input_ids")
    mask = op.parameter([-1, -1], ov.Type.i64, name="attention_mask")
    is_token = op.convert(mask, "f32")
    hidden = _embeddings(weights, shape, ids)
    bias = added_to_padding(is_token, 1, 2)
    for layer in range(shape.layers):
        hidden = _layer(weights, shape, f"encoder.layer.{layer}.", hidden, bias)
    return ov.Model([op.result(pooled(pooling, hidden, is_token))], [ids, mask], "sentences")


def _embeddings(weights: Weights, shape: Shape, ids: Node) -> Node:
    words = op.gather(_constant(weights["embeddings.word_embeddings.weight"]), ids, axis(0))
    # A single text has token type 0 everywhere, so that row folds into the position table.
    places = _constant(
        weights["embeddings.position_embeddings.weight"][shape.first_position :]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    length = op.gather(op.shape_of(ids), axes(1), axis(0))
    used = op.slice(places, axes(0), length, axes(1), axes(0))
    return _layer_norm(weights, shape, "embeddings.LayerNorm", op.add(words, used))


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
    joined = op.transpose(context, axes(0, 2, 1, 3))
    return op.reshape(joined, axes(0, 0, shape.hidden), special_zero=True)


def _by_head(shape: Shape, projected: Node) -> Node:
    sizes = axes(0, 0, shape.heads, shape.hidden // shape.heads)
    split = op.reshape(projected, sizes, special_zero=True)
    return op.transpose(split, axes(0, 2, 1, 3))


def _layer_norm(weights: Weights, shape: Shape, name: str, values: Node) -> Node:
    normal = op.mvn(values, axes(-1), True, shape.epsilon, "inside_sqrt")
    scaled = op.multiply(normal, _constant(weights[f"{name}.weight"]))
    return op.add(scaled, _constant(weights[f"{name}.bias"]))


def _linear(weights: Weights, name: str, values: Node) -> Node:
    product = op.matmul(values, _constant(weights[f"{name}.weight"]), False, True)
    return op.add(product, _constant(weights[f"{name}.bias"]))


def _constant(values: NDArray[np.float32]) -> Node:
    return op.constant(np.ascontiguousarray(values, dtype=np.float32))


def _plain(name: str) -> str:
    """A weight's name inside the encoder: models with heads put one more name before it."""
    return next((name.removeprefix(one) for one in _PREFIXES if name.startswith(one)), name)
