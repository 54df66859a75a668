"""What a profile derives from its figures, and how that gets into the settings file."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.cli.init import TEMPLATE
from freshet.errors import SettingsError
from freshet.profiling import Advice, Evidence, derive, write
from freshet.profiling.evidence import FileFacts, FixedTime, Lengths, Rate, Spread
from freshet.profiling.measure import fixed_time, runs_of, spread
from freshet.profiling.write import rewritten
from freshet.settings import Settings, from_values, load, override_of
from freshet.units import duration_of, round_down, seconds_of

EVIDENCE = Evidence(
    source="landing",
    events=110,
    files=(FileFacts("a", 1_000, 100), FileFacts("b", 3_000, 300)),
    lengths=Lengths((400,) * 100, (100,) * 100, (2,) * 100),
    rates=(Rate(512, 60, 98), Rate(1_024, 65, 100), Rate(8_192, 70, 80)),
    cores=2,
    partitions=2,
    fixed=FixedTime(0.5, 12),
    model_id="fake",
)


def settings_with(trigger: str = "10 seconds", rows: int = 8_000) -> Settings:
    values = {
        "pipeline": {"name": "d", "home": "h", "trigger": trigger, "max_rows_per_batch": rows},
        "landing": {"path": "l"},
        "changes": {"key": ["id"]},
        "gold": {"text": ["t"]},
    }
    return from_values(values)


def test_the_fewest_tokens_win_that_are_within_three_percent_of_the_best() -> None:
    derived = derive(EVIDENCE, settings_with())
    assert (derived.batch_tokens.old, derived.batch_tokens.new) == (2_048, 512)
    assert (
        "98 texts/s on all cores, within 3 % of the best (1024: 100)" in derived.batch_tokens.reason
    )


def test_a_batch_that_takes_too_long_for_the_trigger_gets_fewer_rows() -> None:
    derived = derive(EVIDENCE, settings_with())
    # (10 s / 1.5 - 0.5 s) * 98 texts/s / 2 texts = 302 records
    assert derived.max_rows_per_batch.new == 300
    assert derived.trigger.new == "10 seconds"
    assert derived.max_files_per_trigger.new == 1  # of 200 records each
    assert "one of 300 takes 6.6 s" in derived.max_rows_per_batch.reason


def test_what_fits_is_left_as_it_is() -> None:
    chosen = settings_with("5 minutes", 5_000)
    derived = derive(EVIDENCE, chosen)
    assert not derived.max_rows_per_batch.is_change
    assert not derived.trigger.is_change
    assert not derived.partitions.is_change
    assert derived.max_files_per_trigger.new == 25


def test_a_trigger_that_nothing_fits_becomes_longer_and_batches_do_not_become_tiny() -> None:
    derived = derive(replace(EVIDENCE, fixed=FixedTime(3.0, 5)), settings_with("4 seconds"))
    assert derived.max_rows_per_batch.new == 140  # which embed for about 3 s, too
    assert derived.trigger.new == "9 seconds"
    assert "more than 4 seconds" in derived.trigger.reason


def test_freshness_is_two_triggers_and_a_batch() -> None:
    derived = derive(EVIDENCE, settings_with(), "1 minute")
    assert derived.trigger.new == "22 seconds"
    batch_s = derived.cost.batch_s(derived.max_rows_per_batch.new)
    assert 2 * seconds_of(derived.trigger.new) + batch_s <= 60


def test_large_shares_are_cut_into_more_tasks() -> None:
    long = Lengths((400_000,) * 100, (100,) * 100, (2,) * 100)
    derived = derive(replace(EVIDENCE, lengths=long), settings_with("1 hour"))
    assert derived.partitions.new == "14"
    assert derived.partitions.path == ("spark", "conf", "spark.default.parallelism")


@given(
    rate=st.floats(0.1, 1e6),
    fixed_s=st.floats(0, 100),
    texts=st.integers(1, 50),
    trigger_s=st.integers(1, 3_600),
    rows=st.integers(8, 100_000),
    freshness_s=st.none() | st.integers(1, 7_200),
)
def test_every_full_batch_ends_within_its_trigger(  # noqa: PLR0917 - named by hypothesis
    rate: float, fixed_s: float, texts: int, trigger_s: int, rows: int, freshness_s: int | None
) -> None:
    evidence = replace(
        EVIDENCE,
        rates=(Rate(512, rate, rate),),
        lengths=Lengths((400,), (100,), (texts,)),
        fixed=FixedTime(fixed_s, 1),
    )
    chosen = settings_with(f"{trigger_s} seconds", rows)
    freshness = None if freshness_s is None else f"{freshness_s} seconds"
    derived = derive(evidence, chosen, freshness)
    new_rows, trigger = derived.max_rows_per_batch.new, derived.trigger.new
    assert 1.5 * derived.cost.batch_s(new_rows) <= seconds_of(trigger) + 1e-6
    assert 8 <= new_rows <= rows
    assert derived.max_files_per_trigger.new >= 1
    assert all(one.reason for one in derived.advice)
    values = {one.path: one.new for one in derived.advice}
    made = tomllib.loads(rewritten(TEMPLATE, values))
    assert from_values(made).pipeline.trigger == trigger


@given(st.lists(st.integers(0, 1_000), min_size=1))
def test_a_spread_is_of_figures_that_are_there(figures: list[int]) -> None:
    found = Spread.of(figures)
    assert found.p50 <= found.p90 <= found.p99 <= found.max == max(figures)
    assert {found.p50, found.p90, found.p99} <= set(figures)
    assert sum(figure <= found.p50 for figure in figures) * 2 >= len(figures)


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 8))
def test_timed_texts_are_runs_of_neighbours_over_all_lengths(
    count: int, size: int, runs: int
) -> None:
    texts = [str(number) for number in range(count)]
    chosen = [int(text) for text in runs_of(texts, size, runs)]
    assert len(chosen) == min(count, size * runs)
    assert sorted(set(chosen)) == chosen
    if count > size * runs:
        assert all(
            chosen[at + size - 1] - chosen[at] == size - 1 for at in range(0, len(chosen), size)
        )
    assert len(spread(texts, size)) == min(count, size)
    assert spread(texts, count) == tuple(texts)


def test_the_fixed_time_is_what_batches_took_besides_embedding() -> None:
    def row(total_s: float, error: str | None = None) -> dict[str, object]:
        return {"total_s": total_s, "embed_s": 1.0, "rows_in": 5, "error": error}

    assert fixed_time([row(1.2), row(9.0, "failed"), row(1.4), row(3.0)]).batches == 3
    assert fixed_time([row(1.2), row(1.4), row(3.0)]).seconds == pytest.approx(0.4)
    assert fixed_time([]).batches == 0
    assert fixed_time([]).seconds == 1.0


SETTINGS = """\
# my pipeline
[pipeline]
name = "docs"
home = "./home"
trigger   =  "10 seconds"   # how often

