"""Logs as events: a constant snake_case name and its fields, one line each (logfmt)."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

_ROOT = "freshet"


def emit(stage: str, event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Logs one event of a stage; fields keep their order."""
    logging.getLogger(f"{_ROOT}.{stage}").log(level, event, extra={"fields": fields})


def warn(stage: str, event: str, **fields: Any) -> None:
    """Logs an event that somebody should look at; the work goes on."""
    emit(stage, event, level=logging.WARNING, **fields)


class LogfmtFormatter(logging.Formatter):
    """Renders `time level stage event key=value …`; quotes values that hold spaces."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of one event."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        stage = record.name.removeprefix(f"{_ROOT}.")
        fields = getattr(record, "fields", {})
        pairs = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
        line = f"{at} {record.levelname.lower()} {stage} {record.getMessage()} {pairs}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to(handler: logging.Handler, level: int = logging.INFO) -> None:
    """Sends Freshet's events, and only those, to a handler; replaces an earlier one."""
    handler.setFormatter(LogfmtFormatter())
    logger = logging.getLogger(_ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return json.dumps(text) if any(c in text for c in ' "=\n') or not text else text
