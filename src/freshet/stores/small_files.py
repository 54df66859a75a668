"""Small files that are replaced as a whole."""

from uuid import uuid4

from freshet.errors import StoreError
from freshet.stores import copies, file_systems
from freshet.stores.remote_systems import is_local


def replace(uri: str, data: bytes) -> None:
    """Writes a file; whoever reads it meanwhile, or after a kill, finds the old or the new one."""
    if not is_local(uri):  # an object store shows an object only when it is whole
        copies.write(uri, data)
        return
    # A name of its own: another writer of the same file must not move it away.
    beside = f"{uri}.{uuid4().hex[:8]}.part"
    copies.write(beside, data)
    file_systems.move_file(beside, uri)


def read(uri: str) -> bytes | None:
    """What a file holds; None if there is none."""
    try:
        return copies.read(uri)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError("read", uri, error) from error
