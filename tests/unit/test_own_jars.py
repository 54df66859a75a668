"""The jars that come with the package: each is what its sources say."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from freshet.stores import local_files, s3_jars


@pytest.mark.parametrize("jar_file", [local_files.JAR, s3_jars.OWN_JAR], ids=lambda jar: jar.stem)
def test_a_jar_in_the_package_is_made_of_the_sources_beside_it(jar_file: Path) -> None:
    sources = sorted(jar_file.parent.glob("*.java"))
    assert len(sources) == 2
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    with zipfile.ZipFile(jar_file) as jar:
        # A line of a manifest goes on after a line break and a blank.
        manifest = jar.read("META-INF/MANIFEST.MF").decode().replace("\r\n ", "")
        classes = {name for name in jar.namelist() if name.endswith(".class")}
    assert f"Sources-SHA256: {digest}" in manifest, "run scripts/build_jars"
    assert {f"freshet/{source.stem}.class" for source in sources} <= classes
