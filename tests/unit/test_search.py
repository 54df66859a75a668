"""Search by vector, by words and by both: fresh, filtered, by record, and never upset by input."""

from pathlib import Path

import pytest

from freshet.errors import SearchError
from freshet.search import Hit
from freshet.search.candidates import by_record
from freshet.search.fusion import fused
from freshet.search.ranking import Ranking
from freshet.stores.lance_search import Knobs, SearchableTable
from indexes import SmallIndex

MODES = ("vector", "text", "hybrid")
WORDS = ["river", "stone", "cloud", "mill", "weir", "otter", "heron", "reed", "marsh", "ferry"]
STOP_WORDS = ["the", "the of and", "AND", "OR", "NOT", "AND OR NOT"]
ODD = [
    *STOP_WORDS,
    *("", " ", "\n", '"', "'", "''", '"""', "\\", "*", "?", "~", "^", "()", "[", "{}", "%", "--"),
    *("...", "?!", "zebra AND", "(zebra"),
    *("zebra)", "text:zebra", "+zebra -zebra", "zebra~2", "zebra^9", '"zebra', "zebra*", "/ze/"),
    *("'; DROP TABLE zebra", "🦀", "ß", "日本語", "zebra\x00quagga", "\ufffe", "a" * 5_000),
    " ".join(["zebra"] * 3_000),
]


def keys(hits: list[Hit]) -> list[str]:
    return [hit.key for hit in hits]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, SmallIndex]:
    """The same records without indexes and with them; only read."""
    made = {}
    for is_indexed in (False, True):
        index = SmallIndex(str(tmp_path_factory.mktemp("search") / "i.lance"))
        index.add({f"k{n:03}": f"{WORDS[n % 10]} {WORDS[n // 10 % 10]} {n}" for n in range(300)})
        index.add({"z": "a zebra by the river", "q": "zebra zebra and quagga"}, section="b")
        index.add({"no vector": "an okapi, which the model did not take"}, is_refused=True)
        if is_indexed:
            index.make_indexes()
        made[is_indexed] = index
    return made


@pytest.fixture(params=[False, True], ids=["scanned", "indexed"])
def index(filled: dict[bool, SmallIndex], request: pytest.FixtureRequest) -> SmallIndex:
    return filled[request.param]


@pytest.mark.parametrize("mode", MODES)
def test_a_row_is_found_the_moment_it_is_committed(mode: str, tmp_path: Path) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"))
    searcher = index.searcher()
    index.add({f"k{n}": f"{WORDS[n % 10]} {n}" for n in range(400)})
    index.make_indexes()
    assert SearchableTable.open(index.uri).unindexed("vector") == (0, 0)
    assert "new" not in keys(searcher.search("gnu and zebra", k=3, mode=mode))
    index.add({"new": "gnu and zebra"})
    assert SearchableTable.open(index.uri).unindexed("vector") == (1, 1)
    assert SearchableTable.open(index.uri).unindexed("text") == (1, 1)
    assert keys(searcher.search("gnu and zebra", k=3, mode=mode))[0] == "new"
    index.delete("new")
    assert "new" not in keys(searcher.search("gnu and zebra", k=400, mode=mode))


def test_the_vector_index_is_used_where_there_is_one(tmp_path: Path) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"))
    index.add({f"k{n}": f"{WORDS[n % 10]} {n}" for n in range(400)})
    assert "ANN" not in plan(index.uri)
    index.make_indexes()
    assert "ANN" in plan(index.uri)


def plan(uri: str) -> str:
    import lance

    query = {"column": "vector", "q": [1.0] * 32, "k": 3, "metric": "cosine"}
    scanner = lance.dataset(uri).scanner(nearest=query | Knobs().for_rows(3, of=0))
    told: str = scanner.explain_plan()
    return told


