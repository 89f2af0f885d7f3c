"""promptfoo's configurations: prompts x tests x values of variables, and assertions with weights and thresholds."""

import glob
import os
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.text import number_in
from agenteval.suites.cases import Case, check_of, object_of, turns
from agenteval.suites.documents import YAML, Found, read_csv, read_document, read_text
from agenteval.wire.records import Record

CONFIGS = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
CODE = (".js", ".cjs", ".mjs", ".ts", ".py", ".rb")
DATA = (".json", ".jsonl", *YAML)
PLAIN_OPTIONS = {"prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"}
TEMPLATE = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
VARIABLE = re.compile(r"[A-Za-z_$][\w$-]*(?:\.[\w$-]+|\[\d+\]|\[(['\"])[^'\"]*\1\])*")
EXPECTED = re.compile(r"(not-)?([a-z][a-z:-]+)(?:\((-?[\d.]+)\))?(?::\s*(.*))?", re.DOTALL)
LEAST = 1e-12  # in place of the weight 0, which an assertion can have and a check cannot
WHOLE_JSON = r"\A\s*(?:[{\[\"\d-]|true|false|null)"


class Config(NamedTuple):
    """What the tests of a configuration share."""

    folder: str
    prompts: list[tuple[str | BadRecord, str]]  # template and label
    default: Record
    templates: Record


def cases(path: str) -> Iterator[Found]:
    """Yields each test with each prompt and each combination of its variables, in promptfoo's order."""
    if os.path.isdir(path):
        path = next(one for name in CONFIGS if os.path.isfile(one := os.path.join(path, name)))
    folder = os.path.dirname(path)
    if path.endswith(".csv"):
        data: Record = {"tests": os.path.basename(path)}
    else:
        data = _loaded(path)
        data = {"tests": os.path.basename(path)} if isinstance(data, list) else data
    if not isinstance(data, dict):
        raise UserError(f"{path}: a configuration is an object with prompts and tests")
    default = data.get("defaultTest") or {}
    default = _loaded(os.path.join(folder, _plain(default))) if isinstance(default, str) else default
    templates = data.get("assertionTemplates") or {}
    if not isinstance(default, dict) or not isinstance(templates, dict):
        raise UserError(f"{path}: defaultTest and assertionTemplates must be objects")
    prompts = [prompt for one in _list(data.get("prompts", "{{prompt}}")) for prompt in _prompts_in(one, folder)]
    config = Config(folder, prompts, default, templates)
    test_number = 0
    for where, test in _tests(path, folder, data):
        if isinstance(test, BadRecord):
            test_number += 1
            yield Found(where, test)
            continue
        for variables in _combinations(test, config):
            test_number += 1
            for prompt_number, prompt in enumerate(prompts, 1):
                if _wants(test, prompt[1]):
                    yield Found(where, (f"{test_number}-{prompt_number}", config, prompt, test, variables))


def _loaded(path: str) -> Any:
    try:
        return read_document(path).data
    except BadRecord as error:
        raise UserError(f"{path}: {error}") from None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(path: str) -> str:
    return path.removeprefix("file://")


def _prompts_in(prompt: Any, folder: str) -> Iterator[tuple[str | BadRecord, str]]:
    """Yields the templates of an entry of `prompts`, each with its label: a text, or the files that it names."""
    label = None
    if isinstance(prompt, dict):
        label = prompt.get("label") or prompt.get("id")
        prompt = prompt.get("raw") or prompt.get("id")
    text = str(prompt)
    is_file = text.startswith("file://") or ("\n" not in text and text.endswith((".txt", ".md", ".json", *CODE)))
    if not is_file:
        yield text, str(label or text)
        return
    for path in sorted(glob.glob(os.path.join(folder, _plain(text)))) or [os.path.join(folder, _plain(text))]:
        if not path.endswith((".txt", ".md", ".json")) or not os.path.isfile(path):
            reason = (
                "is a program" if path.endswith(CODE) else "no such file" if not os.path.isfile(path) else "not text"
            )
            yield BadRecord(f"the prompt {path} cannot be read: {reason}"), str(label or text)
            continue
        parts = (
            re.split(r"^---\s*$", read_text(path), flags=re.MULTILINE) if path.endswith(".txt") else [read_text(path)]
        )
        for part in parts:
            if part.strip():
                yield part.strip(), str(label or f"{_plain(text)}: {part.strip()}")


