"""What all tests share: one Spark session for the whole run, and small pipelines."""

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from freshet.settings import Settings, SparkSettings, from_values
from freshet.spark import start_session

# Spark's own Java process is the only fork, and it replaces itself at once.
warnings.filterwarnings("ignore", message=".*fork.*")
os.environ.setdefault("LANCE_LOG", "error")
pytest.register_assert_rewrite("freshet.testing.contract")
# How long a test takes says something of the machine, and nothing of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


_ALSO_WITH_SPARK = ("crash/test_landing_kill.py", "crash/test_restore.py")


_WITH_THE_SINKS = ("sinks/", "integration/test_reuse.py", "integration/test_rebuild.py")


class _Shares(LoadScopeScheduling):
    """All tests that share a Spark session go to one worker; those of a file stay together.

    There are two sessions, for as many workers, and either has about as much to do.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if any(part in file for part in _WITH_THE_SINKS):
            return "sinks"
        shares = "integration/" in file or file.endswith(_ALSO_WITH_SPARK)
        return "spark" if shares else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Shares(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    # Tests run most code once: compiling it well would take longer than running it.
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
    }
    settings = SparkSettings(master="local[2]", conf=conf)
    session = start_session(settings, name="tests", log_file=log)
    yield session
    session.stop()


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    """Makes the settings of a pipeline in a folder of its own, with the fake model."""

    def make(**sections: dict[str, Any]) -> Settings:
        (tmp_path / "landing").mkdir(exist_ok=True)
        values: dict[str, dict[str, Any]] = {
            "pipeline": {"name": "docs", "home": str(tmp_path / "home")},
            "landing": {"path": str(tmp_path / "landing"), "settle": "0 seconds"},
            "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
            "gold": {"text": ["title", "body"], "attributes": ["section"]},
            "embedding": {"provider": "fake"},
            "optimizer": {"in_run": False},
        }
        for name, section in sections.items():
            values[name] = values.get(name, {}) | section
        return from_values(values)

    return make


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("FRESHET_"):
            monkeypatch.delenv(name)
