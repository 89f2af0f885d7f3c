"""What happens in a round, drawn from its seed: the tool, its options, the prompts, and the faults of each attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.chaos import agents
from tests.chaos.faults import FAULTS, RAY_FAULTS, possible_faults
from tests.support.tool import Record

TOOLS = ["ae-run", "ae-capture", "ae-trials", "ae-grade"]
SHAPES = ["file", "file", "file", "shards", "ray"]  # ray: only where it is installed, and one round in RAY_EVERY
RAY_EVERY = 80
TIMEOUT = "5s"  # agents that hang wait for it; on a busy machine the others need a second or two to start


@dataclass
class Plan:
    """A round: everything that is drawn, and nothing that is measured."""

    seed: int
    number: int
    tool: str = "ae-run"
    shape: str = "file"
    agent: str = "simple"
    graders: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    workspaces: list[str] = field(default_factory=list)
    prompts: list[Record] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # one per attempt; then attempts without a fault until it is done

    @property
    def ordered(self) -> bool:
        """Returns whether records come in the order of the prompts."""
        return "--keep-order" in self.options or (self.tool == "ae-grade" and self.shape != "ray")

    @property
    def name(self) -> str:
        """Returns the round in one line."""
        does = [f"{prompt['does']}/{prompt['graderDoes']}" for prompt in self.prompts]
        words = [self.tool, self.shape, self.agent, *self.graders, *self.options, *self.workspaces, "with", *does]
        return f"{' '.join(words)}; faults: {', '.join(self.faults)}"

    def randomness(self, what: str) -> random.Random:
        """Returns a generator of its own for a part of the round, the same whenever the round is repeated."""
        return random.Random(f"{self.seed}/{self.number}/{what}")


def draw(seed: int, number: int, *, ray: bool = False, faults: list[str] | None = None) -> Plan:
    """Returns the plan of a round."""
    plan = Plan(seed, number)
    rng = plan.randomness("plan")
    plan.tool = TOOLS[number % len(TOOLS)]  # the rounds that there are give each its share
    plan.shape = rng.choice(SHAPES[:-1])
    if ray and number % RAY_EVERY < len(TOOLS) and number // RAY_EVERY % len(TOOLS) == number % len(TOOLS):
        plan.shape = "ray"
    if plan.tool == "ae-grade" and plan.shape == "shards":
        plan.shape = "file"  # it has no --shard
    plan.agent = rng.choice(["simple", "shell", "schema", "acp"])
    if plan.tool != "ae-run":
        plan.graders = _draw_graders(rng, least=plan.tool == "ae-grade")
    plan.options = _draw_options(plan, rng)
    if plan.tool != "ae-grade" and plan.shape != "ray" and rng.random() < 0.5:
        plan.workspaces = _draw_workspaces(rng)
    plan.prompts = _draw_prompts(plan, rng)
    choice = faults or (RAY_FAULTS if plan.shape == "ray" else possible_faults())
    choice = [name for name in choice if plan.workspaces or "workspace" not in name]
    choice = [name for name in choice if plan.shape != "shards" or not FAULTS[name].alone]
    weights = [FAULTS[name].weight for name in choice]
    plan.faults = rng.choices(choice, weights, k=1 if plan.shape == "ray" else rng.choice([1, 1, 2, 3]))
    return plan


def _draw_graders(rng: random.Random, *, least: bool) -> list[str]:
    # `--stream` is for all executables of a command, so that one kind of them is in it.
    kinds = [rng.choice(["executable", "stream"]), "function", "hint"]
    return rng.sample(kinds, rng.choice([1, 1, 2, 3] if least else [0, 1, 1, 2]))


def _draw_options(plan: Plan, rng: random.Random) -> list[str]:
    options = ["-j", str(rng.choice([1, 3, 4, 8]))]
    if plan.tool == "ae-grade":
        return [*options, "-t", TIMEOUT, *(["--keep-order"] if plan.shape == "ray" and rng.random() < 0.5 else [])]
    if plan.shape == "ray":
        options = []
    options += ["-t", TIMEOUT, "--max-output", "200K", "--keep-going"]  # also if all that were drawn fail alike
    if plan.graders:
        options += ["--grader-timeout", TIMEOUT]
    if plan.tool == "ae-trials":
        options += ["-k", str(rng.choice([1, 2, 3]))]
    if rng.random() < 0.4:
        options.append("--keep-order")
    for option, share in ((["-e"], 0.2), (["--retries", "1"], 0.15), (["--no-sync"], 0.2), (["--rate", "100/s"], 0.1)):
        if rng.random() < share:
            options += option
    return options


def _draw_workspaces(rng: random.Random) -> list[str]:
    options = ["--workspace-dir", "ws", "--keep-workspaces", rng.choice(["all", "failed", "none"])]
    if rng.random() < 0.4:
        options += ["--workspace-template", "template"]
    if rng.random() < 0.3:
        options.append("--workspace-git")
    return options


def _draw_prompts(plan: Plan, rng: random.Random) -> list[Record]:
    prompts = []
    count = rng.randint(3, 9) if plan.tool != "ae-trials" else rng.randint(2, 4)
    slow = 0
    for number in range(count):
        does = _draw_behaviour(rng, agents.GOOD, agents.BAD)
        grader = _draw_behaviour(rng, agents.GRADER_GOOD, agents.GRADER_BAD) if plan.graders else "quick"
        if "deaf" in (does, grader):
            slow += 1
        if slow > 1:
            does, grader = (name if name != "deaf" else "quick" for name in (does, grader))
        text = [f"{does} {number}", "quick again"] if rng.random() < 0.1 else f"{does} {number}"
        prompts.append({"id": f"p{number}", "input": text, "does": does, "graderDoes": grader, "hint": "answer"})
    return prompts


def _draw_behaviour(rng: random.Random, good: list[str], bad: list[str]) -> str:
    chosen = rng.choice(agents.possible(bad if rng.random() < 0.25 else good))
    return "quick" if rng.random() < 0.4 else chosen
