"""How a table of the study looks: its columns, what has to be said with it, and its files.

What stands in the tables is in `tables`, `search_tables` and `localization_tables`.
"""

from pathlib import Path

import pandas as pd

from coevo_lib.files import write_text_atomic
from coevo_lib.show import cell_text

COLUMNS = {
    "table1_success": "arm task seeds n_instances trials successes success ci_low ci_high faults note pass_all",
    "table1_contrasts": "contrast task difference ci_low ci_high p n_pairs minimum_detectable paper_difference p_holm "
    "t_low t_high seeds",
    "table2_elements": "arm task element rollouts invoked rate",
    "table3_failures": "arm class failures share_of_failures rate_of_rollouts paper_share",
    "table4_edits": "task kind element gain_select kept",
    "tasks": "task tools templates expert_success student_h0 student_hstar mean_turns tokens",
    "localization_scores": "method task class n exact within_one",
    "localization_classes": "method planted named n",
    "dose_response": "arm rows examples directness persistence seeds style_divergence loss_before turns_per_success change ci_low ci_high",
    "dose_trend": "rows dial arms change ci_low ci_high p n_pairs",
    "localization_agreement": "method task n exact within_one",
    "ablation": "task element n success ci_low ci_high tokens",
    "by_split": "task split harness n success ci_low ci_high",
    "by_wording": "arm wording n success ci_low ci_high",
    "by_seed": "arm seed n success ci_low ci_high",
    "search_controls": "task search seed proposals accepted select_h0 select_best",
    "planted_failures": "task class possible played recovered faults kept",
    "costs": "stage task arm rollouts seconds generated_tokens trained_tokens expert_calls",
    "clock": "stage units minutes",
}
# What a reader of a table has to know: written under it, and shown under it in a notebook.
NOTES = {
    "table1_success": "95 % intervals: Wilson's for one trial an instance, else clustered by instance. For task = all they speak "
    "of these tasks alone. pass_all: pass^k, the share of instances solved by every one of an arm's k seeds.",
    "table1_contrasts": "Intervals: bootstrap over instances, over training seeds where an arm has several and, for task = all with "
    "five tasks or more, over tasks: they speak of tasks like these. p: sign flips over instances, so it speaks of these tasks. "
    "t_low, t_high: Student's 95% interval over the tasks' differences alone; with seven tasks it is wider than the bootstrap's, "
    "which covers less than its 95%. seeds: of the first arm, of the second; with one, retraining is in no interval. p_holm: "
    "Holm's, over the contrasts of all tasks but the primary one, which stands alone. minimum_detectable: "
    "the difference that a study of this size finds with 80% power, empty where nothing "
    "spreads. paper_difference: the paper's; over its seven tasks where task = all.",
    "localization_scores": "On planted failures: one known turn of a success of the student was damaged, it went on by "
    "itself and failed. exact: the localiser names that turn; within_one: that one or one next to it.",
    "localization_classes": "planted: the kind of damage; named: the paper's class that the method gives it.",
    "table3_failures": "Shares of an arm's failures, so they say nothing about how many there are; rate_of_rollouts does. planning "
    "also holds a right tool with a wrong value while calls are still missing. paper_share: the paper's, whose classes a model gave.",
    "dose_response": "Arms trained for h*. examples: training rows. directness, persistence: of the expert whose work is kept. "
    "style_divergence: of the pairs of successive calls trained on from the student's own under h* (0 alike, 1 nothing shared). "
    "loss_before: of the rows, the mixed-in own successes included, under the student as it was. turns_per_success: on "
    "test. change: success on test less student_hstar's, with its 95% interval.",
    "dose_trend": "Arms that differ in one dial of the expert alone. change: success on test at its greatest value here less that "
    "at its least, on the straight line through the arms, fitted instance by instance; its 95% interval draws tasks and "
    "instances, not training seeds, and p flips signs.",
    "localization_agreement": "n: failures that both saw. exact: the same turn as the oracle; within_one: that one or one "
    "next to it. Agreement is no proof: both may be wrong.",
    "ablation": "On select. h*: the whole evolved harness; the lines between add one element of it to h0. tokens: generated "
    "per episode. Differences below the width of the intervals say little with so few instances.",
    "search_controls": "On select, which chose among the accepted proposals, so that the best of it is a little flattered. "
    "repeats: another seed, which draws other minibatches. random_edits: the same operators and budget, the edit drawn at "
    "random.",
    "by_split": "The untrained student. evolve: what the search's minibatches played, which the proposer saw, the one that let h* "
    "through among them; no interval, since its instances come up again and again. select: chose among the proposals, so that h* "
    "is a little flattered there, too. train; test, in the words of the other splits and in words that no other split has. all: "
    "every task weighs the same, and only tasks are in it that both harnesses played.",
    "by_wording": "Students on test: in the words of the other splits, and in words that no other split has.",
    "by_seed": "Arms with several training seeds, seed by seed, over all tasks. A seed draws the arm's rows, too.",
    "planted_failures": "possible: different plantings that the successes offer; played: the student went on from so many; "
    "recovered: it succeeded nevertheless; kept: failures that localisers are scored on, at most as many as asked for.",
    "tasks": "The student's success is on select, under h0 and under h*; the expert's is on test. templates: all that the task "
    "has; a profile's diversity says how many are used.",
    "costs": "seconds: each unit from its start to its end; what an interrupted run had done before is not in them. Units "
    "of stages 01, 02, 03 and 06 run side by side and their seconds overlap, so a sum is more than the clock shows. 03: what was "
    "played after plantings, without the tokens, and without the counterfactual localiser's continuations. An arm that draws "
    "many times: the tokens of the episode that was picked.",
    "clock": "Minutes in which any unit of a stage was at work, those taken over from another profile included. Empty where a unit "
    "does not say when it ended.",
}
EMPTY_NOTES = {
    "by_seed": "No arm of this profile has more than one training seed.",
    "localization_scores": "No failure was planted (n_planted = 0, or no success to plant in), so no localiser is scored.",
}


def frame_of(name: str, rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS[name].split())


def note(frame: pd.DataFrame, name: str) -> str:
    """What has to be said with the table `name`; for one without rows, why it has none."""
    return EMPTY_NOTES.get(name, "No rows.") if frame.empty else NOTES.get(name, "")


def write_table(frame: pd.DataFrame, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write <name>.csv (6 decimals) and <name>.md (3 decimals, with its note) and return both paths."""
    text = frame.to_csv(index=False, float_format="%.6f", lineterminator="\n")
    said = note(frame, name)
    return (
        write_text_atomic(Path(folder) / f"{name}.csv", text),
        write_text_atomic(Path(folder) / f"{name}.md", markdown(frame) + (f"\n{said}\n" if said else "")),
    )


def markdown(frame: pd.DataFrame) -> str:
    """A Markdown table: numbers to the right, floats with 3 decimals, nothing where a value is missing."""
    lines = [list(frame.columns), ["---:" if kind.kind in "iuf" else "---" for kind in frame.dtypes]]
    lines += [[_markdown_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_cell(value) -> str:
    return cell_text(value, 3).replace("|", "\\|").replace("\n", " ")
