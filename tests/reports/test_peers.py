"""The exports, read by the programs that they are for: large packages, which `make test-peers` installs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.reports.conftest import Open
from tests.reports.test_exports import ODD, TRIALS, check_chat, export, records_of
from tests.support.http_server import free_port
from tests.support.page_records import every_status, trial
from tests.support.tool import Record
from tests.support.watching import until

REASON = "make test-peers installs it"
KINDS = {"results": every_status(), "trials": TRIALS, "odd": ODD}
pytestmark = pytest.mark.filterwarnings("ignore")  # of other people's code
PATIENCE = 300.0  # seconds: these programs start slowly


@contextmanager
def server(folder: Path, address: str, *command: object) -> Iterator[None]:
    """Runs a server until the block ends; the block begins when it answers at the address."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=log, stderr=log)
        try:
            until(lambda: answers(address), f"an answer at {address}", PATIENCE)
            yield
        finally:
            process.terminate()
            process.wait(30)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def program(name: str) -> str:
    """Returns the path of a program next to this Python; skips the test where there is none."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    return found or pytest.skip(f"no {name}: {REASON}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_validator_of_harbor_accepts_every_trajectory(kind: str) -> None:
    validator = pytest.importorskip("harbor.utils.trajectory_validator", reason=REASON)
    for document in records_of("atif", *KINDS[kind]):
        one = validator.TrajectoryValidator()
        assert one.validate(document), one.errors


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_ai_reads_the_log(kind: str, tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log", reason=REASON)
    file = tmp_path / "log.json"
    file.write_bytes(export("inspect", *KINDS[kind]).out)
    read = log.read_eval_log(str(file))
    answers = [(one["id"], trial.get("trialNum", 1)) for one in KINDS[kind] for trial in one.get("trials", [{}])]
    for sample in read.samples:  # one in which the agent did nothing has no call of a model
        kinds = {event.event for event in sample.events}
        assert "sample_init" in kinds and ("model" in kinds or len(sample.messages) <= 1)
    assert read.status == "success" and [(sample.id, sample.epoch) for sample in read.samples] == answers
    assert log.read_eval_log(str(file), header_only=True).results == read.results
    assert len(log.read_eval_log_sample_summaries(str(file))) == len(answers)


def test_inspect_view_shows_the_log(tmp_path: Path, opened: Open) -> None:
    inspect = program("inspect")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/log.json").write_bytes(export("inspect", *every_status()).out)
    address = f"http://127.0.0.1:{(port := free_port())}/"
    with server(tmp_path, address, inspect, "view", "start", "--log-dir", "logs", "--port", port):
        page = opened(tmp_path).page
        page.goto(f"{address}#/logs/log.json")
        page.get_by_text("robot exited with 1").first.wait_for()
        page.goto(f"{address}#/logs/log.json/samples/sample/second/1")
        page.get_by_text("thinking about second").first.wait_for()
        page.get_by_text("Model Call").first.wait_for()  # the transcript, not only the messages


def test_mlflow_takes_every_trace(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason=REASON)
    store, port = f"sqlite:///{tmp_path}/mlflow.db", free_port()
    address = f"http://127.0.0.1:{port}"
    where = ("--host", "127.0.0.1", "--port", port, "--workers", 1)
    lines = [line for records in KINDS.values() for line in export("otlp", *records).out.splitlines()]
    with server(tmp_path, f"{address}/health", program("mlflow"), "server", "--backend-store-uri", store, *where):
        for line in lines:
            headers = {"Content-Type": "application/json", "x-mlflow-experiment-id": "0"}
            with urllib.request.urlopen(urllib.request.Request(f"{address}/v1/traces", line, headers)) as reply:
                assert reply.status == 200
        mlflow.set_tracking_uri(address)
        found = mlflow.MlflowClient().search_traces(locations=["0"], max_results=100)
    sent = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in lines]
    assert sorted(len(one.data.spans) for one in found) == sorted(map(len, sent))
    assert {span.span_type for one in found for span in one.data.spans} == {"AGENT", "TOOL"}


@pytest.mark.parametrize("kind", KINDS)
def test_chat_is_of_the_types_of_openai(kind: str) -> None:
    chat: Any = pytest.importorskip("openai.types.chat", reason="the extra `judge` has it")
    adapter: Any = pytest.importorskip("pydantic", reason="openai needs it").TypeAdapter
    message, tool = adapter(chat.ChatCompletionMessageParam), adapter(chat.ChatCompletionToolUnionParam)
    for line in export("sft", *KINDS[kind], args=("--all", "--for", "openai")).records:
        for one in line["messages"]:
            message.validate_python(one)
        for one in line.get("tools", []):
            tool.validate_python(one)


def test_pairs_for_openai_keep_its_rules() -> None:
    lines = export("dpo", *TRIALS, trial("more", [True, False, False]), args=("--for", "openai")).records
    assert len(lines) == 3
    for line in lines:
        for side in ("preferred_output", "non_preferred_output"):
            assert {one["role"] for one in line[side]} <= {"assistant", "tool"}
            check_chat(line["input"]["messages"] + line[side])


@pytest.mark.parametrize(("form", "columns"), [("sft", {"messages"}), ("dpo", {"prompt", "chosen", "rejected"})])
def test_trl_renders_what_datasets_loads(
    form: str, columns: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    trl = pytest.importorskip("trl.data_utils", reason=REASON)
    transformers = pytest.importorskip("transformers", reason=REASON)
    datasets = pytest.importorskip("datasets", reason="the extra `references` loads training data")
    file = tmp_path / "data.jsonl"
    file.write_bytes(export(form, *(TRIALS if form == "dpo" else every_status()), args=("--for", "trl")).out)
    rows = list(datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache")))
    templates = Path(trl.__file__).parent / "chat_templates"
    for name in ("llama3_1", "qwen2_5", "qwen3", "glm4moe", "gptoss"):
        tokenizer = small_tokenizer(transformers, (templates / f"{name}.jinja").read_text())
        for row in rows:
            assert trl.is_conversational(row) and columns <= row.keys()
            rendered = "".join(trl.maybe_apply_chat_template(row, tokenizer).values())
            assert "ls -la" in rendered and '\\"command\\"' not in rendered, name


def small_tokenizer(transformers: Any, template: str) -> Any:
    """Returns a tokenizer with this chat template, which needs nothing from the internet."""
    tokenizers = pytest.importorskip("tokenizers", reason=REASON)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}, unk_token="x"))
    made: Record = {"tokenizer_object": words, "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(**made, chat_template=template)
