"""The agent loop: one student plays one instance under one harness.

`Episode` is the loop's state and its only way forward is `step(text)`: students, experts, random
callers and replays all go through it, so what a harness does is the same for each of them.
Batching, caching and adapters are the engine's; many episodes at once are `rollouts`.
"""

from dataclasses import replace

from coevo_lib.calls import Call, CallSyntaxError, parse_call, render_call
from coevo_lib.engines.base import Engine, EngineFault, Reply, Request
from coevo_lib.harness import Context, Demo, Harness
from coevo_lib.hooks import Retry
from coevo_lib.past import Past
from coevo_lib.task import Instance, Task, ToolError, WorldFault
from coevo_lib.toolbox import Toolbox, show_facts
from coevo_lib.trajectory import ERROR, MALFORMED, OK, REFUSED, Event, Trajectory, Turn

# A hopeless episode is cut short; measured: it changes no success and halves a bad model's time.
SAME_REPLIES, SAME_TROUBLES = 4, 6
PLAN = "next: "  # how the planner's line begins, before the executor's call


class Episode:
    """One instance under one harness, being played.

    `messages()` is what the model sees now; `step(text)` takes its reply. `trajectory` grows.
    """

    def __init__(
        self, task: Task, instance: Instance, harness: Harness, *, model: str = "", max_turns: int = 16, sample: int = 0
    ):
        self.task, self.instance, self.harness, self.max_turns = task, instance, harness, max_turns
        self.world = task.world(instance.data)
        self.toolbox = Toolbox(self.world, harness)
        self.system = system_text(harness, self.toolbox)
        self.trajectory = Trajectory(
            instance=instance.key,
            task=task.name,
            split=instance.split,
            harness=harness.id,
            model=model,
            prompt=instance.prompt,
            sample=sample,
        )

    @property
    def turns(self) -> list[Turn]:
        return self.trajectory.turns

    @property
    def past(self) -> Past:
        return Past(self.instance.prompt, self.turns, self.toolbox.signatures())

    @property
    def done(self) -> bool:
        return self.world.finished or len(self.turns) >= self.max_turns or self._stuck()

    def _stuck(self) -> bool:
        texts = [turn.text for turn in self.turns[-SAME_REPLIES:]]
        troubles = [turn.status != OK for turn in self.turns[-SAME_TROUBLES:]]
        return (len(texts) == SAME_REPLIES and len(set(texts)) == 1) or (
            len(troubles) == SAME_TROUBLES and all(troubles)
        )

    def messages(self) -> list[dict]:
        """The chat that the model sees now, as role and content."""
        return chat(self.system, self.instance.prompt, self.turns, self.harness.context)

    def planner_messages(self) -> list[dict]:
        """The chat that the planner sees: of the observations only the last ones are whole."""
        context = self.harness.context
        return chat(self.system, self.instance.prompt, self.turns, context.model_copy(update={"keep": context.planner}))

    def plan(self, reply: str) -> str:
        """The line that goes before the executor's call: the tool that the planner named, or nothing."""
        try:
            tool = parse_call(reply, self.harness.format.call).tool
        except CallSyntaxError:
            return ""
        return f"{PLAN}{tool}\n" if tool in self.toolbox.visible else ""

    def temperature(self, default: float) -> float:
        heats = [hook.heat(self.past) for hook in self.harness.hooks.use]
        return next((heat for heat in heats if heat is not None), default)

    @property
    def retry(self) -> Retry | None:
        """The harness's retry hook, if it has one."""
        return next((hook for hook in self.harness.hooks.use if isinstance(hook, Retry)), None)

    def objection(self, text: str) -> str | None:
        """Why a reply would be refused as unreadable or by a hook, without taking the step; None if it would run."""
        try:
            call = self._read(self._repair(text, []), [])
        except CallSyntaxError as error:
            return str(error)
        past = self.past
        return next((reason for hook in self.harness.hooks.use if (reason := hook.refuse(call, past))), None)

    def step(self, text: str, prompt_tokens: int = 0, output_tokens: int = 0, keep_error: bool = True) -> Turn:
        """Takes the model's reply: repairs, parses, guards, runs, notes.

        A tool that answers with an error has changed nothing; without `keep_error` such a turn does not count.
        """
        plan = split_plan(text, self.harness.context)[0]
        events = [Event("context.planner", "planned", plan)] if plan else []
        call, facts, observation, status = self._act(self._repair(text, events), events)
        turn = Turn(text, call, observation, status, facts, events, prompt_tokens, output_tokens)
        if status == ERROR and not keep_error:
            return turn
        self.turns.append(turn)
        if not self.world.finished:
            self._add_notes(turn)
        if self.done:
            self._close()
        return turn

    def _repair(self, text: str, events: list[Event]) -> str:
        """Only a reply that cannot be read is mended."""
        try:
            parse_call(text, self.harness.format.call)
            return text
        except CallSyntaxError:
            past = self.past
        for hook in self.harness.hooks.use:
            repaired = hook.repair(text, past)
            if repaired != text:
                events.append(Event(f"hooks:{hook.hook}", "repaired", repaired))
                text = repaired
        return text

    def _read(self, text: str, events: list[Event]) -> Call:
        """The call in a text, its arguments mended. Raises CallSyntaxError where there is none."""
        call, past = parse_call(text, self.harness.format.call), self.past
        for hook in self.harness.hooks.use:
            mended = hook.mend(call, past)
            if mended != call:
                events.append(Event(f"hooks:{hook.hook}", "repaired", render_call(mended, self.harness.format.call)))
                call = mended
        return call

    def _act(self, text: str, events: list[Event]) -> tuple:
        try:
            call = self._read(text, events)
        except CallSyntaxError as error:
            return None, [], f"error: {error}", MALFORMED
        past = self.past
        for hook in self.harness.hooks.use:
            reason = hook.refuse(call, past)
            if reason:
                events.append(Event(f"hooks:{hook.hook}", "refused", reason))
                return call, [], f"refused: {reason}", REFUSED
        try:
            facts = self.toolbox.run(call)
        except ToolError as error:
            return call, [], f"error: {error}", ERROR
        if call.tool in self.toolbox.composites:
            events.append(Event(f"tools.composite:{call.tool}", "ran", f"{len(facts)} steps"))
        return call, facts, show_facts(facts), OK

    def _add_notes(self, turn: Turn) -> None:
        for hook in self.harness.hooks.use:
            note = hook.note(self.past)
            if note:
                turn.events.append(Event(f"hooks:{hook.hook}", "noted", note))
                turn.observation += f"\n({note})"

    def _close(self) -> None:
        verdict = self.world.verdict()
        status = "finished" if self.world.finished else "stuck" if self._stuck() else "out_of_turns"
        self.trajectory.status, self.trajectory.success, self.trajectory.feedback = (
            status,
            verdict.success,
            verdict.feedback,
        )


