"""The line of a process's stderr that says why it failed: the one a person would read out of it."""

import re

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# Lines with another purpose: stack frames, code, marks under it, help, versions, progress.
_NOISE = re.compile(
    r"""at\ \S.*[:(]\d+|at\ (?:async\ )?[\w.$<>\[\] ]+\(.*\)$|at\ (?:native|<anonymous>|file:|node:|/)
      | File\ ".*",\ line\ \d+ | Traceback\ \(most\ recent | \d+:\ +0x | \d+:\ +[\w<>:$]+$ | \d+\ \|
      | (?:throw|raise|return|await|const|let|var|if|for|import|from)\b.*[;({:]$
      | Node\.js\ v\d | Bun\ v\d
      | (?:usage|options|arguments|commands|examples|positionals|global\ options|flags)\b\s*(?::|$)
      | -{1,2}[\w-]+(?:[,=\ ]|$) | (?:for\ more\ information|try|run|see|use)\b.*(?:--?help|-h\b)
      | .*\[(?:boolean|string|number|array|count|choices|default|required)\b.*\]$
      | note:\ | hint:\ | npm\ notice | reading\ .*\bfrom\ stdin
      | .*(?:\.\.\.|…)$
      | [^\w]*$""",
    re.VERBOSE | re.IGNORECASE,
)
_NAME = r"(?:[\w.$/@-]+(?:\(\d+\)|\[\d+\])?:\s+)?"  # of the program, before the message
_ERROR = re.compile(
    rf"""{_NAME}(?:uncaught\s+|unhandled\s+)?[\[(]?(?:[\w.$]*(?:error|exception)|fatal|panic|failure|critical)\b[\])]?\s*[:\[(]
      | {_NAME}(?:error|fatal|failed|cannot|could\ not|can't|unable)\b
      | [\w.]+(?:Error|Exception|Exit|Interrupt|Warning)\b(?:$|:)
      | .*\bpanicked\ at\b
      | .*(?:^|[\s\[|(=])(?:ERROR|FATAL|CRITICAL|ERR|SEVERE)(?=[\s\]|):]|$)
      | .*\blevel=(?:error|fatal)""",
    re.VERBOSE,
)
_ANY_CASE = re.compile(rf"{_NAME}[\[(]?(?:fatal|error|failed|cannot|could not|unable)\b(?! free)", re.IGNORECASE)
_SOUNDS_WRONG = re.compile(
    r"""(?<!no\ )(?<!0\ )(?<!without\ )\b(?:errors?|exceptions?|fail(?:ed|ure|s)?|fatal|cannot|can't|couldn't
      | could\ not|unable|denied|refused|rejected|forbidden|unauthorized|invalid|unknown|unrecogni[sz]ed|unexpected
      | unsupported|missing
      | not\ (?:found|allowed|supported|logged|set|installed|permitted|defined)|no\ such|timed?\ ?out|abort(?:ed)?
      | killed|out\ of\ memory|exceeded|expired|exhausted|must\ (?:be|have|set)|required|[45]\d\d\s)""",
    re.VERBOSE | re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(?:^|[\s\[])(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE)\b|^\(node:\d+\)|deprecat|^warning", re.IGNORECASE
)
_PYTHON_WARNING = re.compile(r"^\S.*:\d+: \w*Warning: .*\n?(?: .*\n?)?", re.MULTILINE)  # and the code that it is about


def error_line(stderr: str) -> str:
    """Returns what stderr says about a failure, in one line: its last error, else its last line, "" if it is empty.

    A line that ends in a colon is followed by the next one.
    """
    text = _PYTHON_WARNING.sub("", _CODES.sub("", stderr))
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    useful = [(n, line) for n, line in enumerate(lines) if not _NOISE.match(line)]
    quiet = [(n, line) for n, line in useful if not _HARMLESS.search(line)]
    for pattern in (_ERROR.match, _ANY_CASE.match, _SOUNDS_WRONG.search):
        if found := [n for n, line in quiet if pattern(line)]:
            return _with_next(lines, found[-1])
    if useful:
        return (quiet or useful)[-1][1]
    return lines[-1] if lines and not any(map(str.isalnum, "".join(lines))) else ""


def _with_next(lines: list[str], n: int) -> str:
    following = lines[n + 1 : n + 2] if lines[n].endswith(":") else []
    return " ".join([lines[n], *following])
