"""Files on a disk, as Spark writes them: with no process started for each.

Hadoop runs `chmod` and `readlink` where its native library is missing, and Spark does not bring it:
more than 80 ms a batch for the files of a checkpoint alone. `freshet-local.jar` is our own and
comes with the package: the sources beside it say what it is for, and `scripts/build_jars` makes it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

JAR: Final = Path(__file__).parent / "local" / "freshet-local.jar"
CLASS_PATH: Final = "spark.driver.extraClassPath"


_CLASSES: Final = {
    "spark.hadoop.fs.file.impl": "freshet.LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "freshet.LocalFilesContext",
}


def added_to(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Spark that runs in one process, with these files if they name no others.

    The first file is looked at before Spark has read its list of jars, so this one must be known
    from the start. Nothing is added if its path cannot stand in a class path.
    """
    if os.pathsep in str(JAR):
        return dict(conf)
    class_path = os.pathsep.join(filter(None, [str(JAR), conf.get(CLASS_PATH)]))
    return {**_CLASSES, **conf, CLASS_PATH: class_path}
