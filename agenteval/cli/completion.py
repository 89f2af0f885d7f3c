"""TAB completion of a tool's command line: Click's ShellComplete for the scripts in shells/.

A shell that has read `ae completion SHELL` starts the tool with _AE_COMPLETE set and the words up to the cursor as
arguments. The lines of the answer are: what the shell adds itself (plain: nothing; file, dir, command); the unchanged
start of the last word, such as --style=; then each matching word, a tab and its help. Click's own scripts can neither
offer names beside files nor complete after `=` and `:` in bash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete

from agenteval.adapters.schema_file import bundled_adapters
from agenteval.cli.executables import own_tools, plug_ins, search_path

if TYPE_CHECKING:
    from agenteval.cli.tool import Tool


def adapters() -> Mapping[str, str]:
    """Returns the adapter schemas that ship with the suite."""
    return dict.fromkeys(bundled_adapters(), "adapter of the suite")


def graders() -> Mapping[str, str]:
    """Returns the graders of the suite, and plug-ins that have a grader's name."""
    others = plug_ins(search_path())
    return {**own_tools("graders"), **{name: others[name] for name in others if name.startswith("ae-grader-")}}


NAMED = {"FILE|NAME": adapters, "[NAME=]GRADER": graders}  # a metavar means one thing in every tool


class ToolComplete(ShellComplete):
    """The completions of the last word, which may be empty."""

    name = "ae"

    def __init__(self, tool: Tool, words: list[str]) -> None:
        super().__init__(tool, {}, tool.name or "ae", "_AE_COMPLETE")
        self.tool, self.words = tool, words
        self.kept = ""  # the unchanged start of the word

    def complete(self) -> str:
        """Returns the answer for the shell."""
        items = self.get_completions(self.words[:-1], "".join(self.words[-1:]))
        kind = next((item.type for item in items if item.type != "plain"), "plain")
        words = (f"{item.value}\t{item.help or ''}" for item in items if item.type == "plain")
        return "\n".join([kind, self.kept, *words])

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Returns the matching words, then what the shell should add."""
        dashes = "--" in args
        if dashes and self.tool.takes_command:
            return [CompletionItem(incomplete, type="command" if args[-1] == "--" else "file")]
        ctx = self.tool.make_context(self.prog_name, list(args), resilient_parsing=True)
        options = {name: param for param in self.tool.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
        param = options.get(self._option_without_value(args))
        if param is None and incomplete.startswith("-") and not dashes:
            name, equals, value = incomplete.partition("=")
            if not equals:
                return self.tool.shell_complete(ctx, incomplete)
            self.kept, incomplete, param = f"{name}=", value, options.get(name)
        elif param is None:
            param = next(_open_arguments(ctx), None)
        return self._values(ctx, param, incomplete) if param else []

    def _option_without_value(self, args: list[str]) -> str:
        """Returns the name of the option whose value comes next, if any: Click's parser reports it as missing."""
        try:
            self.tool.make_parser(click.Context(self.tool)).parse_args(list(args))
        except click.BadOptionUsage as error:
            return error.option_name
        except click.UsageError:
            pass
        return ""

    def _values(self, ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
        """Returns the completions of a parameter, by its type or else its metavar."""
        if param.type is not click.STRING:
            return param.shell_complete(ctx, word)
        metavar = param.metavar or ""
        if label := re.match(r"\[?[A-Z]+([=:])", metavar):  # LABEL:PATH, [NAME=]GRADER
            before, sign, word = word.rpartition(label[1])
            self.kept += before + sign
        items = starting(word, NAMED[metavar]()) if metavar in NAMED else []
        if re.search("FILE|PATH|GRADER", metavar) or (isinstance(param, click.Argument) and "DIR" not in metavar):
            return [*items, CompletionItem(word, type="file")]
        return [*items, CompletionItem(word, type="dir")] if "DIR" in metavar else items


def starting(word: str, words: Mapping[str, str]) -> list[CompletionItem]:
    """Returns the words that start like this one, with their help."""
    return [CompletionItem(name, help=help) for name, help in words.items() if name.startswith(word)]


def _open_arguments(ctx: click.Context) -> Iterator[click.Parameter]:
    for param in ctx.command.get_params(ctx):
        given = ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE
        if isinstance(param, click.Argument) and (param.nargs == -1 or not given):
            yield param
