"""Removes directory trees of any depth and mode, following no link, crossing no mount."""

import os
import shutil
import stat
import subprocess
from contextlib import suppress

MOUNTS = "/proc/self/mountinfo"  # on Linux


def remove_tree(path: str) -> None:
    """Removes a directory and all below it, or the file in its place; OSError if something is left.

    Everything else is removed nevertheless. A tree with a mount point in it is left as it is.
    """
    if mounted := _mount_below(path):
        raise OSError(f"{mounted}: a file system is mounted there; unmount it first")
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    try:
        _open_up(path)
        for folder, names, _files in os.walk(path):
            for name in names:
                _open_up(os.path.join(folder, name))
        shutil.rmtree(path, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", path], capture_output=True)  # which no tree is too deep for
    if os.path.lexists(path):
        shutil.rmtree(path)  # raises what is in the way


def _open_up(folder: str) -> None:
    """Lets the owner read and empty a directory, if possible; removing it reports what is not."""
    with suppress(OSError):
        mode = os.lstat(folder).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)


def _mount_below(path: str) -> str | None:
    """Returns a mount point at or below a path: also of a bind mount, which has the device number of its source."""
    folder, name = os.path.split(path)
    top = os.path.join(os.path.realpath(folder), name, "")
    if not os.path.exists(MOUNTS):
        return None
    with open(MOUNTS, "rb") as file:
        points = [line.split(b" ")[4] for line in file]
    # A space in the name of a mount point is \040 in the table.
    found = (os.fsdecode(point.decode("unicode_escape").encode("latin-1")) for point in points)
    return next((point for point in found if f"{point}/".startswith(top)), None)
