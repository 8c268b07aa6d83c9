"""An episode: what the student is shown, what each reply leads to, and how it ends."""

import json

import pytest

from coevo_lib.agent import Episode, play, replay
from coevo_lib.engines.base import EngineFault
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import parse_harness
from coevo_lib.rollouts import expert_episodes
from coevo_lib.trajectory import Trajectory

LOOP = 'hooks.use = [{hook = "loop_breaker", temperature = 0.7}]'


@pytest.fixture
def instance(mock):
    return mock.instances("train", 1)[0]


@pytest.fixture
def episode(mock, instance):
    """Makes an episode from replies under a harness given as text."""
    return lambda *texts, harness="", **options: replay(mock, instance, parse_harness(harness), list(texts), **options)


@pytest.fixture
def names(instance):
    return list(instance.data["boxes"])


def test_the_first_messages_are_the_system_text_and_the_task(episode, instance):
    system, user = episode().messages()
    assert system["role"] == "system" and user == {"role": "user", "content": instance.prompt}
    assert system["content"].splitlines()[:2] == [
        "Use the tools to do the task. Reply with one tool call and nothing else.",
        "boxes(): names of the boxes",
    ]


def test_replies_and_observations_alternate(episode, names):
    played = episode("boxes()", "what?")
    assert [m["role"] for m in played.messages()] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m["content"] for m in played.messages()[2:4]] == ["boxes()", ", ".join(names)]


def test_each_reply_has_its_status_and_wording(episode, names):
    played = episode("boxes()", "open(", "open('none')", "fly()", "I think\nboxes()", harness=LOOP)
    assert [turn.status for turn in played.turns] == ["ok", "malformed", "error", "error", "refused"]
    assert [turn.observation for turn in played.turns] == [
        ", ".join(names), 'error: not a tool call; write one call such as tool("argument")', "error: box: no box 'none'",
        "error: no tool fly; the tools are boxes, open, calc, submit", "refused: this was already answered above",
    ]  # fmt: skip
    assert [turn.call is None for turn in played.turns] == [False, True, False, False, False]
    assert [len(turn.facts) for turn in played.turns] == [1, 0, 0, 0, 0]


def test_a_right_answer_is_a_success_and_a_wrong_one_is_not(episode, instance):
    right, wrong = episode(f"submit({instance.data['answer']})"), episode(f"submit({instance.data['answer'] + 1})")
    assert (right.trajectory.status, right.trajectory.success) == ("finished", True)
    assert (wrong.trajectory.status, wrong.trajectory.success) == ("finished", False)
    assert "right" in right.trajectory.feedback and "wrong" in wrong.trajectory.feedback


def test_the_same_reply_four_times_ends_the_episode(episode):
    assert not episode(*["boxes()"] * 3).done
    stuck = episode(*["boxes()"] * 4)
    assert stuck.done and stuck.trajectory.status == "stuck" and not stuck.trajectory.success


def test_six_troubles_in_a_row_end_the_episode(episode):
    assert not episode(*[f"hm {i}" for i in range(5)], "boxes()", *[f"hm {i}" for i in range(5)]).done
    stuck = episode(*[f"hm {i}" for i in range(6)])
    assert stuck.done and stuck.trajectory.status == "stuck"


def test_the_turns_are_limited(episode):
    short = episode("boxes()", 'calc("1+1")', max_turns=2)
    assert short.done and short.trajectory.status == "out_of_turns" and "No answer" in short.trajectory.feedback


def test_only_the_newest_observations_stay_whole_where_the_context_is_trimmed(episode, names):
    played = episode("boxes()", 'calc("1+1")', 'calc("1+2")', 'calc("1+3")', harness="context.keep = 2")
    assert [m["content"] for m in played.messages()[3::2]] == ["(removed)", "(removed)", "3", "4"]
    assert [turn.observation for turn in played.turns] == [", ".join(names), "2", "3", "4"], "the trajectory keeps all"


def test_recipe_and_demonstrations_stand_below_the_tools(episode):
    harness = 'system.recipe = ["use boxes", "use submit"]\n[[demos.item]]\nprompt = "How many?"\ncalls = ["boxes()"]\nobservations = ["red"]'
    system = episode(harness=harness).messages()[0]["content"]
    assert system.endswith("Steps:\n1. use boxes\n2. use submit\n\nExample: How many?\nboxes()\n-> red")


def test_json_calls_are_read_where_the_harness_asks_for_them(episode):
    played = episode('{"tool": "boxes", "args": []}', "boxes()", harness='format.call = "json"')
    assert [turn.status for turn in played.turns] == ["ok", "malformed"]
    assert '{"tool": "name"' in played.turns[1].observation


