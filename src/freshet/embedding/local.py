"""Any sentence model in a folder, as sentence-transformers saves it: its weights, or an ONNX file.

Weights are enough for models of the BERT family, whose graph is known. An ONNX file holds the graph
itself, so that the model may be of any kind; it is taken if there is one.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import openvino as ov

from freshet.embedding import bert_graph, onnx_graph
from freshet.embedding.encoder import Encoder
from freshet.embedding.pooling_graph import Pooling
from freshet.embedding.tokens import SPECIAL_TOKENS
from freshet.errors import SetupError

_FIRST_POSITIONS: Final = {"bert": 0, "roberta": 2, "xlm-roberta": 2, "camembert": 2}
"""The models that the graph is of, and where their position tables begin."""
_UNUSED_POSITIONS: Final = {**_FIRST_POSITIONS, "mpnet": 2}
"""How many rows of a position table no token uses; none if the kind is not listed."""
_POOLING: Final[dict[str, Literal["mean", "cls", "max"]]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_MODULES: Final = ("Transformer", "Pooling", "Normalize")
_SIZES: Final = ("hidden_size", "dim", "d_model")
"""What kinds of models call the length of their vectors."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Facts:
    """What the files of a folder say of its model."""

    model_id: str
    dimension: int
    window_tokens: int
    graph: Callable[[], ov.Model]


class LocalModel(Encoder):
    """A model whose shape, pooling, normalisation and window its own files say."""

    def __init__(
        self,
        folder: str,
        *,
        batch_tokens: int = 2_048,
        threads: int = 1,
        precision: str = "auto",
    ) -> None:
        self._facts = facts_of(folder)
        super().__init__(
            Path(folder),
            self._facts.graph,
            self._facts.dimension,
            self._facts.window_tokens,
            batch_tokens=batch_tokens,
            threads=threads,
            precision=precision,
        )

    @property
    def model_id(self) -> str:
        """The folder's name and what its weights look like: another folder is the same model."""
        return self._facts.model_id

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._facts.dimension

    @property
    def window_tokens(self) -> int:
        """Longest text that the model takes in whole."""
        return self._facts.window_tokens

    def check_installed(self) -> None:
        """All was read already."""


@cache
def facts_of(folder: str) -> Facts:
    """Reads the configuration; raises `SetupError` if the model is none that can be run."""
    place = Path(folder)
    config = _read(place, "config.json")
    onnx = onnx_graph.file_in(place)
    if onnx is None:
        _check_kind(folder, config)
    weights = onnx or place / "model.safetensors"
    for file in (weights, place / "tokenizer.json"):
        if not file.is_file():
            raise SetupError(f"there is no {file.name} in {folder}: save the model with it")
    dimension = _dimension(place, config)
    pooling = Pooling(
        _pooling(place), any("Normalize" in module["type"] for module in _modules(place))
    )
    graph = (
        partial(onnx_graph.read, onnx, pooling, dimension)
        if onnx
        else partial(bert_graph.read, weights, _shape(config), pooling)
    )
    return Facts(_model_id(place, weights), dimension, _window(place, config), graph)


def _check_kind(folder: str, config: dict[str, Any]) -> None:
    kind = config.get("model_type")
    if kind not in _FIRST_POSITIONS or config.get("hidden_act", "gelu") != "gelu":
        raise SetupError(
            f"the model in {folder} is of the kind {kind} ({config.get('hidden_act')}): only "
            f"{', '.join(_FIRST_POSITIONS)} with gelu can be run from weights; save it as "
            'model.onnx, use the provider "sentence-transformers", or serve it and use "openai"'
        )


def _shape(config: dict[str, Any]) -> bert_graph.Shape:
    return bert_graph.Shape(
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        epsilon=config.get("layer_norm_eps", 1e-12),
        first_position=_FIRST_POSITIONS[config["model_type"]],
    )


def _dimension(place: Path, config: dict[str, Any]) -> int:
    for name in _SIZES:
        if name in config:
            return int(config[name])
    raise SetupError(f"config.json in {place} does not say hidden_size: it is no folder of a model")


def _window(place: Path, config: dict[str, Any]) -> int:
    """As the model was trained, else as the tokenizer says; never more than it has positions."""
    told = _read(place, "sentence_bert_config.json", {}).get("max_seq_length")
    told = told or _read(place, "tokenizer_config.json", {}).get("model_max_length")
    positions = config.get("max_position_embeddings")
    unused = _UNUSED_POSITIONS.get(str(config.get("model_type")), 0)
    known = [int(one) for one in (told, positions and positions - unused) if one]
    if not known:
        raise SetupError(f"no file in {place} says how long texts may be: set max_seq_length")
    return min(known) - SPECIAL_TOKENS


def _read(place: Path, name: str, otherwise: Any = None) -> Any:
    try:
        return json.loads((place / name).read_text())
    except FileNotFoundError:
        if otherwise is None:
            raise SetupError(f"there is no {name} in {place}: it is no folder of a model") from None
        return otherwise
    except ValueError as error:
        raise SetupError(f"{place / name} is not JSON: {error}") from None


def _modules(place: Path) -> list[dict[str, str]]:
    modules: list[dict[str, str]] = _read(place, "modules.json", [])
    for module in modules:
        if not module["type"].endswith(_MODULES):
            raise SetupError(f"the model in {place} has a {module['type']}, which is not known")
    return modules


def _pooling(place: Path) -> Literal["mean", "cls", "max"]:
    """As the folder says, the mean if it says nothing; of several at once there is no graph."""
    paths = [module["path"] for module in _modules(place) if "Pooling" in module["type"]]
    config = _read(place, f"{paths[0]}/config.json", {}) if paths else {}
    chosen = [name for name, value in config.items() if value is True and "pooling_mode" in name]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in _POOLING:
        raise SetupError(f"the model in {place} pools by {', '.join(chosen)}, which is not known")
    return _POOLING[chosen[0]]


def _model_id(place: Path, file: Path) -> str:
    """Of samples all over the weights: to read gigabytes in every process would take too long."""
    size = file.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=6)
    with file.open("rb") as stream:
        for sample in range(_SAMPLES):
            stream.seek(sample * max(size - _SAMPLE_BYTES, 0) // _SAMPLES)
            digest.update(stream.read(_SAMPLE_BYTES))
    return f"local/{place.resolve().name}@{digest.hexdigest()}"
