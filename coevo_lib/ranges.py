"""Which values a profile may hold: the range of each number, the words that are known, and what has to fit together.

Types and unknown keys are refused in profile.py, tasks without a file in stages.py.
"""

import math
from typing import Any

from coevo_lib.errors import UserError

ANY = math.inf
SEED = (0, 2**32 - 1)  # what every random generator in use takes

# key -> the least and the most that it may be; the items of a list are meant one by one
RANGES: dict[str, tuple[float, float]] = {
    "search_seeds": SEED,
    "lora_seeds": SEED,
    "n_evolve": (1, ANY),
    "n_select": (1, ANY),
    "n_train": (1, ANY),
    "n_test": (1, ANY),
    "n_planted": (0, ANY),
    "n_counterfactual": (0, ANY),
    "diversity": (1, ANY),
    "max_turns": (1, ANY),
    "proposals": (1, ANY),
    "search_repeats": (0, 100),
    "minibatch": (1, ANY),
    "directness": (0, 1),
    "persistence": (0, 1),
    "rank": (1, ANY),
    "alpha": (1, ANY),
    "learning_rate": (1e-8, 1),
    "epochs": (1, ANY),
    "batch": (1, ANY),
    "train_rows": (1, ANY),
    "own_rows": (0, ANY),
    "concurrency": (1, 4096),
}
ARM_RANGES = {"directness": (0, 1), "persistence": (0, 1), "samples": (1, 1000), "lora_seeds": SEED}
NEVER_EMPTY = {"tasks": "a task", "search_seeds": "a seed", "lora_seeds": "a seed", "arms": "a table [[arms]]"}
# `rows` of an arm -> its `loss` (rule 8): the field says what is done, so it may say nothing else.
LOSS = {
    "none": "",
    "scripted": "",
    "best_of_n": "",
    "expert": "every assistant turn",
    "own": "every assistant turn",
    "oec": "the expert's turns",
    "correction": "corrected turn",
    "random_turn": "corrected turn",
}


def check_values(values: dict[str, Any], shown: str) -> None:
    """Raise a UserError for the first value that no stage could use; `shown` names the file that holds it."""
    for key, what in NEVER_EMPTY.items():
        if values.get(key) == []:
            raise UserError(f"{shown}: {key} is empty; give at least {what}")
    for key in filter(values.__contains__, RANGES):
        _check_range(key, values[key], f"{shown}: {key}")
    for key in ("search_seeds", "lora_seeds"):
        seeds = values.get(key, [])
        if twice := [seed for place, seed in enumerate(seeds) if seed in seeds[:place]]:
            raise UserError(f"{shown}: {key} holds {twice[0]} twice; delete one")
    if values.get("minibatch", 0) > values.get("n_evolve", ANY):
        fix = f"use at most n_evolve = {values['n_evolve']}, or raise that"
        raise UserError(f"{shown}: minibatch = {values['minibatch']}, but it is drawn from `evolve`; {fix}")
    if "engine" in values:
        from coevo_lib.engines import KINDS

        _check_word(f"{shown}: engine", values["engine"], KINDS)
    if bool(values.get("chat_url")) != bool(values.get("chat_model")):
        raise UserError(f"{shown}: chat_url and chat_model: give both, or leave both empty")
    if values.get("arms"):
        _check_arms(values["arms"], shown)


def _check_range(key: str, value: Any, where: str) -> None:
    least, most = {**RANGES, **ARM_RANGES}[key]
    for item in value if isinstance(value, list) else [value]:
        if not least <= item <= most:
            allowed = f"{least:g} or more" if most == ANY else f"{least:.10g} to {most:.10g}"
            raise UserError(f"{where} = {value!r} is out of range; use {allowed}")


def _check_word(where: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{where} = {value!r} is unknown; use {' or '.join(map(repr, known))}")


def _check_arms(arms: list[dict[str, Any]], shown: str) -> None:
    from coevo_lib.arms import check_arms
    from coevo_lib.stages import UNTRAINED

    try:
        check_arms(arms)
    except UserError as error:  # it does not know the file
        raise UserError(f"{shown}: {str(error).removeprefix('profile: ')}") from None
    for arm in arms:
        where = f"{shown}: arms: {arm['name']}"
        for key in filter(arm.__contains__, ARM_RANGES):
            _check_range(key, arm[key], f"{where}: {key}")
        others = [other["name"] for other in arms if other["rows"] not in UNTRAINED and not other["match"]]
        _check_word(f"{where}: match", arm["match"], ("", *(name for name in others if name != arm["name"])))
        if arm["loss"] != LOSS[arm["rows"]]:
            fix = f"use loss = {LOSS[arm['rows']]!r} with rows = {arm['rows']!r}"
            raise UserError(f"{where}: loss = {arm['loss']!r} is not what is done; {fix}")
