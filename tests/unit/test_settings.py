from pathlib import Path

import pytest

from freshet.errors import SettingsError
from freshet.landing import LandingOptions
from freshet.settings import from_values, load

MINIMAL = {
    "pipeline": {"name": "a", "home": "h"},
    "landing": {"path": "l"},
    "changes": {"key": "id"},
    "gold": {"text": ["body"]},
}


def with_(section: str, **values: object) -> dict[str, dict[str, object]]:
    return MINIMAL | {section: MINIMAL.get(section, {}) | values}


def test_options_of_the_landing_source_survive_their_way_through_spark() -> None:
    told = LandingOptions(
        path="in",
        state="files",
        recursive=False,
        include_existing=False,
        csv_header=False,
        csv_columns=("a b", "c,d"),
        csv_null="\\N",
        csv_escape="\\",
        names_sort=True,
        max_files_per_trigger=7,
        exclude=("*.tmp", "x/**"),
    )
    assert LandingOptions.parse(told.as_options()) == told
    usual = LandingOptions(path="in", state="files")
    assert usual.as_options() == {"path": "in", "state": "files"}
    assert LandingOptions.parse(usual.as_options()) == usual


def test_defaults_fill_what_is_left_out() -> None:
    settings = from_values(MINIMAL)
    assert settings.embedding.provider == "minilm"
    assert settings.pipeline.trigger == "10 seconds"
    assert settings.changes.key == ("id",)


def test_relative_paths_start_at_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "conf" / "freshet.toml"
    file.parent.mkdir()
    file.write_text(
        '[pipeline]\nname="a"\nhome="./h"\n[landing]\npath="../in"\n[changes]\nkey=["id"]\n'
        '[gold]\ntext=["body"]\n'
    )
    settings = load(file)
    assert settings.pipeline.home == str(tmp_path / "conf" / "h")
    assert settings.landing.path == str(tmp_path / "in")


def test_addresses_of_object_stores_stay_as_they_are() -> None:
    settings = from_values(with_("pipeline", home="s3://bucket/home"))
    assert settings.home.bronze == "s3://bucket/home/bronze"
    assert not settings.home.is_local


@pytest.mark.parametrize("home", ["abfss://box@account.dfs.core.windows.net/h", "s3a://bucket/h"])
def test_a_home_where_tables_cannot_be_kept_yet_is_refused_by_name(home: str) -> None:
    with pytest.raises(SettingsError, match=f"not on {home.partition(':')[0]}:// yet"):
        from_values(with_("pipeline", home=home))
    assert from_values(with_("landing", path=home)).landing.path == home


def test_the_environment_beats_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_PIPELINE__TRIGGER", "5 seconds")
    monkeypatch.setenv("FRESHET_CHANGES__KEY", '["a", "b"]')
    settings = from_values(MINIMAL)
    assert settings.pipeline.trigger == "5 seconds"
    assert settings.changes.key == ("a", "b")


def test_a_misspelt_variable_is_an_error_and_not_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_PIPELINE__TRIGER", "5 seconds")
    with pytest.raises(SettingsError, match=r'FRESHET_PIPELINE__TRIGER.*did you mean "trigger"'):
        from_values(MINIMAL)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"pipelin": {}}, 'unknown section "pipelin": did you mean "pipeline"?'),
        (with_("landing", formt="json"), 'unknown key "formt" in [landing]: did you mean "format"'),
        (with_("embedding", provider="minlm"), 'embedding.provider is "minlm", but must be \'mini'),
        (with_("changes", envelope="oracle"), 'changes.envelope is "oracle", but must be'),
        (with_("pipeline", trigger="soon"), 'pipeline.trigger is "soon", which is not of the'),
        (with_("gold", template="x"), "give either text"),
        (with_("gold", text=[], template="no column"), "template must name at least one column"),
        (
            with_("gold", text=[], template="{title!r}"),
            "between braces stands a column and nothing",
        ),
        (
            with_("gold", text=[], template="{title:>9}"),
            "between braces stands a column and nothing",
        ),
        (
            with_("gold", text=[], template="{title}{}"),
            "between braces stands a column and nothing",
        ),
        (with_("gold", text=[], template="{title"), "a brace that is no column's is written twice"),
        (with_("gold", text=["a\\b"]), "may not hold both quotes or a backslash"),
        (with_("gold", missing_text="drop"), 'gold.missing_text is "drop", but must be'),
        (with_("gold", vectors={"v": []}), 'vectors: "v" names no columns'),
        (with_("gold", vectors={"a b": ["t"]}), '"a b" is not a name of letters'),
        (with_("gold", vectors={"_distance": ["t"]}), '"_distance" is not a name of letters'),
        (with_("gold", vectors={"Vector": ["t"]}), '"Vector" needs the column Vector, which is ta'),
        (with_("gold", vectors={"content": ["t"]}), '"content" needs the column content_hash'),
        (with_("gold", vectors={"v": ["t"], "v_hash": ["t"]}), '"v_hash" needs the column v_hash'),
        (
            with_("gold", attributes=["V:long"], vectors={"v": ["t"]}),
            '"v" needs the column v, which',
        ),
        (with_("gold", attributes=["price:money"]), '"price" has the unknown type "money"'),
        (with_("gold", attributes=["vector"]), '"vector" is a column of every index already'),
        (with_("gold", attributes=["a", "a:long"]), "attributes names a column twice"),
        (with_("gold", chunk_tokens=16, chunk_overlap=16), "chunk_overlap must be smaller"),
        ({name: MINIMAL[name] for name in ("pipeline", "landing")}, "[changes] is missing"),
    ],
)
def test_wrong_settings_are_one_sentence_that_names_the_place(
    values: dict[str, dict[str, object]], sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        from_values(values)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="`freshet init` writes one"):
        load(tmp_path / "freshet.toml")


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "freshet.toml"
    file.write_text("[pipeline\n")
    with pytest.raises(SettingsError, match=r"freshet\.toml: cannot be read"):
        load(file)


def test_attributes_have_types_and_templates_have_columns() -> None:
    gold = from_values(with_("gold", attributes=["section", "price: double"])).gold
    assert gold.attribute_types == {"section": "string", "price": "double"}
    gold = from_values(with_("gold", text=[], template="{title}: {body}")).gold
    assert gold.text_columns == ("title", "body")
    gold = from_values(with_("gold", text=[], template="{{{it's.title}}} {b}}}")).gold
    assert gold.text_columns == ("it's.title", "b")


def test_further_vectors_take_two_columns_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHET_GOLD__VECTORS", '{"v": ["title"]}')
    gold = from_values(MINIMAL).gold
    assert gold.vectors == {"v": ("title",)}
    assert gold.vector_columns == ("v", "v_hash")
