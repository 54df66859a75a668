"""all-MiniLM-L6-v2 as an OpenVINO graph, built straight from its weights.

Pooling and normalisation are inside the graph, so that one call turns token ids into unit vectors.
"""

from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op

Weights = dict[str, NDArray[np.float32]]
Node = Any

HIDDEN: Final = 384
_HEADS: Final = 12
_LAYERS: Final = 6
_EPSILON: Final = 1e-12
_MASKED: Final = -10_000.0


def build(weights: Weights) -> ov.Model:
    """The model: `input_ids` and `attention_mask` (batch x tokens) to `embedding` (batch x 384)."""
    ids = op.parameter([-1, -1], ov.Type.i64, name="input_ids")
    mask = op.parameter([-1, -1], ov.Type.i64, name="attention_mask")
    is_token = op.convert(mask, "f32")
    hidden = _embeddings(weights, ids)
    bias = _attention_bias(is_token)
    for layer in range(_LAYERS):
        hidden = _layer(weights, f"encoder.layer.{layer}.", hidden, bias)
    return ov.Model([op.result(_pooled(hidden, is_token))], [ids, mask], "all-MiniLM-L6-v2")


def _embeddings(weights: Weights, ids: Node) -> Node:
    words = op.gather(_constant(weights["embeddings.word_embeddings.weight"]), ids, _axis(0))
    # A single text has token type 0 everywhere, so that row folds into the position table.
    places = _constant(
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    length = op.gather(op.shape_of(ids), _axes(1), _axis(0))
    used = op.slice(places, _axes(0), length, _axes(1), _axes(0))
    return _layer_norm(weights, "embeddings.LayerNorm", op.add(words, used))


def _attention_bias(is_token: Node) -> Node:
    is_padding = op.subtract(op.constant(np.float32(1)), op.unsqueeze(is_token, _axes(1, 2)))
    return op.multiply(is_padding, op.constant(np.float32(_MASKED)))


def _layer(weights: Weights, name: str, hidden: Node, bias: Node) -> Node:
    attended = _linear(
        weights, f"{name}attention.output.dense", _attention(weights, name, hidden, bias)
    )
    hidden = _layer_norm(weights, f"{name}attention.output.LayerNorm", op.add(attended, hidden))
    inner = op.gelu(_linear(weights, f"{name}intermediate.dense", hidden), "erf")
    outer = _linear(weights, f"{name}output.dense", inner)
    return _layer_norm(weights, f"{name}output.LayerNorm", op.add(outer, hidden))


def _attention(weights: Weights, name: str, hidden: Node, bias: Node) -> Node:
    query, key, value = (
        _by_head(_linear(weights, f"{name}attention.self.{part}", hidden))
        for part in ("query", "key", "value")
    )
    context = op.scaled_dot_product_attention(query, key, value, bias)
    joined = op.transpose(context, _axes(0, 2, 1, 3))
    return op.reshape(joined, _axes(0, 0, HIDDEN), special_zero=True)


def _by_head(projected: Node) -> Node:
    split = op.reshape(projected, _axes(0, 0, _HEADS, HIDDEN // _HEADS), special_zero=True)
    return op.transpose(split, _axes(0, 2, 1, 3))


def _pooled(hidden: Node, is_token: Node) -> Node:
    """The sum over tokens, normalised: dividing by their number first would change nothing."""
    total = op.matmul(op.unsqueeze(is_token, _axes(1)), hidden, False, False)
    return op.normalize_l2(op.squeeze(total, _axes(1)), _axes(1), _EPSILON, "max")


def _layer_norm(weights: Weights, name: str, values: Node) -> Node:
    normal = op.mvn(values, _axes(-1), True, _EPSILON, "inside_sqrt")
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
