"""A mistake in a profile is found before any kernel starts, and its message names the fix."""

import pytest
from toy_project import PROFILE, make_project, write, write_notebook

from coevo_lib.errors import UserError
from coevo_lib.profile import declared_parameters, find_root, load_profile, parameters_for


@pytest.fixture
def root(tmp_path):
    return make_project(tmp_path)


def profile_with(root, text):
    write(root / "notebooks" / "profiles" / "cpu.toml", text)
    return load_profile("cpu", root)


def refusal(root, text):
    with pytest.raises(UserError) as caught:
        profile_with(root, text)
    message = str(caught.value)
    assert "cpu.toml" in message and "\n" not in message
    return message


def test_a_notebook_gets_just_what_it_declares_with_the_profiles_values_over_its_defaults(root):
    profile = load_profile("cpu", root, round=2)
    values = parameters_for(profile, root / "notebooks" / "02_rollouts.ipynb")
    assert values == {
        "profile": "cpu",
        "round": 2,
        "tasks": ["alpha", "beta"],
        "max_turns": 14,
        "temperature": 0.5,
        "engine": "auto",
    }


def test_an_unknown_key_is_refused_with_the_closest_name(root):
    message = refusal(root, "max_turn = 3")
    assert "max_turn" in message and "closest name is max_turns" in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('max_turns = "12"', ("max_turns", "int", "str")),
        ("max_turns = 12.5", ("max_turns", "int", "float")),
        ("max_turns = true", ("max_turns", "int", "bool")),
        ('temperature = "0.5"', ("temperature", "float", "str")),
        ("search_seeds = [0, 'x']", ("search_seeds[1]", "int", "str")),
        ("tasks = 'alpha'", ("tasks", "list", "str")),
        ("arms = 3", ("arms", "list")),
        ("round = 2", ("round", "command line")),
        ("max_turns = ", ("not valid TOML",)),
    ],
)
def test_a_wrong_type_is_refused_with_the_expected_and_the_found_one(root, line, words):
    message = refusal(root, line)
    assert all(word in message for word in words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('rows = "none"\n', ""), ("arms", "lacks", "rows")),
        (('rows = "none"', 'rows = "none"\ndirectnes = 0.5'), ("directnes", "directness")),
        (('rows = "none"', "rows = 3"), ("rows", "str", "int")),
        (('name = "corr"', 'name = "base"'), ("number 2", "unique")),
        (('name = "corr"', 'name = "../corr"'), ("number 2", "letters")),
    ],
)
def test_a_faulty_arm_is_refused_by_its_number_and_key(root, change, words):
    message = refusal(root, PROFILE.replace(*change))
    assert all(word in message for word in words)


def test_an_int_will_do_for_a_float(root):
    value = profile_with(root, f"temperature = 1\n{PROFILE}").values["temperature"]
    assert value == 1.0 and isinstance(value, float)


def test_a_missing_profile_is_refused_with_the_ones_that_exist(root):
    with pytest.raises(UserError, match="gpu.*cpu"):
        load_profile("gpu", root)


def test_a_profile_can_be_given_by_path(root):
    path = write(root / "elsewhere" / "mine.toml", PROFILE.replace("max_turns = 14", "max_turns = 3"))
    profile = load_profile(str(path), root)
    assert (profile.name, profile.reference) == ("mine", "elsewhere/mine.toml")
    assert load_profile(profile.reference, root).values["max_turns"] == 3


@pytest.mark.parametrize("line", ["seed = make()", "a = b = 1", "import os", "nothing = None", "a, b = 1, 2"])
def test_a_parameters_cell_holds_literals_only(root, line):
    path = write_notebook(root, "04_correction", [], f"tasks = []\n{line}")
    with pytest.raises(UserError, match="04_correction"):
        declared_parameters(path)


def test_notebooks_that_share_a_name_agree_on_its_default(root):
    write_notebook(root, "04_correction", [], "max_turns = 3")
    with pytest.raises(UserError, match="max_turns.*give both the same"):
        load_profile("cpu", root)


def test_the_repository_is_found_from_inside(root):
    assert find_root(root / "notebooks") == root
