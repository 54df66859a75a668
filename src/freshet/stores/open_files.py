"""Does some process still have a file open for writing? Linux can tell, on local disks."""

import fcntl
import os
import signal
from typing import Final

_CAN_ASK: Final = hasattr(fcntl, "F_SETLEASE") and hasattr(fcntl, "F_SETSIG")


def is_open_for_writing(path: str) -> bool:
    """Whether a process of this machine has the file open for writing; False where nobody can tell.

    Asks for a read lease, which the kernel grants only if there is no writer, and gives it back at
    once. It takes the file's owner or root to ask; shared file systems do not know leases.
    """
    if not _CAN_ASK:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # Should a writer come in this very moment, the kernel's signal must not end the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)
