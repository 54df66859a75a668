"""Taking back what a streaming query has written down, as a crash does."""

from pathlib import Path


def forget_newest_commit(checkpoint: Path) -> None:
    """Removes the newest entry of `commits/`, so that its batch is run again."""
    commits = checkpoint / "commits"
    newest = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)


def go_back_to(checkpoint: Path, batch_id: int) -> None:
    """Makes of a checkpoint the copy that was taken after a batch."""
    for file in [*checkpoint.glob("*/*"), *checkpoint.glob("sources/*/*")]:
        number = file.name.removeprefix(".").removesuffix(".crc")
        if file.is_file() and number.isdigit() and int(number) > batch_id:
            file.unlink()
