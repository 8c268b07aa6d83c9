"""A chat model as meta-agent: what it is shown, what it may answer, and what becomes of a wrong answer."""

import json
from dataclasses import replace

import pytest

from coevo_lib.chat_meta_agent import ChatMetaAgent, FailedProposal
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness, to_sections
from coevo_lib.rollouts import random_episode
from coevo_lib.toolbox import check_harness

RECIPE = '[system]\ntext = "Go on.\\n{tools}"\nrecipe = ["use boxes"]'


@pytest.fixture
def agent(mock):
    """An agent whose model gives these answers in turn; `asked` holds the requests."""

    def make(*answers):
        made = iter(answers)

        def answer(request):
            asked.append([dict(message) for message in request.messages])
            return next(made)

        asked = []
        agent = ChatMetaAgent(ScriptedEngine(answer), "boxes(): names", lambda harness: check_harness(harness, mock))
        return agent, asked

    return make


@pytest.fixture
def failed(mock):
    return [random_episode(mock, i, Harness(), 6).trajectory for i in mock.instances("evolve", 8)]


def reply(**sections):
    return json.dumps({"why": "it reads too little", "sections": sections})


def test_a_valid_answer_is_an_edit(agent, failed):
    chat, asked = agent("Here it is:\n" + reply(system=RECIPE))
    edit = chat.propose(Harness(), failed)
    assert edit.harness.system.recipe == ["use boxes"] and edit.element == "system.text" and len(asked) == 1
    assert edit.why == "it reads too little" and edit.kind == "chat model"
    assert to_sections(edit.harness) | {"system": ""} == to_sections(Harness()) | {"system": ""}


def test_the_model_sees_the_harness_its_tools_failures_and_what_was_tried(agent, failed):
    chat, asked = agent(reply(system=RECIPE), reply(format='[format]\ncall = "json"'))
    edit = chat.propose(Harness(), failed)
    chat.learn(edit, 3, 5, 12, True)
    chat.propose(edit.harness, failed)
    shown = asked[1][1]["content"]
    lost = next(t for t in failed if not t.success)
    for piece in ("use boxes", "boxes(): names", lost.prompt, lost.feedback, "3 -> 5 of 12, kept", "context"):
        assert piece in shown
    assert sum(lost.prompt in part for part in shown.split("Task: ")) >= 1


@pytest.mark.parametrize("split", ["select", "test"])
def test_nothing_of_the_splits_that_decide_can_reach_it(mock, agent, failed, split):
    """A whole search, then every text that was sent: no prompt of those splits stands in any of it."""
    from coevo_lib.search import Budget, Search

    chat, asked = agent(*[reply(system=RECIPE.replace("boxes", f"boxes, {n}")) for n in range(9)])
    hidden = [replace(i, prompt=f"Hidden {n}: {i.prompt}") for n, i in enumerate(mock.instances(split, 10))]
    search = Search(
        mock, mock.instances("evolve", 6), hidden, ScriptedEngine(lambda request: "submit(0)"),
        Budget(proposals=2, minibatch=3, max_turns=2), meta=chat,
    )  # fmt: skip
    search.run()
    sent = json.dumps(asked)
    assert len(asked) == 2 and "submit(0)" in sent
    assert "Hidden" not in sent and not any(instance.key in sent for instance in hidden)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("", "no field `sections`"),
        ("no idea", "no field `sections`"),
        ("{" * 5000 + "}" * 5000, "no JSON"),
        ('{"sections": {}}', "no field `sections`"),
        ('{"sections": ["system"]}', "no field `sections`"),
        (reply(system=3), "no field `sections`"),
        (reply(systen=RECIPE), "sections: 'systen' is not one of system, tools"),
        (reply(system="[system"), "not TOML"),
        (reply(system='[system]\nrecipe = "x"'), "system.recipe"),
        (reply(system='[system]\ntext = "{tools} {world}"'), "placeholder"),
        (reply(tools='[tools]\nhide = ["fly"]'), "no tool 'fly'"),
        (reply(system=to_sections(Harness())["system"]), "stay as it is"),
    ],
)
def test_a_wrong_answer_goes_back_once_with_its_fault(agent, failed, answer, fault):
    chat, asked = agent(answer, reply(system=RECIPE))
    assert chat.propose(Harness(), failed).harness.system.recipe
    assert len(asked) == 2 and fault in asked[1][-1]["content"] and asked[1][-2]["content"] == answer
    chat, asked = agent(answer, answer)
    with pytest.raises(FailedProposal, match=fault.split("`")[0].strip()):
        chat.propose(Harness(), failed)
    assert len(asked) == 2


def test_only_one_half_of_chat_url_and_chat_model_is_refused():
    from coevo_lib.ranges import check_values

    check_values({"chat_url": "", "chat_model": ""}, "p.toml")
    for half in ({"chat_url": "http://x/v1", "chat_model": ""}, {"chat_url": "", "chat_model": "m"}):
        with pytest.raises(UserError, match="p.toml: chat_url and chat_model: give both"):
            check_values(half, "p.toml")


@pytest.mark.model
def test_a_real_model_behind_a_real_server_takes_part_in_a_search(mock, tmp_path, monkeypatch):
    """The student itself as meta-agent: it writes no valid edit, and protocol, validation and accounting hold."""
    import threading

    from coevo_lib.cache import ReplyCache
    from coevo_lib.engines import open_api_engine, open_engine
    from coevo_lib.engines.serve import make_server
    from coevo_lib.models import base_model_dir
    from coevo_lib.search import Budget, Search

    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setattr("coevo_lib.chat_meta_agent.MOST_TOKENS", 120)  # it rambles to the last of them
    with (
        open_engine("auto", base_model_dir(), concurrency=2, max_model_len=8192) as model,
        make_server(model) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        with ReplyCache(tmp_path / "replies.sqlite") as cache, open_api_engine(url, "student", cache=cache) as api:
            chat = ChatMetaAgent(api, "boxes(): names", lambda harness: check_harness(harness, mock))
            search = Search(
                mock, mock.instances("evolve", 4), mock.instances("select", 2),
                ScriptedEngine(lambda request: "submit(0)"), Budget(proposals=1, minibatch=2, max_turns=2), meta=chat,
            )  # fmt: skip
            search.run()
            replies = cache.counts()["stored"]
        server.shutdown()
    [row] = [row for row in search.lineage if row["kind"] in ("failed proposal", "chat model")]
    assert 1 <= replies <= 2 and row["why"]
    assert row["proposer_tokens"] == chat.tokens > 0 == search.lineage[0]["proposer_tokens"]