def _wants(test: Record, label: str) -> bool:
    wanted = test.get("prompts")
    names = map(str, _list(wanted))
    return not wanted or any(label == name or label.startswith(name.removesuffix("*") + ":") for name in names)


# --- tests --------------------------------------------------------------------------------------


def _tests(path: str, folder: str, data: Record) -> Iterator[tuple[str, Record | BadRecord]]:
    """Yields the tests and their places: from the file itself, from files that it names, and from scenarios."""
    lines = {} if path.endswith(".csv") else read_document(path).lines
    given = data.get("tests") or []
    for index, test in enumerate(_list(given)):
        line = f":{lines['tests'][index]}" if "tests" in lines else ""
        if isinstance(test, str):
            yield from _tests_in(os.path.join(folder, _plain(test)), f"{path}{line}")
        else:
            yield f"{path}{line}", test if isinstance(test, dict) else BadRecord("a test must be an object")
    for index, scenario in enumerate(_list(data.get("scenarios") or [])):
        where = f"{path}:{lines['scenarios'][index]}" if "scenarios" in lines else path
        if not isinstance(scenario, dict):
            yield where, BadRecord("a scenario in another file cannot be read")
            continue
        for config, test in product(_list(scenario.get("config") or [{}]), _list(scenario.get("tests") or [{}])):
            try:
                yield where, _merged(config, test)
            except (TypeError, AttributeError):
                yield where, BadRecord("config and tests of a scenario must be lists of objects")


def _tests_in(pattern: str, where: str) -> Iterator[tuple[str, Record | BadRecord]]:
    for path in sorted(glob.glob(pattern)) or [pattern]:
        try:
            if path.endswith(".csv"):
                for line, cells in read_csv(path):
                    yield f"{path}:{line}", cells if isinstance(cells, BadRecord) else _test_of_row(cells)
            elif path.endswith(DATA) and os.path.isfile(path):
                document = read_document(path)
                for index, test in enumerate(_list(document.data)):
                    line, is_test = document.lines[""][index] if "" in document.lines else 1, dict | BadRecord
                    yield f"{path}:{line}", test if isinstance(test, is_test) else BadRecord("must be an object")
            else:
                reason = "is a program" if path.endswith(CODE) else "no such file, or it contains no tests"
                yield where, BadRecord(f"{path}: {reason}")
        except MissingExtra:
            raise
        except (BadRecord, UserError) as error:
            yield where, BadRecord(str(error) if isinstance(error, UserError) else f"{path}: {error}")


def _test_of_row(cells: list[tuple[str, str]]) -> Record:
    """Returns the test of a row: columns that begin with __ are fields of the test, others are variables."""
    test: Record = {"vars": {}, "assert": [], "options": {}, "metadata": {}}
    for name, cell in cells:
        if re.fullmatch(r"__expected\d*", name):
            if cell.strip():
                test["assert"].append(_assertion_of(cell.strip()))
        elif name in ("__prefix", "__suffix"):
            test["options"][name[2:]] = cell
        elif name == "__threshold" and cell:
            test["threshold"] = number_in(cell)
        elif name.startswith("__metadata:"):
            test["metadata"][name.partition(":")[2]] = cell
        elif name == "__description":
            test["description"] = cell
        elif name.startswith("__"):
            if cell:
                test[name] = cell
        elif name:
            test["vars"][name] = cell
    return test


def _assertion_of(text: str) -> Record:
    """Returns the assertion of a cell, such as `icontains: yes` or `similar(0.8): text`; other text means `equals`."""
    for prefix, type_ in (("javascript:", "javascript"), ("fn:", "javascript"), ("eval:", "javascript")):
        if text.startswith(prefix):
            return {"type": type_, "value": text.removeprefix(prefix).strip()}
    if text.startswith("grade:"):
        return {"type": "llm-rubric", "value": text.removeprefix("grade:").strip()}
    found = EXPECTED.fullmatch(text)
    if found and (found[2] in KINDS or found[2] in OTHERS):
        threshold = {"threshold": number_in(found[3])} if found[3] else {}
        return {"type": f"{found[1] or ''}{found[2]}", "value": (found[4] or "").strip(), **threshold}
    return {"type": "equals", "value": text}


