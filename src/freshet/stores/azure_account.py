"""How to get into an Azure storage account. Read here and nowhere else.

Azure's own tools read the same variable; its SDK leaves that to its callers. It is a secret, and a
secret that passed through the settings could be printed with them.
"""

import os
from typing import Final

VARIABLE: Final = "AZURE_STORAGE_CONNECTION_STRING"


def connection_string() -> str | None:
    """The account's connection string, if there is one."""
    return os.environ.get(VARIABLE) or None


def parts() -> dict[str, str]:
    """Its fields: `AccountName`, `AccountKey`, `BlobEndpoint`, …; empty if there is none."""
    fields = (field.partition("=") for field in (connection_string() or "").split(";"))
    return {name: value for name, _, value in fields if name}
