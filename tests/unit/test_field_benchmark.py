"""`freshet bench` without Spark: its figures on what #399 published, its files, its search."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from freshet.cli import bench
from freshet.errors import SetupError

ROOT = Path(__file__).parent.parent.parent
NAMES = (
    "cells",
    "figures",
    "growth",
    "recovery",
    "report",
    "samples",
    "sizes",
    "stores",
    "tables",
)


@pytest.fixture(scope="module")
def field() -> Iterator[Any]:
    """The modules of the benchmark, by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        found = {name: import_module(f"field_{name}") for name in (*NAMES, "triggers")}
        yield SimpleNamespace(**found)


def of_run(samples: list[Any], run: str) -> list[Any]:
    return [sample for sample in samples if sample.run == run]


# --- what was published --------------------------------------------------------------------------


@pytest.mark.parametrize("experiment", ["E1", "E2", "E3", "E4"])
def test_files_have_the_columns_of_the_reference_and_come_back_as_they_were(
    field: Any, tmp_path: Path, experiment: str
) -> None:
    (published,) = field.samples.REFERENCES.glob(f"streaming_{experiment}_*.csv")
    field.samples.write(tmp_path / "again.csv", field.samples.read(published))
    assert (tmp_path / "again.csv").read_text() == published.read_text()


def test_e1_of_the_reference_is_summed_up_as_it_is_known(field: Any) -> None:
    found = field.figures.Growth.of("#399", field.samples.reference("E1"))
    assert (found.batches, found.fragments, found.versions) == (1998, 23976, 3997)
    assert found.manifest_bytes == 1_999_274
    assert (found.first.p50, found.last.p50) == (146, 2380)
    assert [round(value) for value in (found.whole.p50, found.whole.p90, found.whole.p99)] == [
        1161, 2267, 2639,
    ]  # fmt: skip
    slope, at_none = field.figures.slope(
        field.samples.counted(field.samples.reference("E1")), "fragment_count"
    )
    assert round(slope, 4) == 0.1054
    assert round(at_none) == -53
    assert found.ms_per_1000_fragments == pytest.approx(1_000 * slope)


def test_e2_e3_and_e4_of_the_reference_are_summed_up_as_they_are_known(field: Any) -> None:
    published = field.samples.reference
    for run, p50, p90, most in (("optimize-every-50", 157, 191, 356),
                                ("optimize-every-200", 190, 250, 402)):  # fmt: skip
        own = field.samples.counted(of_run(published("E2"), run))
        spread = field.figures.Spread.of(own)
        assert (spread.batches, round(spread.p50), round(spread.p90)) == (499, p50, p90)
        assert spread.most == most
    looks = {(look.versions, look.run): look for look in field.figures.looks_of(published("E3"))}
    assert len(looks) == 12
    assert looks[100, "lookback=100"].mean_ms == 20.4
    assert looks[1000, "lookback=1000"].visited == 1000
    assert round(looks[1000, "lookback=1000"].mean_ms) == 507
    for run, batches, p50, p90 in (("trigger=1 second", 119, 173, 207),
                                   ("trigger=5 seconds", 24, 95, 102),
                                   ("trigger=15 seconds", 8, 81, 87)):  # fmt: skip
        held = field.figures.Held.of(of_run(published("E4"), run), 1_000)
        assert (held.spread.batches, held.spread.p50) == (batches, p50)
        assert round(held.spread.p90) == p90
        assert round(held.rows_per_s) == 1_000
        assert held.is_held


# --- figures -------------------------------------------------------------------------------------


