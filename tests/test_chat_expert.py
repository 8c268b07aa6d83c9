"""A chat model as expert: what it is shown, what it may answer, and that it serves a task without a scripted one."""

import threading

import pytest

from coevo_lib.agent import Episode, replay
from coevo_lib.calls import Call
from coevo_lib.chat_expert import ChatExpert
from coevo_lib.correction import candidates
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.expert import LOST, ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.localization import Failure
from coevo_lib.rollouts import expert_episodes


@pytest.fixture
def instance(mock):
    return mock.instances("train", 1, size=3)[0]


@pytest.fixture
def teacher(mock):
    """A chat expert whose model writes what the scripted expert would, after a sentence; `asked` holds the requests."""

    def make(before=lambda request: None):
        asked = []

        def answer(request):
            asked.append(request)
            if said := before(request):
                return said
            said = [m["content"] for m in request.messages if m["role"] == "assistant"]
            instance = next(i for i in known if i.prompt in request.messages[1]["content"] and seen(i, request))
            call = ScriptedExpert(0.0, 1.0).next(replay(mock, instance, Harness(), said))[0]
            return f"This comes next.\n{call.tool}({', '.join(map(repr, call.args))})"

        return ChatExpert(ScriptedEngine(answer)), asked

    def seen(instance, request):
        boxes = ", ".join(instance.data["boxes"])
        return len(request.messages) < 4 or request.messages[3]["content"].startswith(boxes)

    known = [*mock.instances("train", 4, size=3), *mock.instances("test", 4, size=3)]
    return make


def test_it_finishes_an_episode_from_the_messages_alone(mock, instance, teacher):
    expert, asked = teacher()
    episode = Episode(mock, instance, Harness())
    assert play_expert(expert, episode).success and (episode.trajectory.author, episode.trajectory.model) == (
        "expert", "chat model",
    )  # fmt: skip
    assert asked[0].messages[1:] == tuple(Episode(mock, instance, Harness()).messages()[1:])
    assert (
        asked[0].messages[0]["content"].endswith(episode.system) and "one sentence" in asked[0].messages[0]["content"]
    )
    assert len(asked) == len(episode.turns)


def test_a_sentence_and_a_call_are_told_apart(mock, instance, teacher):
    expert, _ = teacher(lambda request: "First the names,\nthen the rest.\nboxes()")
    assert expert.next(Episode(mock, instance, Harness())) == (Call("boxes"), "First the names, then the rest.")
    harness = parse_harness('format.call = "json"')
    expert, _ = teacher(lambda request: 'The names.\n{"tool": "boxes"}')
    assert expert.next(Episode(mock, instance, harness)) == (Call("boxes"), "The names.")


def test_an_answer_that_cannot_be_read_goes_back_once(mock, instance, teacher):
    expert, asked = teacher(lambda request: "no idea" if len(request.messages) < 4 else "Sorry.\nboxes()")
    assert expert.next(Episode(mock, instance, Harness())) == (Call("boxes"), "Sorry.")
    assert (
        asked[1].messages[-2]["content"] == "no idea"
        and "Not readable: not a tool call" in asked[1].messages[-1]["content"]
    )
    expert, asked = teacher(lambda request: "no idea")
    assert expert.next(Episode(mock, instance, Harness())) is None and len(asked) == 2


def test_a_correction_is_asked_for_with_what_went_wrong_and_verified_by_playing_on(mock, instance, teacher, played):
    words = iter(["As asked.\nboxes()", "Or so.\nboxes()", "In my head.\nsubmit(1)"])
    expert, asked = teacher(lambda request: next(words) if "failed." in request.messages[-1]["content"] else None)
    trajectory = played(mock, instance, ["submit(20)"]).trajectory
    failure = Failure(instance.key, 0, "planning", "")
    found = candidates(expert, mock, instance, Harness(), trajectory, failure)
    assert [c.text for c, _ in found] == ["boxes()", "submit(1)"], "the same call twice is one candidate"
    assert [c.verified for c, _ in found] == [True, False] and found[0][0].sentence == "As asked."
    assert found[0][0].calls_left == 5, "three to open, one to add up, one to submit"
    first = asked[0].messages[-1]["content"]
    assert "submit(20)" in first and trajectory.feedback in first
    assert [request.temperature for request in asked[:3]] == [0.0, 0.8, 0.8]
    assert [request.sample for request in asked[:3]] == [0, 1, 2], "else the second draw would come from the cache"


def test_a_way_that_ends_wrongly_is_no_way(mock, instance, teacher):
    expert, _ = teacher()
    assert expert.calls_left(mock, instance, Harness(), ["submit(1)"]) == LOST
    right = f"submit({instance.data['answer']})"
    assert expert.calls_left(mock, instance, Harness(), [right]) == 0


@pytest.mark.model
def test_a_real_model_behind_a_real_server_is_an_expert(mock, tmp_path, monkeypatch):
    """The student itself as expert: a poor one, but protocol, cache and accounting hold."""
    from coevo_lib.cache import ReplyCache
    from coevo_lib.engines import open_api_engine, open_engine
    from coevo_lib.engines.serve import make_server
    from coevo_lib.models import base_model_dir

    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setattr("coevo_lib.chat_expert.MOST_TOKENS", 60)  # it rambles to the last of them
    instances = mock.instances("train", 2)
    with open_engine("auto", base_model_dir(), concurrency=2) as model, make_server(model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        with ReplyCache(tmp_path / "replies.sqlite") as cache, open_api_engine(url, "student", cache=cache) as api:
            first = expert_episodes(ChatExpert(api), mock, instances, Harness(), 3)
            stored = cache.counts()["stored"]
            again = expert_episodes(ChatExpert(api), mock, instances, Harness(), 3)
            assert stored == cache.counts()["stored"] > 0
        server.shutdown()
    assert [e.trajectory.to_json() for e in first] == [e.trajectory.to_json() for e in again]
    assert {e.trajectory.author for e in first} <= {"expert"}
