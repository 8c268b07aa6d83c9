"""A value that no stage could use is refused when the profile is read, with the file, the field and what to write."""

import math
import re
import time
from pathlib import Path

import pytest

from coevo_lib.arms import BUILDERS, UNTRAINED
from coevo_lib.errors import UserError
from coevo_lib.profile import declared_parameters, load_profile
from coevo_lib.ranges import LOSS, RANGES, check_values
from coevo_lib.stage import open_stage

ROOT = Path(__file__).resolve().parents[1]
CPU = (ROOT / "notebooks" / "profiles" / "cpu.toml").read_text(encoding="utf-8")


@pytest.fixture
def load(tmp_path):
    """Loads the default profile with one line of it replaced, or a line added in front."""

    def make(key, value):
        line = f"{key} = {value}"
        text, n = re.subn(rf"^{key} = .*$", line, CPU, count=1, flags=re.M)
        path = tmp_path / "mine.toml"
        path.write_text(text if n else f"{line}\n{CPU}", encoding="utf-8")
        return load_profile(str(path), ROOT)

    return make


def refusal(load, key, value):
    with pytest.raises(UserError) as caught:
        load(key, value)
    message = str(caught.value)
    assert "mine.toml: " in message and "\n" not in message
    # the field that is wrong: the last one written
    assert f"{key} = {value}".split("\n")[-1].partition(" =")[0] in message
    return message


def test_every_number_that_a_notebook_declares_has_a_range():
    declared = {}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        declared |= declared_parameters(path)
    numbers = [n for n, v in declared.items() if (isinstance(v, int | float) and not isinstance(v, bool)) or v == [0]]
    assert sorted(numbers) == sorted([*RANGES, "round"])


@pytest.mark.parametrize("key", RANGES)
def test_a_number_is_taken_within_its_range_and_refused_outside(load, key):
    least, most = RANGES[key]
    for bound, wrong in ((least, least - 1), (most, most + 1)):
        if bound != math.inf:
            check_values({key: [bound] if key.endswith("seeds") else bound}, "x")
            assert "out of range; use " in refusal(load, key, f"[{wrong}]" if key.endswith("seeds") else f"{wrong}")


@pytest.mark.parametrize("key", [key for key in RANGES if isinstance(RANGES[key][0], float) or RANGES[key][1] == 1])
def test_no_number_at_all_is_out_of_range(load, key):
    for value in ("nan", "inf", "-inf"):
        refusal(load, key, value)


@pytest.mark.parametrize("key", ["tasks", "search_seeds", "lora_seeds"])
def test_an_empty_list_is_refused(load, key):
    assert "is empty; give at least a" in refusal(load, key, "[]")


def test_a_profile_without_arms_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(CPU.partition("[[arms]]")[0], encoding="utf-8")
    with pytest.raises(UserError, match=r"mine.toml: arms is empty; give at least a table \[\[arms\]\]"):
        load_profile(str(path), ROOT)


@pytest.mark.parametrize("key", ["search_seeds", "lora_seeds"])
def test_a_seed_that_stands_there_twice_is_refused(load, key):
    assert "holds 3 twice" in refusal(load, key, "[3, 0, 3]")


def test_a_minibatch_fits_into_the_instances_that_it_is_drawn_from(load):
    assert load("minibatch", 36)
    assert "use at most n_evolve = 36" in refusal(load, "minibatch", 37)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("engine", "vlm", "use 'auto' or 'vllm' or"),
        ("rows", "imitation", "use one of none, scripted, best_of_n, expert"),
        ("harness", "h1", "use one of h0, hstar"),
        ("loss", "all turns", "use loss = '' with rows = 'none'"),
        ("match", "tokens", "unknown; use ''"),
    ],
)
def test_an_unknown_word_is_refused_with_the_known_ones(load, key, value, words):
    assert words in refusal(load, key, f'"{value}"')


def test_an_arm_is_named_where_one_of_its_values_is_wrong(load):
    message = refusal(load, "match", '""\npersistence = 1.5')
    assert "arms: student_h0: persistence = 1.5 is out of range; use 0 to 1" in message


def test_a_key_of_an_arm_that_nothing_reads_is_refused(load):
    assert "unknown key epochs" in refusal(load, "match", '""\nepochs = 3')


def test_the_loss_of_every_kind_of_rows_is_known():
    assert set(LOSS) == {*UNTRAINED, *BUILDERS}


def test_a_value_edited_in_a_notebook_is_checked_as_well():
    namespace = {"profile": "cpu", "n_evolve": 8}
    with pytest.raises(UserError, match=r"01_harness_evolution.ipynb: minibatch = 12, but.* n_evolve = 8"):
        open_stage("01", namespace, ROOT)


def test_the_checks_are_quick(load):
    started = time.process_time()
    load("n_test", 41)
    assert time.process_time() - started < 1


def test_an_arm_may_match_another_trained_one_only(load, tmp_path):
    """`match` takes the name of an arm that is trained and matches nothing itself."""
    shape = '[[arms]]\nname = "{}"\nrows = "{}"\nharness = "hstar"\nloss = "{}"\nmatch = "{}"\n'
    loss = {"none": "", "expert": "every assistant turn", "correction": "corrected turn"}

    def check(match):
        arms = [("plain", "none", ""), ("corr", "correction", ""), ("imit", "expert", match)]
        path = tmp_path / "p.toml"
        path.write_text("".join(shape.format(name, rows, loss[rows], other) for name, rows, other in arms))
        return load_profile(path)

    assert check("corr").values["arms"][2]["match"] == "corr"
    for wrong in ("plain", "imit", "nobody"):
        with pytest.raises(UserError, match=f"arms: imit: match = '{wrong}' is unknown; use '' or 'corr'"):
            check(wrong)
