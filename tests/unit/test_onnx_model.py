"""Models in folders with an ONNX file: whatever kind they are, the file is what is run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from freshet.embedding import Provider, ProviderSpec
from freshet.embedding.minilm import model_folder
from freshet.errors import SetupError
from freshet.settings import EmbeddingSettings

SIZE = 8
WORDS = np.random.default_rng(5).standard_normal((30_522, SIZE)).astype(np.float32)
TYPES = np.stack([np.full(SIZE, 0.5), np.full(SIZE, 9.0)]).astype(np.float32)
TEXTS = ["one", "a longer text about something else, with more words", "Drop all the nulls.", ""]

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a folder whose model looks vectors of words up; `output` says what it gives."""

    def made(
        *,
        file: str = "model.onnx",
        output: str = "last_hidden_state",
        inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids"),
        kind: int = TensorProto.INT64,
        size: int = SIZE,
        pooling: str = "mean_tokens",
        is_unit: bool = True,
    ) -> Path:
        shutil.copy(model_folder() / "tokenizer.json", tmp_path)
        config = {"model_type": "mpnet", "hidden_size": size, "max_position_embeddings": 34}
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        (tmp_path / "1_Pooling/config.json").write_text(
            json.dumps({f"pooling_mode_{pooling}": True})
        )
        modules = [{"type": "st.Transformer", "path": ""}, {"type": "Pooling", "path": "1_Pooling"}]
        modules += [{"type": "Normalize", "path": "2_Normalize"}] if is_unit else []
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / file).parent.mkdir(exist_ok=True)
        onnx.save(_graph(output, inputs, kind), str(tmp_path / file))
        return tmp_path

    return made


def _graph(output: str, inputs: tuple[str, ...], kind: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["by_word"]),
        helper.make_node("Gather", ["types", inputs[-1]], ["by_type"]),
        helper.make_node("Add", ["by_word", "by_type"], ["hidden"]),
    ]
    axes: list[str | int] = ["batch", "tokens", SIZE]
    if output == "sentence_embedding":
        nodes.append(helper.make_node("ReduceMax", ["hidden", "axis"], [output], keepdims=0))
        axes.pop(1)
    else:
        nodes.append(helper.make_node("Identity", ["hidden"], [output]))
    tensors = {"words": WORDS, "types": TYPES, "axis": np.array([1], np.int64)}
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info(name, kind, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, axes)],
        [numpy_helper.from_array(values, name) for name, values in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def load(folder: Path) -> Provider:
    told = EmbeddingSettings(provider="local", folder=str(folder), precision="f32")
    return ProviderSpec.of(told).load()


def by_token(text: str) -> np.ndarray:
    """The vectors of a text's tokens, as the file gives them, by numpy alone."""
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(32)
    return WORDS[tokenizer.encode(text).ids] + TYPES[0]


def unit(vectors: list[np.ndarray]) -> np.ndarray:
    found = np.stack(vectors)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx"])
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("output", ["last_hidden_state", "token_embeddings", "another_name"])
def test_vectors_of_tokens_are_pooled(make: Make, file: str, kind: int, output: str) -> None:
    model = load(make(file=file, kind=kind, output=output))
    assert (model.dimension, model.window_tokens) == (SIZE, 30)
    wanted = unit([by_token(text).mean(axis=0) for text in [*TEXTS, "word " * 100]])
    assert np.abs(model.embed([*TEXTS, "word " * 100]) - wanted).max() < 1e-5


@pytest.mark.parametrize(("pooling", "pick"), [("cls_token", 0), ("max_tokens", None)])
def test_pooling_is_as_the_folder_says(make: Make, pooling: str, pick: int | None) -> None:
    found = load(make(pooling=pooling, is_unit=False)).embed(TEXTS)
    tokens = [by_token(text) for text in TEXTS]
    wanted = [one.max(axis=0) if pick is None else one[pick] for one in tokens]
    assert np.abs(found - np.stack(wanted)).max() < 1e-5


def test_vectors_of_texts_are_taken_as_they_are(make: Make) -> None:
    """Each alone: this file does not look at its mask."""
    model = load(make(output="sentence_embedding"))
    found = np.concatenate([model.embed([text]) for text in TEXTS])
    assert np.abs(found - unit([by_token(text).max(axis=0) for text in TEXTS])).max() < 1e-5


def test_the_file_is_the_model(make: Make) -> None:
    folder = make()
    model = load(folder)
    assert model.model_id.startswith(f"local/{folder.name}@")
    weights = folder / "model.safetensors"
    weights.write_bytes(b"of no use")
    assert load(folder).model_id == model.model_id


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"inputs": ("input_ids", "pixel_values")}, "wants the input pixel_values"),
        ({"size": 9}, "gives vectors of 8 numbers, but the files beside it say 9"),
    ],
)
def test_a_file_that_cannot_be_run_says_why(make: Make, wrong: dict[str, int], said: str) -> None:
    model = load(make(**wrong))
    with pytest.raises(SetupError, match=said):
        model.embed(TEXTS)


def test_a_file_that_is_no_model_is_named(make: Make) -> None:
    folder = make()
    (folder / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(SetupError, match=r"cannot read .*model\.onnx"):
        load(folder).embed(TEXTS)