def test_words_are_found_by_how_rare_and_how_frequent_they_are(index: SmallIndex) -> None:
    hits = index.searcher().search("zebra", k=5, mode="text")
    assert keys(hits) == ["q", "z"]
    assert hits[0].score > hits[1].score > 0
    assert keys(index.searcher().search("quagga river", k=2, mode="text"))[0] == "q"


def test_what_has_no_vector_is_found_by_its_words(index: SmallIndex) -> None:
    searcher = index.searcher()
    assert keys(searcher.search("okapi", k=5, mode="text")) == ["no vector"]
    assert "no vector" in keys(searcher.search("okapi", k=5, mode="hybrid"))
    assert "no vector" not in keys(searcher.search("okapi", k=500))


def test_a_search_by_words_asks_no_model(index: SmallIndex) -> None:
    index.embedded.clear()
    index.searcher().search("zebra", k=1, mode="text")
    assert index.embedded == []
    index.searcher().search("zebra", k=1, mode="hybrid")
    assert index.embedded == ["zebra"]


@pytest.mark.parametrize("question", ODD)
def test_no_question_is_an_error(index: SmallIndex, question: str) -> None:
    hits = index.searcher().search(question, k=3, mode="text", where="section = 'b'")
    assert set(keys(hits)) <= {"q", "z"}
    assert ("zebra" in question) == (keys(hits) == ["q", "z"]) or question in STOP_WORDS
    assert index.searcher().search(question, k=3, mode="hybrid")


@pytest.mark.parametrize("question", [*STOP_WORDS, "", "?!"])
def test_stop_words_and_signs_find_nothing(filled: dict[bool, SmallIndex], question: str) -> None:
    assert filled[True].searcher().search(question, k=3, mode="text") == []


@pytest.mark.parametrize("question", ["ZEBRA", "Zebra", "zEbRa"])
def test_upper_and_lower_case_are_the_same(filled: dict[bool, SmallIndex], question: str) -> None:
    for index in filled.values():
        assert keys(index.searcher().search(question, k=3, mode="text")) == ["q", "z"]


def test_both_are_fused_by_their_ranks(index: SmallIndex) -> None:
    searcher, question = index.searcher(), "zebra river stone"
    lists = [searcher.search(question, k=64, mode=mode) for mode in ("vector", "text")]
    expected = [hit.key for hit, _ in fused(lists, lambda hit: (hit.key,))][:10]
    hits = searcher.search(question, k=10, mode="hybrid")
    assert keys(hits) == expected
    assert keys(hits) not in [keys(one)[:10] for one in lists]
    assert searcher.search(question, k=10, mode="hybrid") == hits
    assert hits[0].score <= 2 / 61


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_comes_before_the_search(index: SmallIndex, mode: str) -> None:
    searcher = index.searcher()
    assert "z" not in keys(searcher.search("river", k=2, mode=mode, where="section = 'a'"))
    assert keys(searcher.search("river", k=1, mode=mode, where="section = 'b'")) == ["z"]
    assert searcher.search("river", k=5, mode=mode, where="section = 'none'") == []
    for wrong in ("sektion = 'a'", "section = ", "nonsense"):
        with pytest.raises(SearchError, match=r"condition .* cannot be used: .* columns are key,"):
            searcher.search("river", k=2, mode=mode, where=wrong)


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_record_counts_once_by_its_best_piece(
    tmp_path: Path, mode: str, is_indexed: bool
) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"))
    some = " ".join(f"heron marsh {n}" for n in range(100))
    long = f"{some} {'heron marsh ' * 12} {some}"
    index.add({"long": long} | {f"k{n}": f"a heron on a {word}" for n, word in enumerate(WORDS)})
    if is_indexed:
        index.make_indexes()
    searcher = index.searcher()
    hits = searcher.search("heron marsh", k=11, mode=mode)
    assert sorted(keys(hits)) == sorted(["long", *(f"k{n}" for n in range(10))])
    pieces = searcher.search("heron marsh", k=11, mode=mode, per_record=False)
    assert keys(pieces).count("long") == 11
    assert len({hit.chunk for hit in pieces}) == 11
    [best] = (hit for hit in hits if hit.key == "long")
    assert set(best.text.split()) == {"heron", "marsh"}
    assert long[best.start :].startswith(best.text)


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_further_vector_can_be_asked(tmp_path: Path, mode: str) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"))
    long = " ".join(WORDS * 4)
    index.add({"a": long, "b": "a heron", "c": long}, titles={"a": "red apples", "b": "fast cars"})
    searcher = index.searcher()
    hits = searcher.search("red apples", k=5, mode=mode, vector="title_vector")
    assert keys(hits) == ["a", "b"]
    assert hits[0].chunk == 0
    assert list(hits[0].attributes) == ["section"]
    with pytest.raises(SearchError, match='no vector "titel"; it has vector, title_vector'):
        searcher.search("x", k=1, mode=mode, vector="titel")
    with pytest.raises(SearchError, match="a search by text compares no vector"):
        searcher.search("x", k=1, mode="text", vector="title_vector")


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_the_score_of_an_equal_text_is_one(tmp_path: Path, metric: str) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"), metric)
    index.add({"a": "red apples", "b": "green pears"})
    hits = index.searcher().search("red apples", k=2)
    assert (hits[0].key, hits[0].score) == ("a", 1.0)
    assert hits[1].score < 0.9


