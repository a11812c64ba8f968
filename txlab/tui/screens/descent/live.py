"""The experiment that the screen steps: a `Descent` that can be stepped back, and whose methods come and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import ValidationError

from txlab.engine.descent.known import Known, safe_rate
from txlab.engine.descent.methods import METHODS, State, Step, format_point
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.experiments.kinds.descent.experiment import ARRIVED, Descent, function_of
from txlab.experiments.kinds.descent.schema import DescentScenario
from txlab.experiments.protocol import Frame

STEPS = 5000  # after which it pauses
HISTORY = 1000  # steps that can be taken back
OFF = "takes no part"
ADAMS = 0.05  # the rate of Adam and of sign descent on an unknown function
ORDER = ("newton-root", "gradient", "sgd", "momentum", "adam", "sign", "newton-minimum")
Moment = tuple[int, list[State], list[str], list[Step | None], list[int]]


class LiveDescent(Descent):
    """All methods that fit the function; those whose trouble is OFF take no part. `known` has the view of a known
    function."""

    def __init__(self, scenario: DescentScenario, known: Known | None, off: Sequence[str]) -> None:
        super().__init__(scenario)
        self.known = known
        self.past: deque[Moment] = deque(maxlen=HISTORY)
        for i, rule in enumerate(self.rules):
            if rule.name in off:
                self.trouble[i] = OFF

    def step(self) -> Mapping[str, float]:
        if all(self.trouble):
            return {}
        self.past.append((self.step_count, [*self.states], [*self.trouble], [*self.last], [*map(len, self.paths)]))
        return super().step()

    def back(self) -> None:
        """Take the last step back."""
        if not self.past:
            raise LabError("there is no step to take back")
        self.step_count, self.states, self.trouble, self.last, lengths = self.past.pop()
        for i, length in enumerate(lengths):
            del self.paths[i][length:]
            self.drawn[i] = self.drawn[i][:length]

    def change(self, name: str, value: float) -> None:
        """Change a parameter; a method that could not continue with the old one tries again."""
        super().change(name, value)
        i = next(i for i, each in enumerate(self.sections) if each.name == name.rpartition(".")[0])
        if self.trouble[i] not in (OFF, ARRIVED):
            self.trouble[i] = ""

    def toggle(self, i: int) -> None:
        """Switch a method on, from the start, or off. At least one stays on."""
        off = self.trouble[i] == OFF
        if not off and sum(each != OFF for each in self.trouble) == 1:
            raise LabError("one method at least takes part")
        self.states[i] = State.at(self.scenario.function.start)
        self.paths[i], self.drawn[i] = [self.states[i].x], self.drawn[i][:0]
        self.trouble[i], self.last[i] = ("" if off else OFF), None
        self.past.clear()

    def again(self, start: Sequence[float] | None = None) -> LiveDescent:
        """The same methods with their changed parameters, at the same or another start."""
        scenario = self.scenario
        if start is not None:
            function = scenario.function.model_copy(update={"start": list(start)})
            scenario = scenario.model_copy(update={"function": function})
        scenario = scenario.model_copy(update={"methods": self.sections})
        return LiveDescent(scenario, self.known, self.off)

    def why(self, i: int) -> Explanation:
        """The last step of a method."""
        value = float(self.f(self.states[i].x))
        title, where = self.rules[i].title, format_point(self.states[i].x)
        return self.explain(i, f"how did {title} come to {where}, where f is {value:.6g}?", value)

    @property
    def off(self) -> list[str]:
        return [rule.name for rule, trouble in zip(self.rules, self.trouble, strict=True) if trouble == OFF]

    def frame(self) -> Frame:
        frame = super().frame()
        return Frame(frame.step, frame.tensors, facts=dict(frame.facts) | {"start": self.scenario.function.start})


def live(
    f: str, start: Sequence[float], known: Known | None = None, data: Mapping[str, Any] | None = None, seed: int = 1
) -> LiveDescent:
    """Methods on a function, or on data. LabError if it is not a formula."""
    one = len(start) == 1
    names = [name for name in ORDER if (one or not METHODS[name].one_variable) and (data or name != "sgd")]
    function = {"start": list(start)} | ({} if data else {"f": f})
    asked: dict[str, Any] = {"function": function, "data": data or {}, "seed": seed, "descent": {"steps": STEPS}}
    try:
        scenario = DescentScenario.model_validate(asked | {"methods": [{"method": name} for name in names]})
    except ValidationError as error:
        raise LabError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
    if known is not None:
        rates = known.rates
    else:
        rate = safe_rate(function_of(scenario), torch.tensor(start, dtype=torch.float64))
        rates = {"gradient": rate, "momentum": rate, "sgd": rate, "adam": ADAMS, "sign": ADAMS}
    on = known.on if known is not None else ("newton-root", "gradient", "momentum", "adam", "newton-minimum")
    sections = [each.model_copy(update={"rate": rates.get(each.method, each.rate)}) for each in scenario.methods]
    scenario = scenario.model_copy(update={"methods": sections})
    return LiveDescent(scenario, known, [name for name in names if name not in on])
