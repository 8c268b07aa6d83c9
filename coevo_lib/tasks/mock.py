"""mock: the smallest task, for tests and the tour. Open every box and add up what is inside."""

import random

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import AnswerWorld, Style, Task, ToolError, View, tool


class Boxes(AnswerWorld):
    @tool
    def boxes(self) -> list[str]:
        """names of the boxes"""
        return list(self.data["boxes"])

    @tool
    def open(self, box: str) -> int:
        """coins in one box"""
        if box not in self.data["boxes"]:
            raise ToolError(f"box: no box {box!r}")
        return self.data["boxes"][box]


class Mock(Task):
    name = "mock"
    world = Boxes
    size = 2

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        colors = rng.sample(["red", "blue", "green", "white", "black", "pink", "gold", "gray"], size)
        boxes = {color: rng.randint(11, 49) for color in colors}
        return {"kind": "coins"}, {"boxes": boxes, "answer": sum(boxes.values())}

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        reading = read_all(view, style, Call("boxes"), "open")
        if reading:
            return reading
        coins = view.answers("open")
        terms = [str(coins[(box,)]) for box in view.last("boxes")]
        return conclude(view, style, "+".join(terms), "Every box is open.")
