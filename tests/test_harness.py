"""A harness is data: any text is either a valid one or a mistake that is named, fast, and nothing is executed."""

import random
import time

import pytest
import tomli_w

from coevo_lib.agent import Episode
from coevo_lib.errors import UserError
from coevo_lib.harness import SECTIONS, Harness, diff, from_sections, load_harness, parse_harness, to_sections

FULL = '''
[system]
text = """
Use the tools.
{tools}
One call at a time."""
recipe = ["use staff", "hours for every item of staff"]

[tools]
hide = ["hours"]
docs = {calc = "work out a sum"}
[[tools.composite]]
name = "staff_and_hours"
first = "staff"
each = "hours"
doc = "everyone's record"

[[demos.item]]
prompt = "How many hours?"
calls = ['staff("Night")', "submit(12)"]
observations = ["Ivy", "submitted"]

[hooks]
use = [
  {hook = "argument_repair"},
  {hook = "grounding_guard", tools = ["calc"]},
  {hook = "finish_guard", tools = ["submit"], first = "staff", each = "hours"},
  {hook = "order_guard", tools = ["submit"], before = "calc"},
  {hook = "loop_breaker", temperature = 0.8},
  {hook = "ledger", each = "hours"},
  {hook = "unread_list", first = "staff", each = "hours"},
  {hook = "reminder", every = 4},
  {hook = "coverage_guard", tools = ["calc"], each = "hours", share = 0.5},
  {hook = "retry", tries = 2},
]

[context]
keep = 3
fields = {hours = ["worked"]}

[format]
call = "json"
'''
SEEDS = (FULL, "", "[context]\nkeep = 2\n", '[hooks]\nuse = [{hook = "reminder"}]\n', '[system]\nrecipe = ["a"]\n')
ALPHABET = "abcdefgxyz0123456789.,:=-+_ \n\t\"'[]{}#\\\0é\u2028\ud800\N{GRINNING FACE}\r"


def mutated(rng):
    """A valid text with a few random cuts, copies and insertions."""
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 5)):
        a, b = sorted(rng.randint(0, len(text)) for _ in "ab")
        b = min(b, a + rng.choice([0, 1, 3, 30]))
        new = "".join(rng.choices(ALPHABET, k=rng.choice([0, 1, 2, 12])))
        text = text[:a] + rng.choice([new, new, text[a:b] * 2, ""]) + text[b:]
    return text


def value(rng, depth=0):
    """A random TOML value; often the wrong one for its place."""
    kinds = ["text", "int", "float", "bool", "word"] + ["list", "table"] * (depth < 3)
    kind = rng.choice(kinds)
    if kind == "list":
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 14))]
    if kind == "table":
        keys = [
            "text",
            "recipe",
            "hide",
            "docs",
            "composite",
            "item",
            "use",
            "hook",
            "first",
            "each",
            "tools",
            "keep",
            "call",
            "x",
        ]
        return {rng.choice(keys): value(rng, depth + 1) for _ in range(rng.randint(0, 4))}
    plain = {
        "text": "".join(rng.choices("ab {}tools\n\"'\\", k=rng.randint(0, 30))),
        "int": rng.randint(-(2**70), 2**70),
    }
    plain |= {"float": rng.choice([0.5, -1.0, 1e300, float("inf"), float("nan")]), "bool": rng.random() < 0.5}
    return plain.get(kind, rng.choice(["staff", "hours", "json", "python", "ledger", "reminder", "{tools}"]))


def structured(rng):
    """The schema's own sections and fields, filled at random."""
    fields = {
        "system": ["text", "recipe", "extra"], "tools": ["hide", "docs", "composite"], "demos": ["item"], "hooks": ["use"],
        "context": ["keep"], "format": ["call"], "other": ["x"],
    }  # fmt: skip
    names = rng.sample(list(fields), rng.randint(1, 4))
    return tomli_w.dumps({name: {field: value(rng) for field in fields[name] if rng.random() < 0.7} for name in names})


def noise(rng):
    return "".join(rng.choices(ALPHABET, k=rng.randint(0, 200)))


def accepts(text):
    """Whether the text is a harness; only a UserError may say no, and quickly."""
    seconds = []
    for _ in range(3):  # a busy machine may interrupt one measurement, not the best of three
        started = time.thread_time()
        try:
            accepted = bool(parse_harness(text))
        except UserError as error:
            assert str(error).startswith("harness.toml: ")
            accepted = False
        seconds.append(time.thread_time() - started)
        if seconds[-1] <= 0.05:
            break
    assert min(seconds) <= 0.05, text[:200]
    return accepted


