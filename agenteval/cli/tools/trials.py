"""ae-trials: prompts → trials: each prompt k times, and how often it passes."""

from typing import Any

from agenteval.agents.run_settings import RunSettings
from agenteval.cli.agent_options import (
    agent_options,
    extraction_option,
    inline_grader_options,
    stop_options,
)
from agenteval.cli.graded_runs import run_trials
from agenteval.cli.options import count_option, input_argument, max_steps_option
from agenteval.cli.tool import tool
from agenteval.streams.source import Source

DEFAULT_K = 5


@tool("ae-trials")
@input_argument("PROMPTS")
@count_option("-k", least=1, default=DEFAULT_K, help="Number of trials per prompt.")
@inline_grader_options
@extraction_option
@stop_options
@max_steps_option
@agent_options
def main(path: str | None, k: int, **options: Any) -> int:
    """Run each prompt k times through an agent; with graders, report how often it passes.

    Every trial is a fresh session and, with --workspace-dir, has its own directory (prompt-<id>-trial-<n>). Trials
    run in parallel, -j at a time; without --workspace-dir the trials of one prompt share a directory and run one
    after another. Each prompt gives one record: its trials and, if graded, passRate, passAtK = 1-(1-p)^k and passExpK
    = p^k, plus passAt and passExp, the unbiased estimates for 1 to k trials. A trial whose agent fails has `errors`
    and does not pass (see --grade-failed). One whose grader errs has `graderError`, and counts neither way. At the
    end, unbiased pass@1, pass@k and pass^k over the prompts of this run are printed on stderr, with 95% intervals.
    Agents run with your permissions: a directory of their own does not confine them, --sandbox does.

    Examples:
      ae-trials prompts.jsonl -s claude -k 5 -j 4 --workspace-dir ws -g ./grader.py -o trials.jsonl
      ae-trials prompts.jsonl -s claude -k 5 -j 4 --workspace-dir ws -g ./grader.py -o trials.jsonl --resume
      ae-trials prompts.jsonl -s claude -k 3 -g ./grader.py --threshold 0.9 --stop-when-known -o trials.jsonl
      ae-trials prompts.jsonl --simple "echo {}" -k 3 -g ae-grader-hint | jq '{id, passRate}'

    With --stop-when-known the prompts run in random order, and no more are started once it is known whether the run
    passes more or less often than --against FILE on the same prompts, or than --threshold. The test allows for a look
    after every prompt: at most 5% of runs that do not differ are stopped. With --margin a run also ends once it is
    known to be worse by at most that much. ae-compare --fail-if-worse judges a stopped run by the rule that stopped
    it.

    With -o FILE each finished trial is kept in FILE.unfinished until its prompt has been written; --resume reads both
    files, so no finished trial is paid for twice. FILE.unfinished is removed at the end.
    """
    return run_trials(Source(path), RunSettings(**options), k)
