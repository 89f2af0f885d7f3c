"""Files of other harnesses → results: each module reads one format and builds ImportedResults."""

import os
from collections.abc import Iterable, Iterator

from agenteval.adapters.foreign import atif, claude_evals, harbor, inspect, otlp, promptfoo
from agenteval.errors import BadRecord, MissingExtra, StrictStop, UserError
from agenteval.streams.console import Console
from agenteval.streams.files import is_regular
from agenteval.streams.source import read_objects, report_unreadable
from agenteval.wire.records import Record

FORMATS = {
    "atif": (atif, "trajectories in the Agent Trajectory Interchange Format"),
    "claude-evals": (claude_evals, "results of claude plugin eval"),
    "harbor": (harbor, "trials of Harbor jobs"),
    "inspect": (inspect, "logs of inspect_ai"),
    "otlp": (otlp, "GenAI traces as OTLP/JSON"),
    "promptfoo": (promptfoo, "results of promptfoo"),
}
FOREIGN = {name: what for name, (_, what) in FORMATS.items()}
ENDINGS = (".json", ".jsonl", ".eval")


def read_foreign(format_: str, paths: Iterable[str], console: Console) -> Iterator[Record]:
    """Yields the results of files and directories of this format; what cannot be read is reported."""
    module = FORMATS[format_][0]
    read_documents = getattr(module, "read_documents", read_objects)
    endings = (harbor.FILE,) if format_ == "harbor" else ENDINGS
    paths = list(paths)
    for path in (file for one in paths for file in _files(one, endings)):
        if path not in paths and not is_regular(path):
            console.refuse(path, "is not a regular file")
            continue
        number = 0
        try:
            for number, document in enumerate(read_documents(path, console), 1):
                try:
                    yield from module.results_of(document)
                except BadRecord as error:
                    console.refuse(f"{path}: document {number}", str(error))
                except Exception as error:
                    console.fault(f"{path}: document {number}", error)
        except (StrictStop, MissingExtra):
            raise
        except (UserError, OSError) as error:
            if path == "-":
                raise
            report_unreadable(path, error, console)


def _files(path: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Yields the file itself, or those below a directory that may be of such a format."""
    if path == "-" or not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(endings))