def test_any_knobs_give_as_many_results_as_were_asked_for(index: SmallIndex) -> None:
    searcher = index.searcher(knobs=Knobs(nprobes=1, ef=1))
    for k in (1, 10, 250):
        for refine in (0, 1, 10):
            assert len(searcher.search("river stone", k=k, refine=refine)) == k
    assert len(searcher.search("river", k=100, nprobes=500, ef=5_000)) == 100
    assert len(searcher.search("river", k=1_000, where="section = 'b'")) == 2


def test_knobs_follow_the_rows_that_are_asked_for() -> None:
    assert Knobs().for_rows(10, of=0) == {"nprobes": 8, "ef": 64, "refine_factor": None}
    assert Knobs().for_rows(100, of=0)["ef"] == 200
    assert Knobs().for_rows(10, of=10**6) == {"nprobes": 32, "ef": 200, "refine_factor": None}
    assert Knobs(ef=5).for_rows(10, of=0)["ef"] == 10
    assert Knobs(ef=500).for_rows(10, of=0)["ef"] == 500
    found = Knobs(3, ef=5, refine=4).for_rows(10, of=10**6)
    assert found == {"nprobes": 3, "ef": 40, "refine_factor": 4}


def test_probes_follow_the_rows_that_are_indexed() -> None:
    found = [Knobs().for_rows(10, of=rows)["nprobes"] for rows in (10, 100_000, 1_000_000)]
    assert found == [8, 10, 32]


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"k": 0}, "k is 0, but must be 1 or more"),
        ({"nprobes": 0}, "nprobes is 0, but must be 1 or more"),
        ({"ef": -1}, "ef is -1, but must be 1 or more"),
        ({"refine": -1}, "refine is -1, but must be 0 or more"),
        ({"mode": "fuzzy"}, 'no mode "fuzzy"; there are vector, text, hybrid'),
    ],
)
def test_what_cannot_be_asked_is_said(
    index: SmallIndex, told: dict[str, int], sentence: str
) -> None:
    with pytest.raises(SearchError, match=sentence):
        index.searcher().search("x", **{"k": 1} | told)


def test_equal_scores_come_in_the_order_of_keys(tmp_path: Path) -> None:
    index = SmallIndex(str(tmp_path / "i.lance"))
    for key in "dbca":
        index.add({key: "the same text"})
    for mode in MODES:
        assert keys(index.searcher().search("the same text", k=4, mode=mode)) == list("abcd")
    table = SearchableTable.open(index.uri)
    ranking = Ranking(table, "cosine", Knobs(), None, by_record)
    assert [one.key for one in ranking.by_text("same", 2)] == ["a", "b"]
