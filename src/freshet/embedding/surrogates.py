"""Halves of characters: JSON may hold them, but no tokenizer and no server takes them."""

import re
from typing import Final

_LONE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"


def replaced(text: str) -> str:
    """The text with U+FFFD for each lone surrogate: as long as before, so that places stay."""
    return text if text.isascii() else _LONE.sub(_REPLACEMENT, text)
