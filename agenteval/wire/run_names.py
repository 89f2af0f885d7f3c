"""What the metadata of a record calls its agent, the agent's version, the model and the run."""

import os

from agenteval.wire.records import Record

AGENT, MODEL = ("agent",), ("model", "modelName", "model_name")  # what metadata calls them
LABEL, UNNAMED = ("label",), ("text", "acp")  # of --label; what an agent is called that has no adapter of its own
AGENT_VERSION = ("agentVersion", "agent_version", "version")


def agent_name(metadata: Record) -> str | None:
    """Returns what a title calls the agent: its name or, if it has no adapter of its own, that of its program."""
    name = first_text(metadata, AGENT)
    if name not in UNNAMED:
        return name
    command = first_text(metadata, ("agentCommand",)) or ""
    program, _, rest = command.partition(" ")
    if program == "sh" and rest.startswith("-c "):  # of --shell, as a whole
        return rest.removeprefix("-c ").strip("'")
    return os.path.basename(program) or None


def first_text(record: Record, keys: tuple[str, ...]) -> str | None:
    """The first of these fields that has a text; None if none has."""
    return next((value for key in keys if isinstance(value := record.get(key), str) and value), None)
