"""Which checkpoints can be gone on from, and which must be made anew. `decide` is pure.

Bronze is the truth. Its rows carry the numbers of their files, a file is in it wholly or not at
all, and files are read in the order of their numbers. So the first number after all of Bronze's is
a place from which reading misses nothing and doubles nothing, whatever happened to the rest. An
ingest checkpoint is kept only if it surely says the same: Delta would skip, without a word, a batch
whose number it has seen from the same query, even with other files in it.
"""

from dataclasses import dataclass

from freshet.recovery.facts import Facts


@dataclass(frozen=True)
class Plan:
    """What to make anew, and why. No reasons: it is kept as it is."""

    files: tuple[str, ...] = ()
    """The files table lacks files that Bronze has."""
    ingest: tuple[str, ...] = ()
    index: tuple[str, ...] = ()


def decide(facts: Facts) -> Plan:
    """The checkpoints and the files table against Bronze."""
    return Plan(
        files=tuple(_about_files(facts)),
        ingest=tuple(_about_ingest(facts)),
        index=tuple(_about_index(facts)),
    )


def _about_files(facts: Facts) -> list[str]:
    files, bronze = facts.files, facts.bronze
    if bronze.end == 0:
        return []
    if files.end < bronze.end:
        return [f"the files table ends at {files.end}, Bronze at {bronze.end}"]
    if files.first > 0 or files.rows < files.end:
        return [f"the files table has {files.rows} files, but numbers up to {files.end}"]
    return []


def _about_ingest(facts: Facts) -> list[str]:
    checkpoint, bronze = facts.ingest, facts.bronze
    if checkpoint.problems:
        return list(checkpoint.problems)
    if checkpoint.newest is None:
        is_lost = bronze.end > 0 or (not checkpoint.is_there and facts.files.rows > 0)
        return ["there is no checkpoint, but files have been read"] if is_lost else []
    end = facts.read_up_to
    if end is None:
        return [f"offsets/{checkpoint.newest} does not tell a file's number"]
    return [
        *_behind_bronze(facts, checkpoint.newest, end),
        *_ahead_of_tables(facts, end),
    ]


def _behind_bronze(facts: Facts, newest: int, end: int) -> list[str]:
    bronze, reasons = facts.bronze, []
    if (bronze.transaction or 0) > newest:
        reasons.append(f"Bronze has batch {bronze.transaction}, the checkpoint ends with {newest}")
    if bronze.end > end:
        reasons.append(f"Bronze has files up to {bronze.end}, the checkpoint ends at {end}")
    start, is_waiting = facts.committed_up_to or 0, _number(bronze.transaction) < newest
    if facts.ingest.newest_commit != newest and is_waiting and start < bronze.end <= end:
        # A batch is in Bronze wholly or not at all, so these files came another way.
        reasons.append(f"Bronze has files up to {bronze.end}, batch {newest} starts at {start}")
    return reasons


def _ahead_of_tables(facts: Facts, end: int) -> list[str]:
    bronze, committed = facts.bronze, facts.committed_up_to
    reasons = []
    if end > max(facts.files.end, bronze.end):
        # New files would get numbers that are taken for read.
        reasons.append(f"the files table ends at {facts.files.end}, the checkpoint at {end}")
    is_short = _number(bronze.transaction) < _number(facts.ingest.newest_commit)
    if committed is not None and is_short and bronze.end < committed:
        reasons.append(f"Bronze ends at {bronze.end}, but files up to {committed} were read")
    return reasons


def _about_index(facts: Facts) -> list[str]:
    checkpoint, place = facts.index, facts.place
    if checkpoint.problems:
        return list(checkpoint.problems)
    if not checkpoint.is_there:
        is_lost = facts.index_table is not None and facts.bronze.end > 0
        return ["there is no checkpoint, but there is an index"] if is_lost else []
    if checkpoint.newest is None or place is None or place.is_in(facts.bronze):
        return []
    if place.table_id == facts.bronze.table_id:
        return [f"Bronze is at version {facts.bronze.version}, the checkpoint at {place.version}"]
    # With an index at hand this may be a mistake, so it is left to Delta, which refuses to go on.
    return ["Bronze is another table, and there is no index yet"] if not facts.index_table else []


def _number(batch_id: int | None) -> int:
    return -1 if batch_id is None else batch_id