def e1(field: Any, rival: str, batches: int, **told: int) -> list[Any]:
    """Batches that get dearer by a millisecond each, in two turns that start slowly."""
    label = field.samples.label
    return [
        field.samples.Sample(
            "E1", label("no-optimize", rival, 2 * batch // batches), batch, batch, 5_000,
            9_999 if batch % (batches // 2) < field.samples.FIRST_BATCHES else 100 + batch,
            fragment_count=2 * batch + 2, lance_version=batch + 2, manifest_bytes=100, **told,
        )
        for batch in range(batches)
    ]  # fmt: skip


def test_the_first_batches_of_a_turn_are_in_no_figure(field: Any) -> None:
    found = field.figures.Growth.of("freshet", e1(field, "freshet", 400))
    assert found.batches == 400
    assert found.whole.most == 499
    assert found.whole.batches == 400 - 2 * field.samples.FIRST_BATCHES
    assert found.ms_per_1000_fragments == pytest.approx(500)
    assert found.ms_per_1000_batches == pytest.approx(1_000)
    assert found.last.p50 == pytest.approx(449.5)
    assert found.p50_ratio == pytest.approx(found.last.p50 / found.second.p50)


def test_a_few_batches_tell_no_slope(field: Any) -> None:
    assert isnan(field.figures.Growth.of("freshet", e1(field, "freshet", 40)).ms_per_1000_batches)


def test_fragments_that_are_folded_tell_no_slope(field: Any) -> None:
    samples = e1(field, "freshet+optimizer", 400)
    folded = [*samples[:300], *(replace(one, fragment_count=5) for one in samples[300:])]
    assert isnan(field.figures.Growth.of("freshet+optimizer", folded).ms_per_1000_fragments)
    assert not isnan(field.figures.Growth.of("freshet+optimizer", folded).ms_per_1000_batches)


def test_a_trigger_is_not_held_if_batches_are_late_or_rows_are_left(field: Any) -> None:
    def held(took_ms: int, rows: int) -> bool:
        label = field.samples.label("trigger=5 seconds", "freshet", 0)
        samples = [
            field.samples.Sample("E4", label, batch, 5_000 * batch, rows, took_ms)
            for batch in range(12)
        ]
        return bool(field.figures.Held.of(samples, 1_000).is_held)

    assert held(4_999, 5_000)
    assert not held(5_001, 5_000)
    assert not held(900, 4_000)


def test_the_highest_rate_is_found_between_one_that_is_held_and_one_that_is_not(field: Any) -> None:
    asked: list[float] = []

    def probe(rate: float) -> float:
        asked.append(rate)
        return 50 + rate / 500  # ms: within a second up to 475,000 a second

    for first in (1_000, 200_000, 4_000_000):
        found = field.triggers.Search(probe, 1_000.0).run(first)
        assert found.held < 475_000 < found.too_much
        assert found.too_much / found.held <= field.triggers.NEAR
        assert found.held_ms == probe(found.held)
    assert len(asked) <= 3 * (field.triggers.MOST_PROBES + 1)


# --- recovery ------------------------------------------------------------------------------------


def test_a_crash_before_the_ledgers_row_is_recovered_by_opening_one_version(
    field: Any, tmp_path: Path
) -> None:
    size = replace(field.sizes.QUICK, versions=(5, 20), look_backs=(10,), trials=2)
    found = field.figures.looks_of(field.recovery.recovery(tmp_path, size, lambda _: None).samples)
    seen = {(look.rival, look.run, look.versions): look.visited for look in found}
    assert seen == {
        ("#399", "lookback=10", 5): 5,
        ("#399", "lookback=10", 20): 10,
        **{("freshet", f"{run}{part}", versions): 1
           for run in ("recover", "recover-compacted") for part in ("", "-step-1", "-step-2")
           for versions in (5, 20)},
    }  # fmt: skip


# --- what is written -----------------------------------------------------------------------------


def test_tables_pictures_and_the_page_follow_from_the_files(
    field: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, out = field.report, tmp_path / "out"
    rate = field.figures.Rate("freshet", "id, value", 1.0, 4e5, 900.0, 5e5)
    out.mkdir()
    for name in ("E2", "E3", "E4"):
        renamed = [
            field.samples.Sample(**vars(one) | {"run_label": f"{one.run_label};rival=#399"})
            for one in field.samples.reference(name)
        ]
        report.keep(out, facts_of(field, name), renamed, [rate] if name == "E4" else [])
    grown = e1(field, "freshet+optimizer", 400) + e1(field, "freshet", 400)
    grown += e1(field, "naive", 200) + e1(field, "merge_insert", 40)
    report.keep(out, facts_of(field, "E1"), grown)
    made = report.report(out)

    assert [table.title[:2] for table in made.tables] == ["E1", "E1", "E2", "E3", "E4", "E4"]
    assert {path.name for path in made.files} == {
        "results.md", *(f"E{n}.csv" for n in range(1, 5)), *(f"field-e{n}.png" for n in range(1, 5))
    }  # fmt: skip
    assert all(path.stat().st_size for path in made.files)
    assert "NOT met" in made.text  # batches that grow by a millisecond each
    # As many batches of both, and a keyed rival only beside a keyed one.
    told = "Over their first 200 batches, `naive` is not faster than `freshet`: p50 200 and 200 ms."
    assert told in made.text
    assert "`merge_insert` is" not in made.text
    assert "| freshet           |" in made.text
    with (out / "E1.csv").open() as file:
        assert tuple(next(csv.reader(file))) == field.samples.COLUMNS

    page = tmp_path / "docs" / "benchmarks.md"
    (tmp_path / "docs" / "plots").mkdir(parents=True)
    page.write_text(f"before\n{report.BEGIN}: by hand -->\nold figures\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "PAGE", page)
    written = report.write_docs(made)
    assert "old figures" not in page.read_text()
    assert page.read_text().startswith(f"before\n{report.BEGIN}: by hand -->\n")
    assert page.read_text().endswith(f"{report.END}\nafter\n")
    assert "(plots/field-e1.png)" in page.read_text()
    assert all(path.exists() for path in written)
    assert len(written) == 5
    report.write_docs(made)
    assert page.read_text().count("### E1") == 1


def facts_of(field: Any, experiment: str, **told: Any) -> Any:
    return field.report.Facts(experiment, "quick", "a machine", "now", 1.0, 5_000, 1_000, **told)


def test_a_run_on_s3_tells_its_requests_and_has_a_place_of_its_own_on_the_page(
    field: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, out = field.report, tmp_path / "out"
    out.mkdir()
    store = field.stores.Store("s3://b", server=object(), delay_ms=30.0)
    asked = {"freshet": {"LIST": 40, "GET": 200, "PUT": 100}, "gone": {"GET": 1}}
    facts = facts_of(field, "E1", store=store.told, requests=asked)
    report.keep(out, facts, e1(field, "freshet", 40))
    made = report.report(out)
    assert "| freshet |  1.0 | 5.0 |  0.0 | 2.5 |  0.0 |    0.0 | 8.5 |" in made.text
    assert "gone" not in made.text
    assert "S3 on the same machine, 30 ms before every answer" in made.text
    assert {path.name for path in made.files} == {"results.md", "E1.csv", "field-s3-e1.png"}

    page = tmp_path / "docs" / "benchmarks.md"
    (tmp_path / "docs" / "plots").mkdir(parents=True)
    marks = (report.BEGIN, report.BEGIN_S3)
    page.write_text("".join(f"{mark} -->\nold\n{report.END}\n" for mark in marks))
    monkeypatch.setattr(report, "PAGE", page)
    report.write_docs(made)
    on_disk, _, on_s3 = page.read_text().partition(report.BEGIN_S3)
    assert "old" in on_disk
    assert "old" not in on_s3
    assert "### E1, on S3" in on_s3
    assert "(plots/field-s3-e1.png)" in on_s3


def test_what_is_not_run_on_s3_is_refused_by_name(field: Any) -> None:
    wish_of = import_module("field").Wish.of
    assert wish_of(s3_delay_ms=30.0).experiments == ("E1", "E4")
    assert wish_of(s3_delay_ms=0.0, is_quick=True).size.name == "quick"
    with pytest.raises(ValueError, match="no experiment on S3 named E3: there are E1, E4"):
        wish_of(s3_delay_ms=30.0, experiments=["E3"])


def test_a_disk_is_cleared_and_a_server_is_asked_what_it_was_asked(
    field: Any, tmp_path: Path
) -> None:
    stores = field.stores
    with stores.store(tmp_path, None) as disk:
        (tmp_path / "a" / "b").mkdir(parents=True)
        assert disk.below("a").place("b") == str(tmp_path / "a" / "b")
        assert not disk.asked()
        disk.below("a").clear("b")
        assert [path.name for path in (tmp_path / "a").iterdir()] == []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"):
            patch.setenv(name, "")  # put back afterwards
        with stores.store(tmp_path, 0.0) as remote:
            before = remote.asked()
            remote.server.put(stores.BUCKET, "one", b"1")
            remote.server.put(stores.BUCKET, "two", b"2")
            assert remote.asked() - before == {"PUT": 2}


# --- the command ---------------------------------------------------------------------------------


def test_the_command_names_the_rivals_experiments_and_folder_that_there_are(field: Any) -> None:
    entry = import_module("field")
    for option, names in (
        (bench.RivalsOption, entry.RIVALS),
        (bench.ExperimentsOption, field.sizes.EXPERIMENTS),
    ):
        told = option.__metadata__[0].help
        assert all(name in told for name in names)
    told = bench.OutOption.__metadata__[0].help
    assert str(entry.OUT) in told
    assert entry.OUT_S3.name in told
    assert set(field.sizes.SHARES) == set(entry.RIVALS)
    wish = entry.Wish.of(rivals=["#399"], batches=7)
    assert (wish.rivals, wish.size.batches, wish.experiments) == (
        ("#399",),
        7,
        ("E1", "E2", "E3", "E4"),
    )
    with pytest.raises(ValueError, match="there is no rival named kafka: there are freshet, "):
        entry.Wish.of(rivals=["kafka"])


def test_the_command_says_where_the_benchmarks_are_if_they_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.benchmarks_folder() == ROOT / "benchmarks"
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "site/freshet/cli/bench.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match="come with the repository"):
        bench.benchmarks_folder()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "field.py").touch()
    assert bench.benchmarks_folder() == tmp_path / "benchmarks"