[landing]
path = "./landing"  # where files land
[changes]
key = ["id"]

[gold]
text = [
  "title",  # first
  "body",
]
"""


def test_writing_keeps_comments_and_layout(tmp_path: Path) -> None:
    file = tmp_path / "freshet.toml"
    file.write_text(SETTINGS)
    advice = [
        Advice(("pipeline", "trigger"), "10 seconds", "25 seconds", "so"),
        Advice(("pipeline", "max_rows_per_batch"), 8_000, 8_000, "fits"),
        Advice(("embedding", "batch_tokens"), 2_048, 512, "faster"),
        Advice(("spark", "conf", "spark.default.parallelism"), "2", "4", "large"),
    ]
    assert [one.name for one in write(file, advice)] == [
        "pipeline.trigger",
        "embedding.batch_tokens",
        "spark.conf.spark.default.parallelism",
    ]
    text = file.read_text()
    kept = SETTINGS.replace('"10 seconds"', '"25 seconds"')
    assert text.startswith(kept)
    found = load(file)
    assert found.pipeline.trigger == "25 seconds"
    assert found.embedding.batch_tokens == 512
    assert found.spark.conf == {"spark.default.parallelism": "4"}
    assert "max_rows_per_batch" not in text


def test_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "freshet.toml"
    file.write_bytes(SETTINGS.replace("\n", "\r\n").encode())
    write(file, [Advice(("pipeline", "trigger"), "10 seconds", "25 seconds", "so")])
    expected = SETTINGS.replace("10 seconds", "25 seconds").replace("\n", "\r\n")
    assert file.read_bytes() == expected.encode()


def test_settings_that_would_not_load_are_not_written(tmp_path: Path) -> None:
    file = tmp_path / "freshet.toml"
    file.write_text(SETTINGS)
    with pytest.raises(SettingsError):
        write(file, [Advice(("pipeline", "max_rows_per_batch"), 8_000, 1, "wrong")])
    assert file.read_text() == SETTINGS


def test_a_variable_that_hides_a_written_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert override_of(("pipeline", "trigger")) is None
    monkeypatch.setenv("FRESHET_EMBEDDING", '{"batch_tokens": 64}')
    assert override_of(("embedding", "batch_tokens")) == "FRESHET_EMBEDDING"
    assert override_of(("embedding", "provider")) is None
    monkeypatch.setenv("FRESHET_Pipeline__trigger", "1 second")
    assert override_of(("pipeline", "trigger")) == "FRESHET_Pipeline__trigger"


@pytest.mark.parametrize(
    ("seconds", "duration"),
    [
        (0, "1 second"),
        (0.2, "1 second"),
        (1.1, "2 seconds"),
        (10, "10 seconds"),
        (21.3, "25 seconds"),
        (56, "1 minute"),
        (70, "90 seconds"),
        (100, "2 minutes"),
        (3_600, "1 hour"),
        (3_601, "70 minutes"),
    ],
)
def test_durations_are_rounded_up_to_round_numbers(seconds: float, duration: str) -> None:
    assert duration_of(seconds) == duration


@given(st.floats(0, 1e9))
def test_rounding_goes_the_way_that_it_says(figure: float) -> None:
    assert seconds_of(duration_of(figure)) >= figure
    assert 0 <= round_down(figure) <= figure
