"""Sub-agents in the databases of sessions: their tokens count with those of the session that started them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from agenteval.adapters.sessions.spent import session_log


def test_tokens_of_a_sub_agent_of_goose(tmp_path: Path) -> None:
    """The query for a family of sessions uses a table expression of its own, which is not a view of the database's."""
    folder = tmp_path / ".local/share/goose/sessions"
    folder.mkdir(parents=True)
    said = [{"type": "text", "text": "mauve"}]
    meta = {"subagent_session_id": "s_2"}
    given = [{"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": {"_meta": meta}}}]
    database = sqlite3.connect(folder / "sessions.db")
    columns = "working_dir, model_config_json, accumulated_input_tokens, accumulated_output_tokens, accumulated_cost"
    database.execute(f"CREATE TABLE sessions (id, created_at, {columns})")
    database.execute("CREATE TABLE messages (id, session_id, role, created_timestamp, metadata_json, content_json)")
    for number, content in enumerate((given, said), 1):
        session = (f"s_{number}", "2026-11-18", "/w", '{"model_name": "m"}', 1000 * number, 10 * number, None)
        database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", session)
        message = (number, f"s_{number}", "user", 1795014858, "{}", json.dumps(content))
        database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", message)
    database.commit()
    database.close()
    found = session_log("goose", "s_1", {"HOME": str(tmp_path)})
    assert found == {"inputTokens": 3000, "outputTokens": 30, "model": "m"}
