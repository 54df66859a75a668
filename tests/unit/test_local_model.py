"""Models in folders: what their files say is what is run."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from freshet.embedding import Provider, ProviderSpec
from freshet.embedding.minilm import MiniLM, model_folder
from freshet.errors import SettingsError, SetupError
from freshet.settings import EmbeddingSettings, from_values

TEXTS = ["one", "a longer text about something else, with more words", "Drop all the nulls."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the installed model's folder; its weights are only linked."""
    for file in ("config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json"):
        shutil.copy(model_folder() / file, tmp_path)
    shutil.copytree(model_folder() / "1_Pooling", tmp_path / "1_Pooling")
    (tmp_path / "model.safetensors").symlink_to(model_folder() / "model.safetensors")
    return tmp_path


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def load(folder: Path) -> Provider:
    return ProviderSpec.of(EmbeddingSettings(provider="local", folder=str(folder))).load()


def test_the_default_model_from_its_folder_is_the_default_model(folder: Path) -> None:
    model = load(folder)
    assert (model.dimension, model.window_tokens) == (MiniLM.dimension, MiniLM.window_tokens)
    assert np.abs(model.embed(TEXTS) - MiniLM().embed(TEXTS)).max() <= 2e-3


@pytest.mark.parametrize("mode", ["cls_token", "max_tokens"])
def test_pooling_is_as_the_folder_says(folder: Path, mode: str) -> None:
    told = {"pooling_mode_mean_tokens": False, f"pooling_mode_{mode}": True}
    change(folder / "1_Pooling" / "config.json", **told)
    model = load(folder)
    vectors = model.embed(TEXTS)
    assert np.abs(vectors - MiniLM().embed(TEXTS)).max() > 0.05
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    assert np.abs(vectors - alone).max() <= 2e-3


def test_without_a_module_for_it_vectors_are_not_normalised(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:2]))
    vectors, unit = load(folder).embed(TEXTS), MiniLM().embed(TEXTS)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (lengths > 1.5).all()
    assert np.abs(vectors / lengths - unit).max() <= 4e-3


def test_roberta_has_two_positions_more_and_another_name_before_its_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    places = "embeddings.position_embeddings.weight"
    weights[places] = np.concatenate([np.full((2, 384), 9, np.float32), weights[places]])
    (folder / "model.safetensors").unlink()
    renamed = {f"roberta.{name}": values for name, values in weights.items()}
    save_file(renamed, folder / "model.safetensors")
    change(folder / "config.json", model_type="roberta", max_position_embeddings=514)
    model = load(folder)
    assert np.abs(model.embed(TEXTS) - MiniLM().embed(TEXTS)).max() <= 2e-3


def test_other_weights_are_another_model(folder: Path, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("x") / folder.name
    shutil.copytree(folder, other)
    weights = load_file(other / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] = weights["embeddings.LayerNorm.bias"] + 1
    (other / "model.safetensors").unlink()
    save_file(weights, other / "model.safetensors")
    assert load(folder).model_id != load(other).model_id
    assert load(folder).model_id.startswith(f"local/{folder.name}@")


def test_a_folder_that_cannot_be_run_says_why(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "elsewhere")
    with pytest.raises(SetupError, match=r"no tokenizer\.json"):
        load(folder)
    change(folder / "config.json", model_type="mpnet")
    with pytest.raises(SetupError, match="kind mpnet"):
        load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(SetupError, match="no folder of a model"):
        load(folder)


def test_pooling_that_is_not_known_is_refused(folder: Path) -> None:
    change(folder / "1_Pooling" / "config.json", pooling_mode_max_tokens=True)
    with pytest.raises(SetupError, match="pools by"):
        load(folder)


def test_a_module_that_is_not_known_is_refused(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    dense = {"path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*modules, dense]))
    with pytest.raises(SetupError, match=r"has a sentence_transformers\.models\.Dense"):
        load(folder)


def test_the_settings_need_a_folder_and_find_it_beside_the_file(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "pipeline": {"name": "docs", "home": "h"},
        "landing": {"path": "in"},
        "changes": {"key": "id"},
        "gold": {"text": ["title"]},
    }
    with pytest.raises(SettingsError, match="needs folder"):
        from_values(values | {"embedding": {"provider": "local"}})
    told = {"provider": "local", "folder": "models/mine"}
    found = from_values(values | {"embedding": told}, folder=tmp_path).embedding.folder
    assert found == str(tmp_path / "models" / "mine")
