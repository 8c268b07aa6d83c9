"""A chat model as expert, for a task that brings no scripted one: it writes one sentence and one call, as in the paper.

It sees the messages that the student would see, and so knows no more (rule 2). directness and persistence are a scripted
expert's parameters: how a chat model plans is its own. Its success is evidence, other than a scripted expert's.
"""

from dataclasses import dataclass

from coevo_lib.agent import Episode, replay
from coevo_lib.calls import CallSyntaxError, parse_call
from coevo_lib.engines.base import Engine, Reply, Request
from coevo_lib.expert import FAR, LOST, Step, play_expert
from coevo_lib.harness import Harness
from coevo_lib.task import Instance, Task

MOST_TOKENS = 300
TEMPERATURE = 0.8  # of all candidates but the first
FORM = "Answer with one sentence that says why, then the one tool call that comes next, on a line of its own."


@dataclass(frozen=True)
class ChatExpert:
    """An `Expert` behind an engine."""

    engine: Engine

    def next(self, episode: Episode) -> Step | None:
        return next(iter(self.candidates(episode, 1)), None)

    def candidates(self, episode: Episode, most: int, failed: str = "") -> list[Step]:
        """`most` answers, the first one greedy. What cannot be read goes back once, and is then left out."""
        messages, form = _question(episode, failed), episode.harness.format.call
        asked = [Request(messages, MOST_TOKENS, TEMPERATURE if n else 0.0, sample=n) for n in range(most)]
        found: dict = {}
        for request, future in zip(asked, [self.engine.submit(request) for request in asked]):
            step = self._read(request, future.result(), form)
            if step:
                found.setdefault(step[0], step)
        return list(found.values())

    def calls_left(self, task: Task, instance: Instance, harness: Harness, texts: list[str]) -> int:
        """Counted by playing on; an episode that has come to its end needs none."""
        episode = replay(task, instance, harness, texts, max_turns=len(texts) + FAR)
        return len(episode.turns) - len(texts) if play_expert(self, episode).success else LOST

    def _read(self, request: Request, reply: Reply, form: str) -> Step | None:
        try:
            return _step(reply.text, form)
        except CallSyntaxError as error:
            again = {"role": "user", "content": f"Not readable: {error}. {FORM}"}
        messages = (*request.messages, {"role": "assistant", "content": reply.text}, again)
        second = Request(messages, MOST_TOKENS, request.temperature, sample=request.sample)
        try:
            return _step(self.engine.submit(second).result().text, form)
        except CallSyntaxError:
            return None


def _question(episode: Episode, failed: str) -> tuple[dict, ...]:
    system, *rest = episode.messages()
    last = rest[-1]["content"] + (f"\n\nAn agent went on in another way, and failed. {failed}" if failed else "")
    rules = f"You are the expert from whom a small model learns to work with tools. {FORM}"
    first = {"role": "system", "content": f"{rules}\n\nThis is what the small model is told:\n{system['content']}"}
    return (first, *rest[:-1], {**rest[-1], "content": last})


def _step(text: str, form: str) -> Step:
    call = parse_call(text, form)
    sentence, _, _ = text.strip().rpartition("\n")
    return call, " ".join(sentence.split())
