"""What stands in two places must be the same in both."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import freshet
from freshet import schemas
from freshet.changes.normalise import AUTO, ENVELOPES
from freshet.evolution.decide import Mode as EvolutionMode
from freshet.landing import STATES
from freshet.landing.options import LandingOptions
from freshet.landing.read_options import FORMATS
from freshet.monitor import OptimizerStatus
from freshet.search import Mode as SearchMode
from freshet.settings import (
    ChangesSettings,
    EmbeddingSettings,
    LandingSettings,
    SearchSettings,
    SinkSettings,
)
from freshet.sink import LanceSink, Mode, Step, bookkeeping, commit_protocol
from freshet.sink.columns import VECTOR_SIZE
from freshet.sink.modes import Kind

ROOT = Path(__file__).parent.parent.parent
PACKAGES = [
    name
    for _, name, is_package in pkgutil.walk_packages(freshet.__path__, "freshet.")
    if is_package
]


def references() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("refs", ROOT / "scripts/write_references.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: dict[str, Any] = module.REFERENCES
    return made


@pytest.mark.parametrize("name", ["settings.md", "cli.md"])
def test_the_references_are_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == references()[name](), "run `make docs`"


@pytest.mark.parametrize("package", ["freshet", *PACKAGES])
def test_exported_names_are_sorted_and_there(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    # Constants, classes, the rest: the linter's order.
    kinds = {name: (not name.isupper(), not name[0].isupper(), name) for name in names}
    assert list(names) == sorted(names, key=kinds.__getitem__)
    assert all(hasattr(module, name) for name in names)


def test_choices_in_the_settings_are_those_of_the_stages() -> None:
    def choices(section: Any, key: str) -> tuple[str, ...]:
        return get_args(section.model_fields[key].annotation)

    assert set(choices(ChangesSettings, "envelope")) == {AUTO, *ENVELOPES}
    assert choices(LandingSettings, "format") == FORMATS
    assert choices(LandingSettings, "schema_mode") == tuple(EvolutionMode)
    assert choices(SearchSettings, "mode") == tuple(SearchMode)
    for provider in choices(EmbeddingSettings, "provider"):
        from freshet.embedding import ProviderSpec
        from freshet.embedding.minilm import model_folder

        told = {"model": "m", "dimension": 8, "folder": str(model_folder()), "function": "f"}
        spec = ProviderSpec.of(EmbeddingSettings(provider=provider, **told))
        assert spec.load().texts_per_task > 0


def test_the_options_of_the_source_are_the_settings_of_the_landing_zone() -> None:
    own = {"state", "parallelism"}  # what a pipeline knows by itself
    options = {field.name: field.default for field in fields(LandingOptions)}
    settings = {
        name: field.default
        for name, field in LandingSettings.model_fields.items()
        if name != "schema_mode"  # which is of the records, not of the files
    }
    assert options.keys() - own == settings.keys()
    for name in settings.keys() - {"path"}:
        assert options[name] == settings[name], name


def test_the_page_of_the_landing_source_tells_its_columns_and_states() -> None:
    text = (ROOT / "docs/landing.md").read_text()
    for name in schemas.LANDING.names:
        assert f"`{name}`" in text, name
    for state in STATES:
        assert state in text, state


def test_the_protocol_numbers_its_steps_once_and_everywhere() -> None:
    doc = commit_protocol.__doc__ or ""
    named = re.findall(r"^(\d)\. (\w+)", doc, re.MULTILINE)
    assert [name.lower() for _, name in named[:-1]] == [str(step) for step in Step]
    modules = (commit_protocol, bookkeeping)
    source = "".join(Path(module.__file__).read_text() for module in modules)
    marked = re.findall(r"Step\.(\w+), .*# (\d)$", source, re.MULTILINE)
    assert {(step.lower(), number) for step, number in marked} == {
        (name.lower(), number) for number, name in named[:-1]
    }
    guarantees = (ROOT / "docs/guarantees.md").read_text()
    for number, name in named:
        assert f"{number}. {name}" in guarantees


def test_the_settings_know_every_kind_of_sink() -> None:
    """A pipeline's own index stands for the native one."""
    kinds = get_args(SinkSettings.model_fields["kind"].annotation)
    assert {*kinds, Kind.NATIVE_LANCE} == set(Kind)


def test_every_source_and_sink_states_its_guarantee() -> None:
    for name in (
        "landing.source",
        "landing.discovery",
        "landing.files",
        "landing.archive",
        "recovery.backup",
        "recovery.restore",
        "recovery.rebuild",
        "evolution.history",
        "bronze.table",
        "gold.table",
        "gold.watched",
        "pipeline.rebuilding",
        "sink.repairing",
        "sink.bookkeeping",
        "sink.commit_protocol",
        "sink.delta",
        "sink.postgres",
        "sink.spark_sinks",
        "sink.store_sink",
        "sink.lance_sink",
        "sink.leases",
        "sink.native",
        "sink.ledger",
        "sink.tombstones",
        "stores.lance_search",
    ):
        source = Path(importlib.import_module(f"freshet.{name}").__file__ or "").read_text()
        assert "Guarantee: " in source, name


def test_every_proof_that_the_documents_name_exists() -> None:
    for document in ("ARCHITECTURE.md", "docs/guarantees.md"):
        text = (ROOT / document).read_text()
        proofs = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
        assert proofs
        for file, test in proofs:
            assert (ROOT / file).exists(), file
            assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


def test_the_architecture_page_names_every_stage() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for stage in (ROOT / "src/freshet").iterdir():
        if stage.is_dir() and not stage.name.startswith("_"):
            assert f"`{stage.name}/`" in text, stage.name


def test_the_glossary_explains_the_columns_of_the_ledger() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    for name in schemas.LEDGER.names:
        assert f"`{name}`" in text, name


def test_the_page_of_monitoring_explains_every_figure_and_column() -> None:
    text = (ROOT / "docs/monitoring.md").read_text()
    for name in (*schemas.HEALTH.names, *schemas.OPTIMIZER.names):
        assert f"`{name}`" in text, name
    for name in (one.name for one in fields(OptimizerStatus)):
        assert f"`optimizer.{name}`" in text or f"`{name}`" in text, name


def test_the_page_of_the_sink_explains_its_modes_arguments_and_options() -> None:
    text = (ROOT / "docs/sink.md").read_text()
    for mode in Mode:
        assert f'`"{mode}"`' in text, mode
    seams = {"self", "uri", "mode", "rows", "clock", "probe"}  # of the pipeline and of tests
    arguments = set(inspect.signature(LanceSink.__init__).parameters) - seams
    for name in arguments | {VECTOR_SIZE}:
        assert name in text, name


def test_the_readme_names_the_two_commands_and_links_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md"]:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if "://" not in link:
                assert (document.parent / link).exists(), f"{document.name}: {link}"