def test_every_element_that_acts_leaves_an_event(episode, with_composite, mock, names):
    rules = '[hooks]\nuse = [{hook = "argument_repair"}, {hook = "loop_breaker"}, {hook = "unread_list", first = "boxes", each = "open"}]'
    harness = with_composite(mock).to_toml().replace("[hooks]\nuse = []", rules)
    played = episode("boxes(", "boxes()", "boxes_and_open()", harness=harness)
    events = [[(event.element, event.action, event.text) for event in turn.events] for turn in played.turns]
    open_all = ("hooks:unread_list", "noted", f"open: {', '.join(names)}")
    assert events == [
        [("hooks:argument_repair", "repaired", "boxes()"), open_all],
        [("hooks:loop_breaker", "refused", "this was already answered above"), open_all],
        [
            ("tools.composite:boxes_and_open", "ran", f"{len(names) + 1} steps"),
            ("hooks:unread_list", "noted", "nothing is open"),
        ],
    ]
    assert played.turns[0].text == "boxes(" and played.turns[0].status == "ok", "what the student wrote is kept"
    assert played.turns[0].observation == f"{', '.join(names)}\n(open: {', '.join(names)})"


def test_no_note_follows_the_finishing_call(episode):
    played = episode("submit(1)", harness='hooks.use = [{hook = "reminder", every = 1}]')
    assert played.turns[-1].observation == "submitted" and played.turns[-1].events == []


def test_a_hook_sets_the_temperature_of_the_next_turn_only(mock, instance):
    asked = []

    def student(request):
        asked.append(request.temperature)
        return ["boxes()", "boxes()", 'calc("1+1")', "submit(1)"][len(asked) - 1]

    play(ScriptedEngine(student), Episode(mock, instance, parse_harness(LOOP)), temperature=0.2)
    assert asked == [0.2, 0.2, 0.7, 0.2]


def test_a_refused_or_unreadable_reply_is_drawn_again_where_the_harness_says_so(mock, instance):
    rules = (
        '{hook = "order_guard", tools = ["submit"], before = "calc"}, {hook = "retry", tries = 3, temperature = 0.9}'
    )
    replies = ["hm", "submit(1)", 'calc("1+1")', "boxes()", "boxes()", "submit(2)"]  # all new draws go out at once
    asked = []

    def student(request):
        asked.append((len(request.messages), request.temperature, request.sample))
        return replies[len(asked) - 1]

    trajectory = play(ScriptedEngine(student), Episode(mock, instance, parse_harness(f"hooks.use = [{rules}]")))
    assert [turn.text for turn in trajectory.turns] == ['calc("1+1")', "boxes()", "submit(2)"]
    assert [(length, heat) for length, heat, _ in asked] == [(2, 0.0), *[(2, 0.9)] * 3, (4, 0.0), (6, 0.0)]
    assert len({sample for _, _, sample in asked[:4]}) == 4, "each draw is one of its own"
    assert [event.element for event in trajectory.turns[0].events] == ["hooks:retry"] * 2
    assert trajectory.turns[0].output_tokens == 4, "the draws that did not count are paid for"


def test_the_last_of_the_allowed_draws_stands(mock, instance):
    asked = []

    def student(request):
        asked.append(request.sample)
        return f"hm {len(asked)}"

    harness = parse_harness('hooks.use = [{hook = "retry", tries = 2}]')
    trajectory = play(ScriptedEngine(student), Episode(mock, instance, harness, max_turns=1))
    assert [turn.text for turn in trajectory.turns] == ["hm 3"] and trajectory.turns[0].status == "malformed"


def test_a_reply_that_a_tool_answers_with_an_error_is_drawn_again_where_the_harness_says_so(mock, instance):
    replies = ['open("green")', 'open("gren")', "boxes()", "boxes()", *['open("nothing")'] * 3, "submit(1)"]
    asked = []

    def student(request):
        asked.append(request.temperature)
        return replies[len(asked) - 1]

    harness = parse_harness('hooks.use = [{hook = "retry", tries = 2, errors = true}]')
    trajectory = play(ScriptedEngine(student), Episode(mock, instance, harness))
    assert [turn.text for turn in trajectory.turns] == ["boxes()", "boxes()", 'open("nothing")', "submit(1)"]
    assert [turn.status for turn in trajectory.turns] == ["ok", "ok", "error", "ok"], "the last of the draws stands"
    drawn = [[event.text for event in turn.events] for turn in trajectory.turns]
    assert len(drawn[0]) == len(drawn[2]) == 2 and "no box 'green'" in drawn[0][0] and drawn[1] == []
    assert trajectory.turns[0].output_tokens == 3 and asked == [0.0, 0.7, 0.7, 0.0, 0.0, 0.7, 0.7, 0.0]
    again = replay(mock, instance, harness, [turn.text for turn in trajectory.turns])
    assert [turn.observation for turn in again.turns] == [turn.observation for turn in trajectory.turns]


def test_a_scripted_student_plays_a_whole_episode(mock, instance, with_composite, boxes_student):
    requests = []

    def student(request):
        requests.append(request)
        system, prompt, *rest = [m["content"] for m in request.messages]
        return boxes_student(system, list(zip(rest[::2], rest[1::2])), prompt)

    trajectory = play(
        ScriptedEngine(student, "tiny"), Episode(mock, instance, with_composite(mock), sample=3), max_tokens=40
    )
    assert trajectory.success and trajectory.status == "finished" and trajectory.model == "tiny"
    assert [turn.call.tool for turn in trajectory.turns] == ["boxes_and_open", "calc", "submit"]
    assert [len(r.messages) for r in requests] == [2, 4, 6]
    assert {(r.max_tokens, r.sample) for r in requests} == {(40, 3)}
    assert all(turn.prompt_tokens > turn.output_tokens > 0 for turn in trajectory.turns)
    assert trajectory.tokens == sum(turn.output_tokens for turn in trajectory.turns)