def play(engine: Engine, episode: Episode, *, temperature: float = 0.0, max_tokens: int = 96) -> Trajectory:
    """Lets the engine's model play the episode to its end, from wherever it stands.

    An infrastructure error ends it with status `fault` and the error's text; it is never a score.
    """
    episode.trajectory.model = engine.model_id
    while not episode.done:
        try:
            _play_turn(engine, episode, temperature, max_tokens)
        except (EngineFault, WorldFault) as fault:
            episode.trajectory.status, episode.trajectory.error = "fault", str(fault)
            break
    return episode.trajectory


def _play_turn(engine: Engine, episode: Episode, temperature: float, max_tokens: int) -> None:
    """One turn: the model's reply, or, where the harness's retry hook minds it, the first new draw that it does not mind.

    Under a harness with a planner the same model first says what comes next, in a context of its own. The new draws go
    out together: waiting for each would leave the engine idle in the tail of a batch. The turn's tokens count all of it.
    """
    sample, retry = episode.trajectory.sample, episode.retry
    options = {"max_tokens": max_tokens, "temperature": episode.temperature(temperature), "sample": sample}
    plan, spent, events = "", 0, []
    if episode.harness.context.planner:
        planned = engine.submit(Request(tuple(episode.planner_messages()), **options)).result()
        plan, spent = episode.plan(planned.text), planned.output_tokens
    first = Request(tuple(with_plan(episode.messages(), plan)), **options)
    reply = engine.submit(first).result()
    spent += reply.output_tokens
    objection = _try(episode, plan, reply, retry)
    if objection is not None:
        seeds = [1000 * (sample + 1) + attempt for attempt in range(retry.tries)]
        again = [engine.submit(replace(first, temperature=retry.temperature, sample=seed)) for seed in seeds]
        for new in [future.result() for future in again]:
            spent += new.output_tokens
            if objection is not None:
                events.append(Event("hooks:retry", "drew again", f"{reply.text.strip()[:120]}: {objection}"))
                reply, objection = new, _try(episode, plan, new, retry)
    if objection is not None:
        episode.step(plan + reply.text, reply.prompt_tokens)
    episode.turns[-1].output_tokens = spent
    episode.turns[-1].events[:0] = events


