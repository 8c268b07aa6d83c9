"""The paper's figures, as data to be shown beside this study's. Nothing here is measured by this project.

Source: arXiv 2609.09134 (8 Sep 2026). `source` says how well a figure is attested: V stands in the abstract, R was read
alike by several readers of the full text, R1 by one reader only. Successes are fractions from 0 to 1.
"""

from dataclasses import dataclass

SOURCE = "arXiv 2609.09134"
CLASSES = {"V": "in the abstract", "R": "several readers agree", "R1": "one reader only"}
TASKS = ("attendance", "budget", "stock", "anomaly", "webtest", "shopadmin", "refactor")


@dataclass(frozen=True)
class Figure:
    """One number of the paper; `sem` is the standard error over its 3 runs, where it gives one."""

    value: float
    source: str = "R"
    sem: float | None = None


# Table 1: success on test, mean over the seven tasks.
SUCCESS = {
    "student_h0": Figure(0.292, sem=0.0061),
    "student_hstar": Figure(0.780, sem=0.0097),
    "imit_hstar": Figure(0.631, sem=0.0081),
    "imit_h0": Figure(0.355, sem=0.0106),
    "corr_hstar": Figure(0.797, sem=0.0067),
    "expert_h0": Figure(0.844, sem=0.0085),
    "expert_hstar": Figure(0.936, sem=0.0046),
}

# Change against the student under h*, task by task.
CHANGE = {
    "imit_hstar": dict(zip(TASKS, map(Figure, (-0.299, -0.106, -0.141, -0.042, -0.160, -0.203, -0.091)))),
    "corr_hstar": dict(zip(TASKS, map(Figure, (-0.004, -0.006, 0.022, 0.017, 0.012, 0.056, 0.022)))),
}
BASE = "student_hstar"  # what CHANGE is measured against

# Table 3: shares of the failed rollouts, by class; not rates of all rollouts.
FAILURE_SHARES = {
    "planning": {"student_hstar": Figure(0.011), "imit_hstar": Figure(0.146), "corr_hstar": Figure(0.018)},
    "knowledge": {"student_hstar": Figure(0.462), "imit_hstar": Figure(0.445), "corr_hstar": Figure(0.432)},
}


def difference(arm_a: str, arm_b: str, task: str = "all") -> Figure | None:
    """The paper's difference a - b as a fraction; None where it gives none.

    For task = all it is the difference of two entries of Table 1; for a task, of two changes against the student
    under h*, which is why only arms under h* have one.
    """
    if task == "all":
        found = SUCCESS.get(arm_a), SUCCESS.get(arm_b)
    else:
        found = _change(arm_a, task), _change(arm_b, task)
    if arm_a == arm_b or None in found:
        return None
    a, b = found
    return Figure(round(a.value - b.value, 4), max(a.source, b.source, key=list(CLASSES).index))


def _change(arm: str, task: str) -> Figure | None:
    if arm == BASE and task in TASKS:
        return Figure(0.0)
    return CHANGE.get(arm, {}).get(task)
