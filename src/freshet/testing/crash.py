"""Runs a pipeline once and kills it on the way: `python -m freshet.testing.crash FILE MOMENT`.

A moment is `before` or `after`, a step of the commit protocol and a batch: `after:commit:1`. The
process must end by SIGKILL; one that ends by itself never came to the moment, and exits with 3.
"""

import sys

from freshet.pipeline import Pipeline
from freshet.settings import load
from freshet.testing.faults import KillAt, Moment

NEVER_STRUCK = 3


def main(config: str, moment: str) -> int:
    """Runs until the kill."""
    Pipeline(load(config), probe=KillAt(Moment.parse(moment))).run(once=True)
    return NEVER_STRUCK


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
