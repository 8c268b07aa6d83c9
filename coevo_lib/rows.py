"""Training rows: chat messages with an explicit mask, made from played episodes.

A row is {messages, mask, source}: `mask[i]` says whether message i carries loss (rule 8). Which rows an
arm gets is `arms`; how a row becomes tokens is `training`.
"""

from coevo_lib.agent import Episode, chat, split_plan, with_plan
from coevo_lib.trajectory import Trajectory


def whole_rows(episode: Episode, start: int = 0) -> list[dict]:
    """Every assistant turn from `start` on carries loss: imitation and own successes from the first.

    One row an episode; one row a turn where the harness trims the context, since then no single chat
    shows what the student sees in each turn.
    """
    if episode.harness.context.keep:
        return [turn_row(episode, index, turn.text) for index, turn in enumerate(episode.turns) if index >= start]
    messages = episode.messages()[:-1]
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    return [_row(messages, [index in turns[start:] for index in range(len(messages))], episode.trajectory)]


def turn_row(episode: Episode, index: int, text: str) -> dict:
    """Only the turn at `index`, rewritten as `text`, carries loss; the turns before it are context."""
    context = episode.harness.context
    plan, said = split_plan(text, context)
    messages = with_plan(chat(episode.system, episode.instance.prompt, episode.turns[:index], context), plan)
    messages.append({"role": "assistant", "content": said})
    return _row(messages, [False] * (len(messages) - 1) + [True], episode.trajectory)


def _row(messages: list[dict], mask: list[bool], source: Trajectory) -> dict:
    return {"messages": messages, "mask": mask, "source": source.instance}
