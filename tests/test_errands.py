"""The generic rows that handle text: a copy is what was shown, a changed line differs where it should."""

import re

from played_scenes import read_items, result_of, scenes_of, written_items

from coevo_lib.errands import Errand


def test_both_compositions_occur():
    assert {"copy", "change"} < set(Errand.PLANS)


def test_a_copy_is_what_was_shown_of_the_kind_that_was_listed():
    ways = set()
    for prompt, names, script in scenes_of("copy", 40):
        shown = {item: re.match(r"\w+ (\d+)", seen) for item, seen in read_items(names, script).items()}
        assert {*shown} == {item for item, _ in written_items(names, script)}
        assert all(text == shown[item][0] for item, text in written_items(names, script))
        every = "only the" in prompt
        counted = shown
        if every:
            again, listed = [(call, seen) for call, seen in script if call.tool == names["list"]][-1]
            assert again.args[1] in prompt
            counted = listed.split(", ")
        assert result_of(script) == sum(int(shown[item][1]) for item in counted)
        ways.add(every)
    assert len(ways) == 2


def test_a_changed_line_differs_only_where_the_function_is_used():
    ways = set()
    for prompt, names, script in scenes_of("change", 60):
        code = re.search(r"every use of (\w+),|line with (\w+):", prompt)
        code = code[1] or code[2]
        shown, lines = read_items(names, script), dict(written_items(names, script))
        assert shown.keys() == lines.keys()
        if added := re.search(r"dd (\w+)=(\w+) to", prompt):
            new, value = added.groups()
            wanted = {p: re.sub(rf"def {code}\((\w+)\)", rf"def {code}(\1, {new})", line) for p, line in shown.items()}
            wanted = {
                p: re.sub(rf"= {code}\((\w+=\d+)\)", rf"= {code}(\1, {new}={value})", s) for p, s in wanted.items()
            }
        else:
            old, new = re.search(r"ename (\w+) to (\w+) in", prompt).groups()
            wanted = {
                p: re.sub(rf"\b{old}\b", new, line)
                if line.startswith("def ")
                else line.replace(f"{code}({old}=", f"{code}({new}=")
                for p, line in shown.items()
            }
        assert lines == wanted
        calls = [int(found[1]) for line in shown.values() if (found := re.search(rf"= {code}\(\w+=(\d+)", line))]
        assert result_of(script) == sum(calls)
        ways.add((bool(added), any(line.startswith("def ") for line in shown.values())))
    assert len(ways) == 4