def _merged(first: Record, second: Record) -> Record:
    """Merges two tests; the second overrides variables, options and metadata one by one, assertions are added."""
    merged = {**first, **second}
    for name in ("vars", "options", "metadata"):
        merged[name] = {**(first.get(name) or {}), **(second.get(name) or {})}
    merged["assert"] = [*(first.get("assert") or []), *(second.get("assert") or [])]
    return merged


def _combinations(test: Record, config: Config) -> list[Record]:
    """Returns the sets of variables: every combination of the values of those that are lists."""
    try:
        merged = _merged(config.default, test)
        variables = {name: _file_value(value, config.folder) for name, value in merged["vars"].items()}
    except (BadRecord, UserError, AttributeError, TypeError):
        return [{}]  # fill() says what is wrong
    if merged["options"].get("disableVarExpansion"):
        return [variables]
    return [dict(zip(variables, values, strict=True)) for values in product(*map(_list, variables.values()))]


def _file_value(value: Any, folder: str) -> Any:
    if not isinstance(value, str) or not value.startswith("file://"):
        return value
    path = os.path.join(folder, _plain(value))
    if path.endswith(CODE):
        raise BadRecord(f"{value} is a program, which is not run")
    if not os.path.isfile(path):
        raise BadRecord(f"{path}: no such file")
    return read_document(path).data if path.endswith(DATA) else read_text(path)


# --- a prompt -----------------------------------------------------------------------------------


def fill(case: Case, raw: Any) -> None:
    """Turns a test into a prompt."""
    ident, config, (template, label), test, variables = raw
    if isinstance(template, BadRecord):
        raise template
    for name in ("vars", "options", "metadata"):
        object_of(test.get(name) or {}, f'"{name}"')
    merged = _merged({} if (test.get("options") or {}).get("disableDefaultAsserts") else config.default, test)
    for value in merged["vars"].values():
        _file_value(value, config.folder)  # says what is wrong with a file
    options = merged["options"]
    text = render(f"{options.get('prefix', '')}{template}{options.get('suffix', '')}", variables)
    case.fields = {"id": ident, "input": _input(case, text)}
    case.metadata = {**merged["metadata"], "test": merged.get("description")}
    if len(config.prompts) > 1:
        case.metadata["prompt"] = label
    case.metadata["vars"] = variables
    for name in sorted(options.keys() - PLAIN_OPTIONS):
        case.lose(f"options.{name}")
    for name in ("provider", "providers", "providerOutput", "assertScoringFunction", "__providerOutput", "__metric"):
        if merged.get(name):
            case.lose(name)
    checks = _checks(case, merged["assert"], config, variables)
    threshold = merged.get("threshold")
    if checks and threshold and all(check.get("weight") == LEAST for check in checks):
        raise BadRecord(f"the threshold {threshold} is never reached: all weights are 0")
    if checks and threshold is not None:
        checks = [_group(checks, threshold, name=f"threshold {threshold}")]
    case.checks = checks
    if not merged["assert"]:
        case.lose("no assertion: not graded")


def render(template: str, variables: Record) -> str:
    """Returns the text of a template with its variables, which may contain templates themselves."""
    for _depth in range(3):
        if "{%" in template or "{#" in template:
            raise BadRecord("the template has {% … %} or {# … #}; only {{ variables }} can be filled in")
        if not TEMPLATE.search(template):
            break
        template = TEMPLATE.sub(lambda found: _value(found[1], variables), template)
    return template


def _value(expression: str, variables: Record) -> str:
    if not VARIABLE.fullmatch(expression):
        raise BadRecord(f"{{{{ {expression} }}}} is not a variable: filters and expressions cannot be filled in")
    value: Any = variables
    for part in re.findall(r"[\w$-]+", expression):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = None
    return "" if value is None else encode(value).decode() if isinstance(value, dict | list | bool) else str(value)


def _input(case: Case, text: str) -> str | list[str]:
    """Returns the prompt, or the user's messages if it is a chat in JSON."""
    if text.lstrip().startswith("["):
        try:
            messages = decode(text)
        except BadRecord:
            return text
        if isinstance(messages, list) and messages and all(isinstance(one, dict) and "role" in one for one in messages):
            return turns(case, messages)
    if not text.strip():
        raise BadRecord("the prompt is empty: does the test have the variables of the prompt?")
    return text


# --- assertions ---------------------------------------------------------------------------------


