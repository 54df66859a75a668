"""Texts to tokens, by a model's own tokenizer, in one thread and without Python's lock."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from freshet.embedding import surrogates
from freshet.embedding.provider import Span

Ids = NDArray[np.int64]

SPECIAL_TOKENS: Final = 2


class TextTokenizer:
    """A tokenizer of any string, for two uses: where tokens stand, and what the model gets."""

    def __init__(self, description: str, window_tokens: int) -> None:
        """Takes the text of a `tokenizer.json`."""
        self._spans = _tokenizer(description)
        self._spans.no_truncation()
        self._tokenizer = _tokenizer(description)
        self._tokenizer.enable_truncation(window_tokens + SPECIAL_TOKENS)

    def spans(self, text: str) -> Sequence[Span]:
        """Where the tokens of a text stand, as character offsets."""
        [found] = self._spans.encode_batch([surrogates.replaced(text)], add_special_tokens=False)
        spans: Sequence[Span] = found.offsets
        return spans

    def encode(self, texts: Sequence[str], *, by_all_cores: bool = False) -> list[Encoding]:
        """What the model gets of each text: special tokens around as much as fits into the window.

        The texts are given one by one, as many at once take all cores. A list of one still lets
        other threads run meanwhile, which a text alone would not.
        """
        if by_all_cores:
            found: list[Encoding] = self._tokenizer.encode_batch(
                [surrogates.replaced(one) for one in texts]
            )
            return found
        return [self._tokenizer.encode_batch([surrogates.replaced(one)])[0] for one in texts]


def padded(encodings: Sequence[Encoding], padding_id: int = 0) -> tuple[Ids, Ids]:
    """The ids and the mask of some texts, as long as the longest."""
    lengths = np.array([len(encoding.ids) for encoding in encodings])
    is_token = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(is_token.shape, padding_id, np.int64)
    flat = chain.from_iterable(encoding.ids for encoding in encodings)
    ids[is_token] = np.fromiter(flat, np.int64, lengths.sum())
    return ids, is_token.astype(np.int64)


def _tokenizer(description: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(description)
    # The file may ask for a fixed padding; groups are padded here, to their own longest text.
    tokenizer.no_padding()
    return tokenizer
