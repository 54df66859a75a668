"""Files on a disk as Spark writes them: as Hadoop would have them, and with no process started."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshet.settings import SparkSettings
from freshet.spark import configuration
from freshet.stores import local_files

pytestmark = pytest.mark.usefixtures("spark")


def hadoop(spark: SparkSession) -> Any:
    return spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]


def file_system(spark: SparkSession) -> Any:
    conf = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    return hadoop(spark).FileSystem.getLocal(conf)


def faults_of_ended_children(spark: SparkSession) -> int:
    """Grows whenever a process that Java has started ends."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


def test_a_stream_into_delta_starts_no_process(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
    writer = stream.writeStream.format("delta").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    # Spark starts one process when it first reports its memory, some seconds after its start.
    spark._jvm.org.apache.spark.executor.ProcfsMetricsGetter.pTreeInfo()  # type: ignore[union-attr]
    before = faults_of_ended_children(spark)
    writer.start(str(tmp_path / "out")).awaitTermination()
    assert faults_of_ended_children(spark) == before
    assert spark.read.format("delta").load(str(tmp_path / "out")).count() == 3
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 3
    assert list((tmp_path / "checkpoint" / "commits").glob(".*.crc")), "checksums are kept"


@pytest.mark.parametrize("mode", ["640", "755", "400", "000"])
def test_permissions_are_those_that_were_asked_for(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    file = tmp_path / "a file"
    file.write_text("text")
    permission = spark._jvm.org.apache.hadoop.fs.permission.FsPermission(mode)  # type: ignore[union-attr]
    file_system(spark).setPermission(hadoop(spark).Path(str(file)), permission)
    assert file.stat().st_mode & 0o7777 == int(mode, 8)


def test_a_sticky_bit_is_set_too(spark: SparkSession, tmp_path: Path) -> None:
    permission = spark._jvm.org.apache.hadoop.fs.permission.FsPermission("1777")  # type: ignore[union-attr]
    file_system(spark).setPermission(hadoop(spark).Path(str(tmp_path)), permission)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_what_a_link_points_to_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("text")
    (tmp_path / "link").symlink_to("real")
    raw = file_system(spark).getRawFileSystem()
    of_link = raw.getFileLinkStatus(hadoop(spark).Path(str(tmp_path / "link")))
    assert of_link.isSymlink()
    assert of_link.getSymlink().getName() == "real"
    assert not raw.getFileLinkStatus(hadoop(spark).Path(str(tmp_path / "real"))).isSymlink()


def test_only_a_spark_of_one_process_is_told_of_it() -> None:
    for master, is_told in (
        ("local", True),
        ("local[2]", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
    ):
        conf = configuration(SparkSettings(master=master), "docs", [], {})
        assert ("spark.hadoop.fs.file.impl" in conf) is is_told, master
        assert (local_files.CLASS_PATH in conf) is is_told, master


def test_what_else_java_shall_find_and_another_file_system_stay_as_they_are_set() -> None:
    conf = {local_files.CLASS_PATH: "/mine.jar", "spark.hadoop.fs.file.impl": "mine.Files"}
    told = configuration(SparkSettings(master="local[2]", conf=conf), "docs", [], {})
    assert told[local_files.CLASS_PATH] == f"{local_files.JAR}{os.pathsep}/mine.jar"
    assert told["spark.hadoop.fs.file.impl"] == "mine.Files"


def test_from_a_folder_that_a_class_path_cannot_name_hadoops_own_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_files, "JAR", Path("/a:b/freshet-local.jar"))
    conf = {local_files.CLASS_PATH: "/mine.jar"}
    assert local_files.added_to(conf) == conf
