"""Any sentence model of the BERT family in a folder, as sentence-transformers saves it."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from freshet.embedding.bert import SPECIAL_TOKENS, BertEncoder
from freshet.embedding.bert_graph import Shape
from freshet.errors import SetupError

_FIRST_POSITIONS: Final = {"bert": 0, "roberta": 2, "xlm-roberta": 2, "camembert": 2}
"""The models that the graph is of, and where their position tables begin."""
_POOLING: Final[dict[str, Literal["mean", "cls", "max"]]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Facts:
    """What the files of a folder say of its model."""

    model_id: str
    shape: Shape
    window_tokens: int


class LocalModel(BertEncoder):
    """A model whose shape, pooling, normalisation and window its own files say."""

    def __init__(self, folder: str, *, batch_tokens: int = 2_048, threads: int = 1) -> None:
        self._facts = facts_of(folder)
        super().__init__(
            Path(folder),
            self._facts.shape,
            self._facts.window_tokens,
            batch_tokens=batch_tokens,
            threads=threads,
        )

    @property
    def model_id(self) -> str:
        """The folder's name and what its weights look like: another folder is the same model."""
        return self._facts.model_id

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._facts.shape.hidden

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
    kind = config.get("model_type")
    if kind not in _FIRST_POSITIONS or config.get("hidden_act", "gelu") != "gelu":
        raise SetupError(
            f"the model in {folder} is of the kind {kind} ({config.get('hidden_act')}): only "
            f"{', '.join(_FIRST_POSITIONS)} with gelu can be run; serve others, and use the "
            'provider "openai"'
        )
    for name in ("model.safetensors", "tokenizer.json"):
        if not (place / name).is_file():
            raise SetupError(f"there is no {name} in {folder}: save the model with it")
    first = _FIRST_POSITIONS[kind]
    shape = Shape(
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        epsilon=config.get("layer_norm_eps", 1e-12),
        first_position=first,
        pooling=_pooling(place),
        is_unit=any("Normalize" in module["type"] for module in _modules(place)),
    )
    most = config["max_position_embeddings"] - first
    told = _read(place, "sentence_bert_config.json", {}).get("max_seq_length") or most
    return Facts(_model_id(place), shape, min(told, most) - SPECIAL_TOKENS)


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


def _model_id(place: Path) -> str:
    """Of samples all over the weights: to read gigabytes in every process would take too long."""
    file = place / "model.safetensors"
    size = file.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=6)
    with file.open("rb") as stream:
        for sample in range(_SAMPLES):
            stream.seek(sample * max(size - _SAMPLE_BYTES, 0) // _SAMPLES)
            digest.update(stream.read(_SAMPLE_BYTES))
    return f"local/{place.resolve().name}@{digest.hexdigest()}"
