"""File systems by the address of a file: local, `s3://`, `abfss://`, and whatever else Arrow knows.

Keys are taken as they are: a blank or a `%` in a name is part of it. Access is found where the
stores' own tools find it: `AWS_…` variables and profiles, `AZURE_STORAGE_CONNECTION_STRING`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from freshet.errors import StoreError
from freshet.stores import azure_account


@dataclass(frozen=True)
class Place:
    """A file or folder: the file system, the path in it, and what makes such a path an address."""

    system: pafs.FileSystem
    path: str
    prefix: str
    """What stands before a path of the same container in an address."""
    root: str = ""
    """What stands before it in a path."""

    def address(self, path: str) -> str:
        """The address of another path of the same file system."""
        return self.prefix + path.removeprefix(self.root)


def is_local(uri: str) -> bool:
    """Whether a path is one of this machine."""
    return "://" not in uri


def resolve(uri: str) -> Place:
    """The file system of an address, kept open; `StoreError` if there is no way in."""
    if is_local(uri):
        return Place(_local(), uri, "")
    scheme, _, rest = uri.partition("://")
    container, _, path = rest.partition("/")
    try:
        if scheme in {"abfss", "abfs"}:
            name, _, host = container.partition("@")
            system = _azure(host.partition(".")[0])
            return Place(system, f"{name}/{path}", f"{scheme}://{container}/", f"{name}/")
        return Place(_other(f"{scheme}://{container}"), rest, f"{scheme}://")
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreError("reach", uri, error) from error


@lru_cache(maxsize=1)
def _local() -> pafs.FileSystem:
    return pafs.LocalFileSystem()


@lru_cache(maxsize=16)
def _other(root: str) -> pafs.FileSystem:
    return pafs.FileSystem.from_uri(root)[0]


@lru_cache(maxsize=16)
def _azure(account: str) -> pafs.FileSystem:
    given = azure_account.parts()
    access: dict[str, Any] = {}
    if key := given.get("AccountKey"):
        access["account_key"] = key
    if endpoint := given.get("BlobEndpoint"):
        place = urlsplit(endpoint)
        for service in ("blob", "dfs"):
            access[f"{service}_storage_authority"] = place.netloc
            access[f"{service}_storage_scheme"] = place.scheme
    return pafs.AzureFileSystem(account, **access)