def test_an_infrastructure_fault_is_a_status_of_its_own(mock, instance):
    def student(request):
        if len(request.messages) > 2:
            raise EngineFault("the server is gone")
        return "boxes()"

    trajectory = play(ScriptedEngine(student), Episode(mock, instance, parse_harness("")))
    assert (trajectory.status, trajectory.error, trajectory.success) == ("fault", "the server is gone", False)
    assert len(trajectory.turns) == 1 and trajectory.feedback == ""


def test_an_error_of_our_own_is_not_hidden_as_a_fault(mock, instance):
    def student(request):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(ScriptedEngine(student), Episode(mock, instance, parse_harness("")))


def test_an_episode_goes_on_from_wherever_it_stands(mock, instance, episode, boxes_student, with_composite):
    harness = with_composite(mock).to_toml()
    begun = episode("boxes_and_open()", harness=harness)
    engine = ScriptedEngine(
        lambda r: boxes_student(
            r.messages[0]["content"], [("", r.messages[i]["content"]) for i in range(3, len(r.messages), 2)], ""
        )
    )
    assert play(engine, begun).success
    assert [turn.call.tool for turn in begun.turns] == ["boxes_and_open", "calc", "submit"]
    assert play(ScriptedEngine(lambda r: pytest.fail("asked again")), begun).success, (
        "a finished episode asks for nothing"
    )


@pytest.mark.parametrize("name", ["attendance", "shopadmin", "mock"])
def test_a_trajectory_survives_json(tasks, name, harnesses):
    task = tasks[name]
    for harness in harnesses(task):
        for episode in expert_episodes(ScriptedExpert(), task, task.instances("train", 3), harness, max_turns=30):
            text = json.dumps(episode.trajectory.to_json())
            assert Trajectory.from_json(json.loads(text)) == episode.trajectory
            assert Trajectory.from_json({**json.loads(text), "key": "x", "messages": []}) == episode.trajectory


# ---- planner and executor

PLANNED = "context.planner = 1"


def test_a_planner_sees_less_and_its_word_stands_before_the_executors_call(mock, instance, names):
    asked = []

    def student(request):
        asked.append([message["content"] for message in request.messages])
        return ["boxes()", "boxes()", 'open("wrong")', f'open("{names[0]}")', "submit(1)", "submit(1)"][len(asked) - 1]

    episode = Episode(mock, instance, parse_harness(PLANNED))
    trajectory = play(ScriptedEngine(student), episode)
    listed, opened = trajectory.turns[0].observation, trajectory.turns[1].observation
    assert [turn.text for turn in trajectory.turns] == [
        "next: boxes\nboxes()", f'next: open\nopen("{names[0]}")', "next: submit\nsubmit(1)",
    ]  # fmt: skip
    assert asked[1] == [*asked[0][:-1], f"{instance.prompt}\n(next: boxes)"], "the executor: the same, and the plan"
    assert asked[2][-1] == listed and asked[3][-1] == f"{listed}\n(next: open)"
    assert asked[4][3] == "(removed)\n(next: open)" and asked[4][-1] == opened, "the planner sees the last answer alone"
    assert asked[5][3] == f"{listed}\n(next: open)", "the executor sees them all"
    assert [m["content"] for m in episode.messages()[2::2]] == ["boxes()", f'open("{names[0]}")', "submit(1)"]
    assert [(e.element, e.action) for turn in trajectory.turns for e in turn.events] == [
        ("context.planner", "planned")
    ] * 3
    assert [turn.output_tokens for turn in trajectory.turns] == [2, 2, 2], "the turn counts both replies"


def test_a_plan_that_names_no_tool_is_left_out(mock, instance):
    replies = iter(["let me think", "boxes()", "fly()", "submit(1)"])
    trajectory = play(ScriptedEngine(lambda r: next(replies)), Episode(mock, instance, parse_harness(PLANNED)))
    assert [turn.text for turn in trajectory.turns] == ["boxes()", "submit(1)"]
    assert not any(turn.events for turn in trajectory.turns)


def test_a_planned_episode_replays_from_its_texts_and_an_expert_plans_for_itself(mock, instance):
    harness = parse_harness(PLANNED)
    [expertly] = expert_episodes(ScriptedExpert(0.0), mock, [instance], harness, 12)
    assert expertly.trajectory.success and expertly.turns[0].text == "next: boxes\nboxes()"
    again = replay(mock, instance, harness, [turn.text for turn in expertly.turns])
    assert again.messages() == expertly.messages() and "(next: boxes)" in again.messages()[1]["content"]


def test_a_line_like_a_plan_is_plain_text_without_a_planner(episode):
    played = episode("next: boxes\nboxes()")
    assert played.messages()[2]["content"] == "next: boxes\nboxes()" and played.turns[0].status == "ok"
    assert played.turns[0].events == []