def test_ten_thousand_broken_texts_are_accepted_or_refused_within_fifty_milliseconds():
    rng = random.Random(10)
    makers = [mutated] * 5 + [structured] * 4 + [noise]
    accepted = sum(accepts(rng.choice(makers)(rng)) for _ in range(10_000))
    assert 200 < accepted < 9_000, "the texts have to be of both kinds"


@pytest.mark.parametrize("text", [
    "[" * 20_000, "a = " + "[" * 20_000, "a = " + "{a=" * 300 + "1" + "}" * 300, "system.text = " + "[" * 300 + "]" * 300,
    'system.text = "' + "x" * 45_000 + '"', "x" * 60_000, "context.keep = 2021-02-31", "a.b = 1\n[a.b.c]", "[[hooks.use]]\n" * 1000,
    "context.keep = 1979-05-27T07:32:00Z", "\ufeff[context]", "\n".join(f"a{n} = 1" for n in range(4000)), 'system.text = "\ud800{tools}"',
])  # fmt: skip
def test_an_extreme_text_is_refused_just_as_fast(text):
    assert not accepts(text)


@pytest.mark.parametrize("text", [
    pytest.param("context.keep = " + "9" * 5000, id="a number too long to read"),
    pytest.param("context.keep = 0x" + "f" * 5000, id="a number too long to write"),
    pytest.param("system.text." + ".".join("a" * 2000) + " = 1", id="a value nested too deep to show"),
    pytest.param(".".join("a" * 5000) + " = 1", id="a key of many parts"),
    pytest.param("tools.hide = [" + ",".join(["1"] * 20_000) + "]", id="a long list of mistakes"),
])  # fmt: skip
def test_a_huge_mistake_is_refused_just_as_fast(text):
    assert not accepts(text)


@pytest.mark.parametrize("text, message", [
    ("[sytem]\ntext = 'x {tools}'", "sytem: Extra inputs are not permitted; remove it or correct its name"),
    ("[system]\ntxt = 'x'", "system.txt: .*remove it or correct its name"),
    ("[system]\ntext = 'no tools here'", r"system.text: .*must hold the placeholder \{tools\} once and no other"),
    ("[system]\ntext = '{tools} {tools}'", "system.text: .*once and no other"),
    ("[system]\ntext = '{tools} {name}'", "system.text: .*once and no other"),
    ("[system]\nrecipe = ['']", "system.recipe.0: .*at least 1 character"),
    ("[context]\nkeep = '2'", "context.keep: .*valid integer; found '2'"),
    ("[context]\nkeep = 51", "context.keep: .*less than or equal to 50; found '51'"),
    ("[context]\nkeep = true", "context.keep: "),
    ("[context]\nfields = {page = ['a b']}", "context.fields.page.0: "),
    ("[hooks]\nuse = [{hook = 'coverage_guard', tools = ['calc'], each = 'page', share = 0.0}]", "hooks.use.0.coverage_guard.share: .*greater than 0"),
    ("[format]\ncall = 'xml'", "format.call: .*'python' or 'json'; found 'xml'"),
    ("[hooks]\nuse = [{hook = 'finish'}]", "hooks.use.0: .*use one of .*'finish_guard'"),
    ("[hooks]\nuse = [{}]", "hooks.use.0: "),
    ("[hooks]\nuse = [{hook = 'ledger'}]", "hooks.use.0.ledger.each: Field required"),
    ("[hooks]\nuse = [{hook = 'ledger', each = 'Two Words'}]", "hooks.use.0.ledger.each: .*match pattern; found 'Two Words'|ledger.each: "),
    ("[hooks]\nuse = [{hook = 'loop_breaker', temperature = 2.0}]", "hooks.use.0.loop_breaker.temperature: .*less than or equal to 1.5"),
    ("[hooks]\nuse = [{hook = 'reminder', every = 0}]", "hooks.use.0.reminder.every: "),
    ("[[tools.composite]]\nname = 'a'\nfirst = 'b'\ndoc = 'c'", "tools.composite.0.each: Field required"),
    ("[[tools.composite]]\nname = 'a b'\nfirst = 'b'\neach = 'c'\ndoc = 'd'", "tools.composite.0.name: "),
    ("[tools]\ndocs = {calc = ''}", "tools.docs.calc: "),
    ("[[demos.item]]\nprompt = 'x'\ncalls = []", "demos.item.0.observations: Field required"),
    ("[context\nkeep = 1", "not TOML: "),
])  # fmt: skip
def test_a_mistake_is_named_with_file_field_and_fix(text, message):
    with pytest.raises(UserError, match=f"^mine.toml: {message}") as caught:
        parse_harness(text, "mine.toml")
    assert "\n" not in str(caught.value)


def test_a_text_beyond_the_limit_says_so():
    with pytest.raises(UserError, match="50001 characters; a harness has at most 50000"):
        parse_harness("#" * 50_001)


