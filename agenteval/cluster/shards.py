"""Which share of a run this machine takes: as given, or as Slurm or Kubernetes say in the environment."""

import os
from collections.abc import Mapping

from agenteval.streams.text import whole_number

SLURM = "SLURM_ARRAY_TASK_"


def parse_shard(text: str) -> tuple[int, int]:
    """Returns (I, N) of I/N, as in 2/5, or of the task of an array job (slurm) or an indexed Job (k8s)."""
    if text in SCHEDULERS:
        return SCHEDULERS[text](os.environ)
    share, shares = map(whole_number, text.partition("/")[::2])
    if share is None or shares is None or not 1 <= share <= shares:
        raise ValueError(f"{text!r} is not I/N with 1 <= I <= N, such as 2/5, nor slurm or k8s")
    return share, shares


def _of_slurm(environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns the place of the task among those of its array, which may start anywhere and have a step."""
    example = "submit it with sbatch --array=1-8"
    task, least, count = (_number(environment, SLURM + name, example) for name in ("ID", "MIN", "COUNT"))
    most = _number(environment, f"{SLURM}MAX", example) if f"{SLURM}MAX" in environment else None
    step = max(1, _number(environment, f"{SLURM}STEP", example)) if f"{SLURM}STEP" in environment else 1
    place, rest = divmod(task - least, step)
    if rest or not 0 <= place < count or (most is not None and (most - least) // step + 1 != count):
        raise ValueError(
            f"slurm: the array of task {task} ({count} from {least}) is not a plain range: submit one such as "
            f"--array=1-8, or give --shard I/N"
        )
    return place + 1, count


def _of_kubernetes(environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns the index of the pod, from 1, and the number of completions, which the manifest must pass on."""
    index = _number(environment, "JOB_COMPLETION_INDEX", "the Job needs completionMode: Indexed")
    count = _number(environment, "JOB_COMPLETIONS", "set it in the manifest to the number of completions")
    if not index < count:
        raise ValueError(
            f"k8s: JOB_COMPLETION_INDEX={index} is not below JOB_COMPLETIONS={count}: set it to the Job's completions"
        )
    return index + 1, count


SCHEDULERS = {"slurm": _of_slurm, "k8s": _of_kubernetes}


def _number(environment: Mapping[str, str], name: str, advice: str) -> int:
    text = environment.get(name, "")
    if (number := whole_number(text)) is None:
        raise ValueError(f"{name} is {repr(text) + ', not a number' if text else 'not set'}: {advice}")
    return number
