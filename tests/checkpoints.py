"""Taking back what a streaming query has written down, as a crash does."""

from pathlib import Path


def forget_newest_commit(checkpoint: Path) -> None:
    """Removes the newest entry of `commits/`, so that its batch is run again."""
    commits = checkpoint / "commits"
    newest = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
