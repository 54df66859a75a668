"""What the settings say of the model, and what the page of the models says of them."""

import pickle
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from freshet.embedding import ProviderSpec
from freshet.errors import SettingsError, SetupError
from freshet.settings import EmbeddingSettings, from_values

PAGE = Path(__file__).parent.parent.parent / "docs" / "embedding.md"
PROVIDERS = get_args(EmbeddingSettings.model_fields["provider"].annotation)


def told(**embedding: Any) -> EmbeddingSettings:
    return from_values(
        {
            "pipeline": {"name": "docs", "home": "h"},
            "landing": {"path": "in"},
            "changes": {"key": "id"},
            "gold": {"text": ["title"]},
            "embedding": embedding,
        }
    ).embedding


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"provider": "openai", "model": "m"}, "needs model and dimension"),
        ({"provider": "local"}, "needs folder"),
        ({"provider": "sentence-transformers"}, "needs model"),
        ({"provider": "lancedb"}, "needs function"),
        ({"precision": "f16"}, "embedding.precision is \"f16\", but must be 'auto' or 'f32'"),
        ({"max_tokens_per_hour": 0}, "embedding.max_tokens_per_hour"),
    ],
)
def test_wrong_settings_are_named_in_one_sentence(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)) as caught:
        told(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"provider": "minilm", "precision": "f32"},
        {"provider": "sentence-transformers", "model": "m", "device": "cuda:1"},
        {"provider": "lancedb", "function": "f", "options": {"a": [1], "b": {"c": "$var:d"}}},
    ],
)
def test_a_spec_travels_and_is_the_same_again(values: dict[str, Any]) -> None:
    spec = ProviderSpec.of(told(**values))
    again = pickle.loads(pickle.dumps(spec))  # noqa: S301
    assert again == spec
    assert again.load() is spec.load()


def test_a_library_that_is_not_installed_is_named_with_the_command_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("freshet.embedding.sentence_models.find_spec", lambda name: None)
    spec = ProviderSpec.of(told(provider="sentence-transformers", model="of nobody"))
    with pytest.raises(SetupError, match=r"pip install 'freshet\[sentence-transformers\]'"):
        spec.check()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_page_of_the_models_tells_every_provider_and_its_guarantee(provider: str) -> None:
    text = PAGE.read_text()
    [row] = re.findall(rf"^\| `{provider}` \|.*\|$", text, re.MULTILINE)
    *_, said = (cell.strip() for cell in row.strip("|").split("|"))
    from freshet.embedding.provider import _provider_class

    assert {"yes": True, "not known": False}[said] is _provider_class(provider).is_deterministic
    assert provider == "fake" or f"## `{provider}`" in text
