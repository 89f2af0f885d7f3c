"""Results of `claude plugin eval` (aggregate-result.json) → results: one per case, arm and run, without the answers."""

from agenteval.adapters.imported import ImportedResult, as_object, objects, verdict
from agenteval.adapters.values import as_text, epoch_milliseconds
from agenteval.errors import BadRecord
from agenteval.wire.records import Record


def results_of(document: Record) -> list[Record]:
    """Returns the results of a run; raises BadRecord if the document is something else."""
    if not isinstance(document.get("cases"), list) or "claudeVersion" not in document:
        raise BadRecord("not a result of claude plugin eval: cases or claudeVersion is missing")
    facts = {"model": as_object(document.get("suite")).get("modelOverride"), "agentVersion": document["claudeVersion"]}
    return [
        _result(case, arm, number, run, facts)
        for case in objects(document["cases"])
        for arm, runs in as_object(case.get("arms")).items()
        for number, run in enumerate(objects(runs), 1)
    ]


def _result(case: Record, arm: str, number: int, run: Record, facts: Record) -> Record:
    name = as_text(case.get("name")) or "case"
    built = ImportedResult(f"{name}{'' if arm == 'with' else f'@{arm}'}{'' if number == 1 else f'#{number}'}", "claude")
    built.metadata = {**facts, "case": name, "arm": arm, "run": number}
    built.turn(as_text(case.get("promptMarkdown")))
    built.output = ""
    built.usage["costUsd"] = run.get("costUsd")
    start, took = epoch_milliseconds(run.get("startedAt")), run.get("durationSeconds")
    if start is not None and isinstance(took, int | float):
        built.start, built.end = start, start + round(took * 1000)
    for grader in objects(run.get("graders")):
        found = verdict(float(grader.get("passed") is True), None, grader.get("explanation"))
        if grader.get("scored") is not False and found is not None:
            built.add_verdict(as_text(grader.get("name")) or "grader", found)
    built.overall = verdict(run.get("score"), run.get("passed"), None)
    if aborted := as_object(run.get("aborted")):
        built.errors = [f"aborted: {as_text(aborted.get('reason'))}"]
    elif run.get("error"):
        built.errors = [as_text(run["error"])]
    return built.result()
