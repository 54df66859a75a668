"""Generated change histories, and a recount of them that uses neither Spark nor Freshet."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_SETTINGS: dict[str, dict[str, Any]] = {
    "pipeline": {
        "name": "docs",
        "home": "./home",
        "trigger": "500 milliseconds",
        "max_rows_per_batch": 2000,
    },
    "landing": {"path": "./landing", "max_files_per_trigger": 10},
    "changes": {"envelope": "plain", "key": ["id"], "version": "record_version"},
    "gold": {"text": ["title", "body"], "attributes": ["section"]},
    "embedding": {"provider": "fake"},
    "spark": {"master": "local[2]"},
    "spark.conf": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
}


def settings_text(**sections: dict[str, Any]) -> str:
    """The settings of a pipeline that reads such a history, for a process of its own."""
    lines = []
    for section in (*_SETTINGS, *(name for name in sections if name not in _SETTINGS)):
        values = _SETTINGS.get(section, {}) | sections.get(section, {})
        lines.append(f"[{section}]")
        # Text, numbers and lists are written in TOML as in JSON.
        lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join([*lines, ""])


@dataclass(frozen=True)
class History:
    """Events in the order in which they land, spread over files."""

    files: list[list[str]]

    def land(self, folder: Path) -> None:
        """Writes the files."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, lines in enumerate(self.files):
            (folder / f"part-{number:04d}.json").write_text("".join(f"{line}\n" for line in lines))


def shuffled_history(
    *, keys: int, events: int, files: int, seed: int, unreadable: int = 0
) -> History:
    """Versions of keys, a tenth of them deletes, a twentieth delivered twice, in random order."""
    chooser = random.Random(seed)
    versions: dict[str, int] = {}
    made: list[Event] = []
    again = events // 20
    while len(made) < events - again:
        key = f"k{chooser.randrange(keys)}"
        versions[key] = versions.get(key, 0) + 1
        made.append(_event(key, versions[key], is_deleted=chooser.random() < 0.1))
    made += chooser.sample(made, again)
    chooser.shuffle(made)
    lines = [json.dumps(event) for event in made]
    for place in range(unreadable):
        lines.insert(chooser.randrange(len(lines)), f'{{"id": "broken {place}", "title": ')
    return History([lines[number::files] for number in range(files)])


def _event(key: str, version: int, *, is_deleted: bool) -> Event:
    return {
        "id": key,
        "record_version": version,
        "is_deleted": is_deleted,
        "title": f"title of {key}",
        "body": f"body of {key}, edited {version // 2} times",
        "section": f"s{version % 5}",
    }


def recount(folder: Path) -> dict[str, tuple[str, str]]:
    """What must be in the index: key → (text, section), read from the landing files alone."""
    newest: dict[str, Event] = {}
    for file in sorted(folder.glob("*.json")):
        for line in file.read_text().split("\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            held = newest.get(event["id"])
            if held is None or event["record_version"] > held["record_version"]:
                newest[event["id"]] = event
    return {
        key: (f"{event['title']}\n{event['body']}", event["section"])
        for key, event in newest.items()
        if not event["is_deleted"]
    }


def indexed(folder: Path | str, name: str = "docs") -> dict[str, tuple[str, str]]:
    """What is in the index, opened as its users open it; fails on a key that stands twice."""
    import lancedb

    rows = lancedb.connect(f"{folder}/index").open_table(name).to_arrow()
    columns = [rows.column(column).to_pylist() for column in ("key", "text", "section")]
    found = {key: (text, section) for key, text, section in zip(*columns, strict=True)}
    assert len(found) == rows.num_rows, "a key stands twice"
    return found
