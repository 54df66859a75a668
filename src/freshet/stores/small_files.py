"""Small files that are replaced as a whole."""

from freshet.stores import copies, file_systems
from freshet.stores.remote_systems import is_local


def replace(uri: str, data: bytes) -> None:
    """Writes a file; whoever reads it meanwhile, or after a kill, finds the old or the new one."""
    if not is_local(uri):  # an object store shows an object only when it is whole
        copies.write(uri, data)
        return
    copies.write(f"{uri}.part", data)
    file_systems.move_file(f"{uri}.part", uri)


def read(uri: str) -> bytes | None:
    """What a file holds; None if there is none."""
    try:
        return copies.read(uri)
    except FileNotFoundError:
        return None