def _try(episode: Episode, plan: str, reply: Reply, retry: Retry | None) -> str | None:
    """Takes the step unless the retry hook minds the reply; then says why, and leaves the episode as it was."""
    text = plan + reply.text
    if retry and (objection := episode.objection(text)) is not None:
        return objection
    minds_errors = retry is not None and retry.errors
    turn = episode.step(text, reply.prompt_tokens, keep_error=not minds_errors)
    return turn.observation if minds_errors and turn.status == ERROR else None


def replay(task: Task, instance: Instance, harness: Harness, texts: list[str], **options) -> Episode:
    """The episode after the given replies, in a fresh world."""
    episode = Episode(task, instance, harness, **options)
    for text in texts:
        episode.step(text)
    return episode


def chat(system: str, prompt: str, turns: list[Turn], context: Context) -> list[dict]:
    """The chat messages of a prefix: with `context.keep` only the last so many observations whole.

    A planner's line stands at the end of the message before the call that it goes with.
    """
    messages, keep = [{"role": "system", "content": system}, {"role": "user", "content": prompt}], context.keep
    for index, turn in enumerate(turns):
        old = keep and index < len(turns) - keep
        plan, text = split_plan(turn.text, context)
        messages = with_plan(messages, plan)
        messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": "(removed)" if old else turn.observation})
    return messages


def split_plan(text: str, context: Context) -> tuple[str, str]:
    """(the planner's line with its end, the rest) of a turn's text; the line is empty without a planner."""
    line, end, rest = text.partition("\n")
    return (line + end, rest) if context.planner and line.startswith(PLAN) and end else ("", text)


def with_plan(messages: list[dict], plan: str) -> list[dict]:
    """The messages with the planner's line as a note at the end of the last one."""
    if not plan:
        return messages
    return [*messages[:-1], {**messages[-1], "content": f"{messages[-1]['content']}\n({plan.strip()})"}]


def system_text(harness: Harness, toolbox: Toolbox) -> str:
    """The system message: text with the tools filled in, recipe, demonstrations."""
    parts = [harness.system.text.replace("{tools}", toolbox.describe())]
    if harness.system.recipe:
        parts.append("Steps:\n" + "\n".join(f"{i}. {line}" for i, line in enumerate(harness.system.recipe, 1)))
    parts += [_show_demo(demo) for demo in harness.demos.item]
    return "\n\n".join(parts)


def _show_demo(demo: Demo) -> str:
    lines = [f"{call}\n-> {seen}" for call, seen in zip(demo.calls, demo.observations)]
    return "\n".join([f"Example: {demo.prompt}", *lines])


def expert_text(call: Call, harness: Harness) -> str:
    """What an expert writes for a call: the student's own format (paper, stage C); it is its own planner."""
    plan = f"{PLAN}{call.tool}\n" if harness.context.planner else ""
    return plan + render_call(call, harness.format.call)
