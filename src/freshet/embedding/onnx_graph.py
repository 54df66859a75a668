"""A sentence model from an ONNX file as an OpenVINO graph, with what makes one vector of a text."""

from pathlib import Path
from typing import Final

import openvino as ov
from openvino import opset13 as op

from freshet.embedding.pooling_graph import Node, Pooling, axis, normalised, pooled
from freshet.errors import SetupError

_FILES: Final = ("model.onnx", "onnx/model.onnx")
_POOLED: Final = "sentence_embedding"
_OF_TOKENS: Final = ("last_hidden_state", "token_embeddings")
_BY_TEXT, _BY_TOKEN = 2, 3
"""How many axes vectors of texts and of tokens have."""


def file_in(folder: Path) -> Path | None:
    """The ONNX file of a model's folder, if it has one."""
    return next((folder / name for name in _FILES if (folder / name).is_file()), None)


def read(file: Path, pooling: Pooling, dimension: int) -> ov.Model:
    """The model: `input_ids` and `attention_mask` (batch x tokens) to vectors (batch x hidden)."""
    try:
        model = ov.Core().read_model(file)
    except RuntimeError as error:
        raise SetupError(f"OpenVINO cannot read {file}: {_last_line(error)}") from None
    ids = op.parameter([-1, -1], ov.Type.i64, name="input_ids")
    mask = op.parameter([-1, -1], ov.Type.i64, name="attention_mask")
    _feed(file, model, ids, mask)
    vectors = _vectors(file, model, pooling, op.convert(mask, "f32"))
    size = vectors.output(0).get_partial_shape()[1]
    if size.is_static and size.get_length() != dimension:
        raise SetupError(
            f"{file} gives vectors of {size.get_length()} numbers, but the files beside it say "
            f"{dimension}: save the model anew"
        )
    return ov.Model([op.result(vectors)], [ids, mask], "sentences")


def _feed(file: Path, model: ov.Model, ids: Node, mask: Node) -> None:
    """Puts the two inputs in the place of the file's own, which may be of other types or more."""
    # A single text has token type 0 everywhere.
    types = op.multiply(ids, axis(0))
    known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    for parameter in model.get_parameters():
        names = parameter.output(0).get_names() | {parameter.get_friendly_name()}
        source = next((known[name] for name in names if name in known), None)
        if source is None:
            raise SetupError(f"{file} wants the input {min(names)}, which is not known")
        fed = op.convert(source, parameter.get_element_type().to_string())
        parameter.output(0).replace(fed.output(0))


def _vectors(file: Path, model: ov.Model, pooling: Pooling, is_token: Node) -> Node:
    """The file's own vectors of texts if it has them, else those of tokens, pooled."""
    results = [result.input_value(0) for result in model.get_results()]
    by_name = {name: output for output in results for name in output.get_names()}
    if _POOLED in by_name and _axes_of(by_name[_POOLED]) == _BY_TEXT:
        return normalised(pooling, op.convert(by_name[_POOLED], "f32"))
    named = [by_name[name] for name in _OF_TOKENS if name in by_name]
    found = [*named, *(output for output in results if _axes_of(output) == _BY_TOKEN)]
    if not found:
        raise SetupError(f"{file} has no output {_OF_TOKENS[0]}: export it as a feature extractor")
    return pooled(pooling, op.convert(found[0], "f32"), is_token)


def _axes_of(output: Node) -> int | None:
    rank = output.get_partial_shape().rank
    return rank.get_length() if rank.is_static else None


def _last_line(error: Exception) -> str:
    """OpenVINO says where in its source it was first, and what is wrong last."""
    return str(error).strip().rsplit("\n", 1)[-1][:200]
