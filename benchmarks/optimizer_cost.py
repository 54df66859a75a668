"""What it costs to keep an index fast after 1,000 new rows: does it follow the table?

Tables of 100,000 and 1,000,000 rows have a BTREE on the key, an INVERTED index of the texts and an
IVF_HNSW_SQ index of the vectors, as the optimizer built them. Each round writes 900 updates and 100
inserts through the sink's commit protocol, and then runs the optimizer once, with all that is due
after so many rounds: parts of indexes, their merging, compaction and cleanup of old versions. The
rival is LanceDB's own `table.optimize()` on a copy of the same table after the same rows, with its
defaults. Each side of each size runs in a process of its own, the sizes one after the other.

The first run of each side is told by itself: ours makes its recall probe then, which comes every
ten minutes, and LanceDB's may split partitions and build the whole vector index anew. Parts of
indexes and fragments at the end tell what was left undone: LanceDB adds a part to each index every
time, and merges none. Memory is the most that the process held during a run, as the kernel counts
it, above what it held before that run, and above what it held before its first batch.

    python benchmarks/optimizer_cost.py --tables /tmp/tables            # the asked sizes
    python benchmarks/optimizer_cost.py --scale 0.02 --rounds 8         # a trial
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import fmean
from typing import Any

import lancedb

from freshet.pipeline.optimizing import Optimizing
from freshet.settings import Settings
from live_index import (
    BATCH_ROWS,
    DIMENSION,
    Changes,
    Sizes,
    Writer,
    copied,
    made_once,
    settings_of,
)
from measuring import median, scratch_folder, show_progress
from optimizer_records import Work, work_of
from reporting import COLOURS, MIB, headline, line, panels, save, verdict, write_csv
from side_processes import Peaks, Side, forget_peak, log_beside, resident_bytes

SIZES = (100_000, 1_000_000)
INSERTS = 100
OURS, THEIRS = "freshet", "LanceDB"
MOST_GROWTH = 2.0
UPKEEP = {"retention": "1 second", "probe_interval": "1 day"}
"""So that every round has old versions to remove, and only the first one a probe."""

Round = dict[str, Any]


def optimize_ours(settings: Settings) -> Callable[[], str]:
    """The optimizer; the calls tell what they did."""
    optimizing = Optimizing(settings)

    def optimize() -> str:
        report = optimizing.run()
        assert not report.is_failed, [done.error for done in report.done]
        return " ".join(f"{done.action}:{done.target}" for done in report.done)

    return optimize


def optimize_theirs(settings: Settings) -> Callable[[], str]:
    database = lancedb.connect(settings.home.index_folder)

    def optimize() -> str:
        database.open_table(settings.home.name).optimize()  # one opened before sees no new rows
        return "optimize"

    return optimize


def rounds_of(_stop: Event, home: Path, side: str, rows: int, rounds: int) -> list[Round]:
    """One row a round; the first one starts everything and is numbered 0."""
    log_beside(home, side)
    settings = settings_of(home, **UPKEEP)
    optimize = {OURS: optimize_ours, THEIRS: optimize_theirs}[side](settings)
    writer, changes, idle = Writer(settings), Changes(rows, INSERTS), resident_bytes()
    found: list[Round] = []
    for round_ in range(rounds + 1):
        writer.write(round_, changes.next())
        time.sleep(1)  # the version before is old enough to go
        before = resident_bytes()
        forget_peak()
        started = time.perf_counter()
        did = optimize()
        seconds = time.perf_counter() - started
        peak = resident_bytes("VmHWM")
        found.append(
            {
                "side": side,
                "rows": rows,
                "round": round_,
                "seconds": seconds,
                "peak_bytes": peak - before,
                "peak_above_idle_bytes": peak - idle,
                "did": did,
            }
            | asdict(Sizes.of(settings.home.index))
        )
    changes.check(settings.home.index)
    return found


def probe_of(_stop: Event, home: Path) -> Work:
    """One recall probe, as if it were an action."""
    settings = settings_of(home)
    peaks, started = Peaks(), time.perf_counter()
    found = Optimizing(settings).probe()
    seconds = time.perf_counter() - started
    assert found is not None
    peaks.end()
    return {
        "action": "probe",
        "target": "vectors",
        "rows": found.rows,
        "seconds": seconds,
        "memory_bytes": peaks.found[0].bytes,
        "reasons": f"recall={found.recall:.3f}",
    }


def measure(tables: Path, rows: int, options: argparse.Namespace) -> tuple[list[Round], list[Work]]:
    """All rounds of both sides of one size, and single actions of ours."""
    start, found = made_once(tables, rows), []
    with scratch_folder(tables) as folder:
        for side, rounds in ((OURS, options.rounds), (THEIRS, options.rival_rounds)):
            if not rounds:
                continue
            show_progress(f"{rows:,} rows: {side}")
            home = copied(start, folder / side)
            found += Side(rounds_of, home, side, rows, rounds).result()
        actions = work_of(settings_of(folder / OURS))
        actions.append(actions[-1] | Side(probe_of, start).result())
    return found, [{"table_rows": rows} | one for one in actions]


def show(found: Sequence[Round], actions: Sequence[Work], sizes: Sequence[int]) -> None:
    sides = [side for side in (OURS, THEIRS) if _settled(found, side, sizes[0])]
    line("a run after 1,000 new rows, into a table of", [f"{rows:,}" for rows in sizes])
    for side in sides:
        show_side(found, side, sizes)
    show_actions(actions, sizes)
    for what, middle in (("median", median), ("mean", fmean)):
        for side in sides:
            first, last = (middle(_seconds(found, side, rows)) for rows in (sizes[0], sizes[-1]))
            verdict(
                f"{side}: growth of the {what} to {sizes[-1]:,} rows", last / first, MOST_GROWTH
            )
    for rows in sizes if THEIRS in sides else ():
        ours, theirs = (median(_seconds(found, side, rows)) for side in sides)
        print(f"LanceDB / freshet at {rows:,} rows: {theirs / ours:.1f}")


def show_side(found: Sequence[Round], side: str, sizes: Sequence[int]) -> None:
    per_size = [_settled(found, side, rows) for rows in sizes]
    seconds = [_seconds(found, side, rows) for rows in sizes]
    line(f"{side}: median s", [f"{median(values):.3f}" for values in seconds])
    line("  mean s", [f"{fmean(values):.3f}" for values in seconds])
    line("  longest s", [f"{max(values):.3f}" for values in seconds])
    line("  the first run, not counted, s", _firsts(found, side, sizes))
    line("  most memory of a run, MiB", _peaks(per_size, "peak_bytes"))
    line("  most memory above idle, MiB", _peaks(per_size, "peak_above_idle_bytes"))
    for name in ("index_parts", "fragments", "versions"):
        line(f"  {name} at the end", [str(rounds[-1][name]) for rounds in per_size])


def show_actions(actions: Sequence[Work], sizes: Sequence[int]) -> None:
    for kind in sorted({(one["action"], one["target"]) for one in actions}):
        of_kind = [one for one in actions if (one["action"], one["target"]) == kind]
        own = [[one for one in of_kind if one["table_rows"] == rows] for rows in sizes]
        times = [f"{median([o['seconds'] for o in some]):.3f} x{len(some)}" for some in own]
        line(f"  {' '.join(kind)}: median s, count", times)
        most = [max((o["memory_bytes"] for o in some), default=0) / MIB for some in own]
        line("    most memory of one, MiB", [f"{one:,.0f}" for one in most])


def _settled(found: Sequence[Round], side: str, rows: int) -> list[Round]:
    return [o for o in found if (o["side"], o["rows"]) == (side, rows) and o["round"] > 0]


def _seconds(found: Sequence[Round], side: str, rows: int) -> list[float]:
    return [one["seconds"] for one in _settled(found, side, rows)]


def _firsts(found: Sequence[Round], side: str, sizes: Sequence[int]) -> list[str]:
    first = {one["rows"]: one for one in found if one["side"] == side and not one["round"]}
    return [f"{first[rows]['seconds']:.3f}" for rows in sizes]


def _peaks(per_size: Sequence[Sequence[Round]], name: str) -> list[str]:
    return [f"{max(one[name] for one in rounds) / MIB:,.0f}" for rounds in per_size]


def draw(found: Sequence[Round], sizes: Sequence[int], path: Path) -> None:
    figure, (times, memory) = panels("seconds of a run", "MiB of a run, above idle")
    for place, side in enumerate((OURS, THEIRS)):
        for rows, style in zip(sizes, ("--", "-"), strict=False):
            rounds, told = _settled(found, side, rows), {"color": COLOURS[place], "ls": style}
            at = [one["round"] for one in rounds]
            times.plot(at, [o["seconds"] for o in rounds], label=f"{side}, {rows:,}", **told)
            memory.plot(at, [o["peak_above_idle_bytes"] / MIB for o in rounds], **told)
    times.set(yscale="log", xlabel="round")
    memory.set(yscale="log", xlabel="round")
    times.legend(fontsize=8)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the tables' sizes")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--rival-rounds", type=int, default=24, help="0: no rival")
    parser.add_argument("--tables", type=Path, default=Path("build/bench/tables"))
    parser.add_argument("--out", type=Path, default=Path("build/bench/optimizer_cost"))
    options = parser.parse_args()
    sizes = [round(rows * options.scale) for rows in SIZES]
    print(headline(f"{BATCH_ROWS} new rows x {DIMENSION} a round, {INSERTS} of new keys"))
    print(f"{options.rounds} rounds after one; of LanceDB {options.rival_rounds}")
    found, actions = [], []
    for rows in sizes:
        rounds, single = measure(options.tables, rows, options)
        found += rounds
        actions += single
        write_csv(options.out / "rounds.csv", found)
        write_csv(options.out / "actions.csv", actions)
    show_progress("")
    show(found, actions, sizes)
    draw(found, sizes, options.out / "rounds.png")


if __name__ == "__main__":
    main()
