"""Random transactions on two tables: everything that makes change events hard to follow."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

TABLES: Final = """
create table articles (
  id int primary key, title text, body text, tags text[], price numeric(10, 2),
  published timestamptz
);
create table translations (
  article_id int, lang text, body text, primary key (article_id, lang)
)
"""
MARK_ID: Final = 1_000_000
"""The key of the rows that are written last."""

_WORDS: Final = ("batch", "commit", "delta", "index", "lake", "merge", "row", "schema", "vector")
_ODD: Final = ("it's", 'a "quote"', "back\\slash", "new\nline", "\u2028", "😀", "ünï", "tab\tbed")
_LANGUAGES: Final = ("de", "fr", "pt-BR")
_IDS: Final = 60
_ARTICLES: Final = 20
_LATE_IDS: Final = 10


@dataclass(frozen=True)
class Workload:
    """Transactions by chance. Statements that find no row, or a row in their way, do nothing."""

    chooser: random.Random

    def transactions(self, count: int) -> Iterator[str]:
        """So many, with a truncation about the middle of them."""
        truncation = self.chooser.randint(count // 3, count * 2 // 3)
        for number in range(count):
            yield self._truncation() if number == truncation else self._transaction()

    def late(self) -> str:
        """Statements on rows that no other transaction touches, so that it can stay open long."""
        row = self.chooser.randrange(_LATE_IDS)
        values = f"title = {_quoted(self._title())}, price = {self._price()}"
        return (
            f"insert into articles values ({MARK_ID + 1 + row}, {self._article()}) "
            f"on conflict (id) do update set {values}"
        )

    def last(self) -> str:
        """Marks the end in both tables."""
        return (
            f"begin; insert into articles (id, title, body) values ({MARK_ID}, 'the', 'end'); "
            f"insert into translations values ({MARK_ID}, 'en', 'the end'); commit"
        )

    def _transaction(self) -> str:
        kind = self.chooser.random()
        if kind < 0.6:
            return self._statement()
        statements = [self._statement() for _ in range(self.chooser.randint(2, 6))]
        if kind > 0.9:
            return f"begin; {'; '.join(statements)}; rollback"
        if kind > 0.85:
            undone = f"savepoint s; {self._statement()}; rollback to s"
            statements.insert(self.chooser.randrange(len(statements)), undone)
        return f"begin; {'; '.join(statements)}; commit"

    def _truncation(self) -> str:
        before, after = self._translate(), self._translate()
        return f"begin; {before}; truncate translations; {after}; commit"

    def _statement(self) -> str:
        kinds = {
            self._insert: 30,
            self._retitle: 18,
            self._rebody: 10,
            self._reprice: 5,
            self._delete: 8,
            self._reborn: 6,
            self._rekey: 12,
            self._rekey_and_retitle: 6,
            self._translate: 20,
            self._retranslate: 8,
            self._delete_translation: 5,
            self._rekey_translation: 10,
        }
        [chosen] = self.chooser.choices(list(kinds), list(kinds.values()))
        return chosen()

    # --- articles --------------------------------------------------------------------------------

    def _insert(self) -> str:
        return (
            f"insert into articles values ({self._id()}, {self._article()}) "
            "on conflict (id) do nothing"
        )

    def _retitle(self) -> str:
        return f"update articles set title = {_quoted(self._title())} where id = {self._id()}"

    def _rebody(self) -> str:
        return f"update articles set body = {_quoted(self._body())} where id = {self._id()}"

    def _reprice(self) -> str:
        first = self._id()
        return f"update articles set price = price + 1 where id between {first} and {first + 5}"

    def _delete(self) -> str:
        return f"delete from articles where id = {self._id()}"

    def _reborn(self) -> str:
        key = self._id()
        insert = f"insert into articles values ({key}, {self._article()})"
        return f"delete from articles where id = {key}; {insert}"

    def _rekey(self) -> str:
        return self._moved("")

    def _rekey_and_retitle(self) -> str:
        return self._moved(f", title = {_quoted(self._title())}")

    def _moved(self, more: str) -> str:
        new, first = self._id(), self._id()
        return (
            f"update articles set id = {new}{more} "
            f"where id = (select min(id) from articles where id between {first} and {_IDS}) "
            f"and not exists (select from articles where id = {new})"
        )

    # --- translations ----------------------------------------------------------------------------

    def _translate(self) -> str:
        key = f"{self._article_id()}, {self._language()}"
        return (
            f"insert into translations values ({key}, {_quoted(self._body())}) "
            "on conflict (article_id, lang) do nothing"
        )

    def _retranslate(self) -> str:
        return (
            f"update translations set body = {_quoted(self._body())} "
            f"where article_id = {self._article_id()}"
        )

    def _delete_translation(self) -> str:
        return f"delete from translations where article_id = {self._article_id()}"

    def _rekey_translation(self) -> str:
        new, lang = self._article_id(), self._language()
        return (
            f"update translations set article_id = {new} where article_id = "
            f"(select min(article_id) from translations where lang = {lang}) and lang = {lang} "
            f"and not exists (select from translations where article_id = {new} and lang = {lang})"
        )

    # --- values ----------------------------------------------------------------------------------

    def _id(self) -> int:
        return self.chooser.randint(1, _IDS)

    def _article_id(self) -> int:
        return self.chooser.randint(1, _ARTICLES)

    def _language(self) -> str:
        return _quoted(self.chooser.choice(_LANGUAGES))

    def _article(self) -> str:
        """All values but the key."""
        made = (
            f"2026-01-{self.chooser.randint(1, 28):02} 10:00:00.{self.chooser.randrange(10**6):06}Z"
        )
        values = [_quoted(self._title()), _quoted(self._body()), self._tags(), self._price()]
        return ", ".join([*values, _quoted(self.chooser.choice([made, made, None]))])

    def _title(self) -> str | None:
        """Never empty and never long, so that the pieces of a text can be put together again."""
        words = [*self.chooser.choices(_WORDS, k=self.chooser.randint(1, 5))]
        words += self.chooser.choices(_ODD, k=self.chooser.choice([0, 0, 1]))
        return self.chooser.choice([*[" ".join(words)] * 9, None])

    def _body(self) -> str | None:
        """A third is so large that PostgreSQL keeps it aside, and Debezium leaves it out."""
        kind = self.chooser.random()
        if kind < 0.34:
            words = self.chooser.randint(1_000, 1_300)
            return " ".join(self.chooser.randbytes(4).hex() for _ in range(words))
        return None if kind > 0.95 else " ".join(self.chooser.choices(_WORDS, k=12))

    def _tags(self) -> str:
        kind = self.chooser.random()
        if kind < 0.1:
            return f"array[{_quoted(self.chooser.randbytes(4_500).hex())}, 'large']"
        tags = self.chooser.choices(["a,b", 'q"q', "ü", *_WORDS], k=self.chooser.randint(0, 3))
        return "null" if kind > 0.9 else f"array[{', '.join(map(_quoted, tags))}]::text[]"

    def _price(self) -> str:
        cents = self.chooser.randrange(-10_000, 1_000_000)
        return self.chooser.choice([*[f"{cents}::numeric / 100"] * 9, "null"])


def _quoted(value: Any) -> str:
    return "null" if value is None else "'" + str(value).replace("'", "''") + "'"