def _checks(case: Case, assertions: Any, config: Config, variables: Record) -> list[Record]:
    """Returns the checks for assertions; notes those that cannot be expressed."""
    checks = []
    for given in assertions if isinstance(assertions, list) else []:
        assertion = object_of(given, "an assertion")
        if "$ref" in assertion:
            name = str(assertion["$ref"]).rpartition("/")[2]
            if name not in config.templates:
                raise BadRecord(f"assertionTemplates has no {name!r}")
            assertion = {**config.templates[name], **assertion}
        if not isinstance(assertion.get("type"), str):
            raise BadRecord('an assertion has no "type"')
        check = _check(case, assertion, config, variables)
        if check is None:
            case.lose(assertion["type"], assertion.get("value"))
            continue
        weight, metric = assertion.get("weight", 1), assertion.get("metric")
        check |= {} if weight == 1 else {"weight": weight} if weight else {"weight": LEAST, "required": False}
        checks.append(check | ({"name": render(str(metric), variables)} if metric else {}))
    return checks


def _check(case: Case, assertion: Record, config: Config, variables: Record) -> Record | None:
    """Returns the check for an assertion; None if there is none."""
    type_ = assertion["type"]
    if type_ == "assert-set":
        checks = _checks(case, assertion.get("assert"), config, variables)
        return _group(checks, assertion.get("threshold", 1)) if checks else None
    if any(assertion.get(name) for name in ("transform", "contextTransform")):
        return None
    inverse, kind = type_.startswith("not-"), type_.removeprefix("not-")
    value = _file_value(assertion.get("value"), config.folder)
    value = _rendered(value, variables)
    return KINDS[kind](value, assertion.get("threshold"), inverse) if kind in KINDS else None


def _rendered(value: Any, variables: Record) -> Any:
    if isinstance(value, str):
        return render(value, variables)
    if isinstance(value, list):
        return [_rendered(one, variables) for one in value]
    if isinstance(value, dict):
        return {name: _rendered(one, variables) for name, one in value.items()}
    return value


def _group(checks: list[Record], threshold: float, **more: Any) -> Record:
    return check_of("group", checks=checks, threshold=threshold, **more)


def _texts(value: Any) -> list[str]:
    """Returns the texts of an assertion; a single text is split at its commas."""
    values = value if isinstance(value, list) else re.findall(r'\s*("[^"]*"|[^,]+)\s*(?:,|$)', str(value or ""))
    texts = [str(one) if isinstance(value, list) else one.strip().strip('"') for one in values]
    if not any(texts):
        raise BadRecord("an assertion has no value")
    return texts


def _contains(value: Any, _threshold: Any, inverse: bool, ignore_case: bool = False) -> Record:
    return check_of("not-contains" if inverse else "contains", value=_text(value), ignoreCase=ignore_case)


def _contains_any(value: Any, _threshold: Any, inverse: bool, ignore_case: bool = False) -> Record:
    return check_of("not-contains" if inverse else "contains", value=_texts(value), ignoreCase=ignore_case)


def _contains_all(value: Any, _threshold: Any, inverse: bool, ignore_case: bool = False) -> Record:
    """Returns a check that all of the texts occur; inverted, that at least one is missing."""
    texts = _texts(value)
    checks = [_contains(text, None, inverse, ignore_case) for text in texts]
    return _group(checks, 1 / len(checks) if inverse else 1)


def _equals(value: Any, _threshold: Any, inverse: bool) -> Record | None:
    if isinstance(value, dict | list):
        return None if inverse else check_of("json-schema", schema={"const": value})
    text = "" if value == "" else _text(value)
    if inverse:
        return check_of("not-regex", value=rf"\A\s*{re.escape(text)}\s*\Z")
    return check_of("equals", value=text)


def _starts_with(value: Any, _threshold: Any, inverse: bool) -> Record:
    if inverse:
        return check_of("not-regex", value=rf"\A\s*{re.escape(_text(value))}")
    return check_of("starts-with", value=_text(value))


def _regex(value: Any, _threshold: Any, inverse: bool) -> Record:
    return check_of("not-regex" if inverse else "regex", value=_text(value))


def _is_json(value: Any, _threshold: Any, inverse: bool) -> Record | None:
    if inverse:
        return None
    schema = decode(value) if isinstance(value, str) and value.strip() else value or {}
    return _group([check_of("json-schema") | {"schema": schema}, check_of("regex", value=WHOLE_JSON)], 1)


