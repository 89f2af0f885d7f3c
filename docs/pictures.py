"""Takes the pictures of the docs: runs examples/quickstart, opens its pages in Chromium, writes docs/*.png.

A picture is taken again when the code of the page or the example has changed: the digest of both is a text chunk of the
PNG file. Without Chromium the pictures stay as they are.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "quickstart"
PAGE_CODE = ROOT / "agenteval" / "reports" / "page"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PICTURES = {  # file → page of the example, size
    "page.png": ("careful.html#id=product-large", "1280,860"),
    "comparison-page.png": ("comparison.html", "1280,840"),
}
MADE_BY_RUNS = ("build", "__pycache__")
SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"sources\0"


def main() -> None:
    """Takes the pictures that are out of date."""
    digest = sources_digest()
    stale = [name for name in PICTURES if stamp_of(ROOT / "docs" / name) != digest]
    chromium = os.environ.get("AE_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if stale and chromium is None:
        print(f"docs: no Chromium, so these pictures stay as they are: {', '.join(stale)}")
    elif stale and chromium:
        with tempfile.TemporaryDirectory() as folder:
            take(stale, Path(folder), chromium, digest)


def sources_digest() -> str:
    """Returns the digest of the files that decide how the pictures look."""
    files = (path for folder in (PAGE_CODE, EXAMPLE) for path in sorted(folder.rglob("*")) if path.is_file())
    content = (path.read_bytes() for path in files if not set(MADE_BY_RUNS) & set(path.parts))
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def take(names: list[str], folder: Path, chromium: str, digest: str) -> None:
    """Runs the example in a copy, and takes these pictures of its pages."""
    example = folder / "quickstart"
    shutil.copytree(EXAMPLE, example, ignore=shutil.ignore_patterns(*MADE_BY_RUNS))
    make = ["make", "--silent", "-C", str(example), "all", f"AE_BIN={ROOT / 'bin'}"]
    subprocess.run(make, check=True, capture_output=True)
    for name in names:
        page, size = PICTURES[name]
        shot = folder / name
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        command = [chromium, *quiet, f"--user-data-dir={folder / 'profile'}", f"--window-size={size}"]
        command += ["--virtual-time-budget=4000", f"--screenshot={shot}", f"file://{example}/build/{page}"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        (ROOT / "docs" / name).write_bytes(stamped(shot.read_bytes(), digest))
        print(f"docs: {name}")


def stamped(png: bytes, digest: str) -> bytes:
    """Returns a PNG file with the digest in a text chunk, which comes after its header."""
    end = len(SIGNATURE) + 25  # the header is a chunk of 13 bytes
    text = b"tEXt" + KEYWORD + digest.encode()
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    return png[:end] + chunk + png[end:]


def stamp_of(path: Path) -> str | None:
    """Returns the digest in a PNG file; None if it has none."""
    content = path.read_bytes() if path.exists() else b""
    _, found, rest = content.partition(b"tEXt" + KEYWORD)
    return rest[:64].decode("ascii", "replace") if found else None


if __name__ == "__main__":
    main()