def test_the_id_follows_the_content_and_not_the_writing():
    written = parse_harness('system.recipe = ["a", "b"]\n[context]\nkeep = 3 # a comment\n')
    same = parse_harness('[context]\n\n\nkeep   = 3\n[system]\nrecipe = [\n  \'a\',\n  """b""",\n]\n[tools]\n')
    assert written == same and written.id == same.id
    others = [
        "",
        "[context]\nkeep = 3",
        'system.recipe = ["b", "a"]\ncontext.keep = 3',
        'system.recipe = ["a", "b"]\ncontext.keep = 4',
    ]
    ids = {parse_harness(text).id for text in others}
    assert len(ids) == len(others) and written.id not in ids
    assert parse_harness("").id == Harness().id and len(Harness().id) == 12


def test_a_float_written_as_an_integer_is_the_same_harness():
    with_float, with_int = (f"hooks.use = [{{hook = 'loop_breaker', temperature = {n}}}]" for n in ("1.0", "1"))
    assert parse_harness(with_float).id == parse_harness(with_int).id


def test_text_and_sections_give_the_harness_back():
    rng = random.Random(4)
    found = [parse_harness(FULL), Harness()]
    while len(found) < 60:
        text = rng.choice([mutated, structured])(rng)
        if accepts(text):
            found.append(parse_harness(text))
    for harness in found:
        assert parse_harness(harness.to_toml()) == harness
        sections = to_sections(harness)
        assert tuple(sections) == SECTIONS == ("system", "tools", "demos", "hooks", "context", "format")
        assert from_sections(sections) == harness and from_sections(sections).id == harness.id


def test_a_carriage_return_survives_in_a_section():
    harness = parse_harness('system.text = "one\\r\\n{tools}"')
    assert from_sections(to_sections(harness)) == harness


def test_only_some_sections_make_a_harness_too():
    assert from_sections({"context": "[context]\nkeep = 3\n"}) == parse_harness("context.keep = 3")
    with pytest.raises(UserError, match="candidate: context.keep"):
        from_sections({"context": "[context]\nkeep = -3\n"})


def test_elements_are_what_differs_from_the_unevolved_harness():
    assert Harness().elements() == []
    assert parse_harness(FULL).elements() == [
        "system.text", "system.recipe", "tools.hide:hours", "tools.docs:calc", "tools.composite:staff_and_hours", "demos:0",
        "hooks:argument_repair", "hooks:grounding_guard", "hooks:finish_guard", "hooks:order_guard", "hooks:loop_breaker", "hooks:ledger",
        "hooks:unread_list", "hooks:reminder", "hooks:coverage_guard", "hooks:retry", "context.keep", "context.fields:hours", "format.call",
    ]  # fmt: skip


def test_a_diff_shows_the_changed_lines_and_cuts_long_ones():
    new = parse_harness(f'context.keep = 3\nsystem.recipe = ["{"x" * 300}"]')
    lines = diff(Harness(), new).splitlines()
    assert "-keep = 0" in lines and "+keep = 3" in lines
    assert max(map(len, lines)) == 160
    assert diff(new, new) == ""


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="no such harness file; write one, or run `make evolution`"):
        load_harness(tmp_path / "none.toml")


def test_a_file_is_read_whatever_its_bytes(tmp_path):
    path = tmp_path / "h.toml"
    path.write_text(FULL, encoding="utf-8")
    assert load_harness(path) == parse_harness(FULL)
    path.write_bytes(b"context.keep = 3 # \xff\xfe\n")
    assert load_harness(path).context.keep == 3
    path.write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match="h.toml: not TOML"):
        load_harness(path)


@pytest.mark.parametrize(
    "trap",
    ["{0.__class__}", "{% for x in y %}", "{{ 7 * 7 }}", "$(touch x)", "%s %(a)s", "${HOME}", "{tools.x!r}", "`ls`"],
)
def test_no_template_language_is_run_over_a_text(mock, trap):
    """Rule 10: such a text is shown as it stands, or refused."""
    try:
        harness = Harness.model_validate(
            {"system": {"text": f"{trap}\n{{tools}}", "recipe": [trap]}, "tools": {"docs": {"calc": trap}}}
        )
    except ValueError as error:
        assert "{tools} once and no other" in str(error)
        return
    system = Episode(mock, mock.instances("train", 1)[0], harness).messages()[0]["content"]
    assert system.startswith(f"{trap}\nboxes(): ") and f"1. {trap}" in system and f"calc(expression): {trap}" in system


def test_a_tool_text_with_a_placeholder_is_not_filled_in_again(mock):
    harness = Harness.model_validate({"tools": {"docs": {"calc": "see {tools}"}}})
    system = Episode(mock, mock.instances("train", 1)[0], harness).messages()[0]["content"]
    assert "calc(expression): see {tools}" in system