def _limit(type_: str) -> Callable[[Any, Any, bool], Record | None]:
    def check(_value: Any, threshold: Any, inverse: bool) -> Record | None:
        if threshold is None:
            raise BadRecord(f"an assertion for {type_} has no threshold")
        return None if inverse else {"type": type_, "value": threshold}

    return check


def _judged(rubric: str, least: float | None = None) -> Callable[[Any, Any, bool], Record | None]:
    def check(value: Any, threshold: Any, inverse: bool) -> Record | None:
        if inverse:
            return None
        text = "\n".join(map(_text, value)) if isinstance(value, list) else _text(value)
        return check_of("judge", rubric=rubric.format(text)) | _threshold(threshold if threshold is not None else least)

    return check


def _threshold(value: float | None) -> Record:
    return {} if value is None else {"threshold": value}


def _tools(value: Any, _threshold: Any, inverse: bool) -> Record | None:
    if isinstance(value, dict):
        if inverse:
            return None
        tool, least, most = value.get("pattern") or value.get("name"), value.get("min", 1), value.get("max")
        if most == 0:
            return check_of("tool-not-called", tool=tool)
        return check_of("tool-called", tool=tool, min=least, max=most) if least else None
    checks = [check_of("tool-not-called" if inverse else "tool-called", tool=tool) for tool in _list(value)]
    return checks[0] if len(checks) == 1 else _group(checks, 1)


def _tool_order(value: Any, _threshold: Any, inverse: bool) -> Record | None:
    mode, steps = (value.get("mode"), value.get("steps")) if isinstance(value, dict) else (None, value)
    names = [one.get("pattern") or one.get("name") if isinstance(one, dict) else one for one in _list(steps)]
    if inverse or mode == "exact" or len(names) < 2:
        return None
    return check_of("tool-order", tools=names)


def _skills(value: Any, _threshold: Any, inverse: bool) -> Record | None:
    if isinstance(value, dict):
        if value.keys() - {"name"}:
            return None
        value = value["name"]
    checks = [check_of("skill-not-used" if inverse else "skill-used", skill=skill) for skill in _list(value)]
    return checks[0] if len(checks) == 1 else _group(checks, 1)


def _text(value: Any) -> str:
    if value is None or value == "":
        raise BadRecord("an assertion has no value")
    return encode(value).decode() if isinstance(value, dict | list | bool) else str(value)


def _ignoring_case(function: Callable[..., Record]) -> Callable[[Any, Any, bool], Record]:
    return lambda value, threshold, inverse: function(value, threshold, inverse, True)


KINDS: dict[str, Callable[[Any, Any, bool], Record | None]] = {
    "contains": _contains,
    "icontains": _ignoring_case(_contains),
    "contains-any": _contains_any,
    "icontains-any": _ignoring_case(_contains_any),
    "contains-all": _contains_all,
    "icontains-all": _ignoring_case(_contains_all),
    "equals": _equals,
    "starts-with": _starts_with,
    "regex": _regex,
    "is-json": _is_json,
    "latency": _limit("max-duration"),
    "cost": _limit("max-cost"),
    "llm-rubric": _judged("{}"),
    "model-graded-closedqa": _judged("{}"),
    "g-eval": _judged("{}", 0.7),
    "factuality": _judged("The answer agrees in its facts with: {}"),
    "model-graded-factuality": _judged("The answer agrees in its facts with: {}"),
    "trajectory:tool-used": _tools,
    "trajectory:tool-sequence": _tool_order,
    "trajectory:goal-success": _judged("The agent reached the goal: {}"),
    "skill-used": _skills,
}
OTHERS = {  # recognized in the cells of a csv file, but not expressible
    *("answer-relevance", "bleu", "classifier", "contains-html", "contains-json", "contains-sql", "contains-xml"),
    *("context-faithfulness", "context-recall", "context-relevance", "conversation-relevance", "finish-reason", "gleu"),
    *("guardrails", "is-html", "is-refusal", "is-sql", "is-valid-openai-function-call", "is-valid-openai-tools-call"),
    *("is-xml", "javascript", "levenshtein", "meteor", "moderation", "perplexity", "perplexity-score", "pi", "python"),
    *("rouge-n", "ruby", "search-rubric", "similar", "tool-call-f1", "webhook", "word-count"),
}
