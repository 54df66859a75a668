"""An embedding function of one's own in LanceDB's registry, for tests: the fake provider in it."""

from typing import Any

from lancedb.embeddings import TextEmbeddingFunction, get_registry, register

from freshet.embedding.fake import FakeProvider

POISON = "unspeakable"
NOTHING = "speechless"


@register("words-of-tests")
class WordsFunction(TextEmbeddingFunction):
    """Fails for texts with one word, and gives no vector for those with another."""

    sign: int = 1
    is_broken: bool = False
    api_key: str = ""

    @staticmethod
    def sensitive_keys() -> list[str]:
        return ["api_key"]

    def ndims(self) -> int:
        return FakeProvider.dimension

    def generate_embeddings(self, texts: Any, *args: Any, **kwargs: Any) -> list[Any]:
        if self.is_broken or any(POISON in text for text in texts):
            raise RuntimeError("as the test wants it")
        vectors = self.sign * FakeProvider().embed(texts)
        return [
            None if NOTHING in text else vector for text, vector in zip(texts, vectors, strict=True)
        ]


get_registry().set_var("key-of-tests", "secret-7")
