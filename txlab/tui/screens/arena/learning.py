"""The thread in which the learners of the arena learn: it alone touches the match, and does what the keys ask of it.

Notable: Python runs one thread at a time, so this one works in slices of a few milliseconds, stands back for a moment
when a key has come, and has at most one picture on its way to the screen. What a person asks is an order; an order that
has a name takes the place of the one of that name that still waits. The thread ends when there is nothing to do.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from textual.worker import get_current_worker

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.tui.screens.arena.memory import Curves, Recording, Side, fate_of

if TYPE_CHECKING:
    from txlab.engine.rl.agent import Agent
    from txlab.engine.rl.maps.drawn import Map
    from txlab.engine.rl.process import Process
    from txlab.engine.rl.settings import Rule, Settings
    from txlab.engine.rl.world import World
    from txlab.experiments.tabular.match import Match

SLICE = 0.004  # seconds of learning between two looks at what the person wants
STAND_BACK = 0.04  # seconds that a key has the processor nearly for itself
SLOW = 60.0  # updates a second that keep nobody waiting
SEEN = 15.0  # updates a second of which each is shown
PICTURES = 18.0  # a second, at most
LONGEST_HORIZON = 300  # steps for which the greedy policy's expected return is computed
MOST_BACKUPS = 10_000_000  # of outcomes, for one such measurement
GREEDY_SHARE = 0.05  # of the time, that measuring the greedy policies may take
TAKE_TURNS = 0.001  # seconds that a thread keeps the interpreter while another wants it
PACES = (0.0, 2.0, 5.0, 15.0, 60.0, 1000.0, 20_000.0, float("inf"))
"""Updates a second: 0 is one for each key, the last is as fast as it goes."""

Order = Callable[["Learning"], None]
Walk = tuple[tuple[int, ...], float, str]


@dataclass(frozen=True, eq=False)
class Look:
    """What there is to see now.

    curves   per side: (episodes, mean returns, episodes a mean is over), (episodes, greedy returns)
    speed    updates a second     match   which one: a new one has other curves
    """

    world: World
    frame: Frame
    curves: tuple[Curves, ...]
    steps: tuple[int, ...]
    speed: float
    running: bool
    match: int


class Learning:
    """The match, its memory, and the thread."""

    def __init__(self, screen: Any) -> None:
        self.screen = screen
        self.match: Match | None = None
        self.world: World | None = None
        self.number = 0  # of the match
        self.seed = 0
        self.settings: list[Settings] = []  # of the learners that the first world will have
        self.table: dict[str, Any] = {}  # the [world] table it was made from
        self.due = 0.0
        self.recording = Recording()
        self.sides: list[Side] = []
        self.running = False
        self.pace = PACES[-1]
        self.awake = threading.Condition()
        self.orders: dict[object, Order] = {}
        self.alive = False
        self.taken = True  # the screen has drawn the last picture
        self.shown = 0.0
        self.chunk = 256
        self.speed = 0.0
        self.counted = (0.0, 0)
        self.measured, self.measuring = 0.0, 0.0

    # From the event loop.

    def order(self, work: Order, name: object = None) -> None:
        """Do this between two updates. From any thread.

        The thread that learns is begun by the event loop alone, and without the lock: who else would begin it waits for
        the event loop, which may be waiting for the lock.
        """
        with self.awake:
            key = name if name is not None else object()
            self.orders.pop(key, None)
            self.orders[key] = work
            asleep = not self.alive
            self.awake.notify_all()
        if asleep:
            try:
                asyncio.get_running_loop()
            except RuntimeError:  # another thread
                self.then(self.begin)
            else:
                self.begin()

    def go(self, running: bool) -> None:
        """Run, or pause."""
        self.running = running
        self.counted = (0.0, 0)
        self.order(lambda _: None, "look")

    def begin(self) -> None:
        with self.awake:
            if self.alive or not self.screen.is_attached:
                return
            self.alive = True
        if sys.getswitchinterval() > TAKE_TURNS:
            sys.setswitchinterval(TAKE_TURNS)
        self.screen.run_worker(self.live, thread=True, group="learning", exit_on_error=False)

    def drawn(self) -> None:
        """The screen has the last picture; the next one may come."""
        self.taken = True

    # In the thread.

    def live(self) -> None:
        worker = get_current_worker()
        try:
            while True:
                with self.awake:
                    orders, self.orders = list(self.orders.values()), {}
                    over = worker.is_cancelled or not self.screen.app.is_running
                    if over or (not orders and not (self.running and self.match is not None)):
                        self.alive = False  # while nobody else can look: the next order begins another thread
                        return
                for order in orders:
                    self.obey(order)
                if orders:
                    self.publish()
                if self.running and self.match is not None:
                    self.advance()
        except BaseException:
            self.running = self.alive = False
            raise

    def obey(self, order: Order) -> None:
        try:
            order(self)
        except LabError as error:
            self.say(str(error))

    def say(self, sentence: str) -> None:
        self.then(self.screen.told, sentence)

    def then(self, show: Callable[..., None], *values: Any) -> None:
        """Call on the event loop."""
        self.screen.app.call_later(show, *values)

    def advance(self) -> None:
        """A slice of learning, or a short wait until the next update is due."""
        match, pace = self.match, self.pace
        assert match is not None
        now = time.monotonic()
        if not self.counted[0]:
            self.counted = (now, self.updates)
            self.due = now
        if pace > SLOW and now - self.screen.app.last_input < STAND_BACK:
            time.sleep(STAND_BACK / 2)  # and then a slice all the same, for keys that are held down
        if pace == float("inf"):
            match.run(self.chunk)
            took = time.monotonic() - now
            if took > 0:
                self.chunk = max(1, min(200_000, round(self.chunk * min(2.0, max(0.5, SLICE / took)))))
        elif pace > 0:
            owed = int((now - self.due) * pace)
            each = pace <= SEEN  # every update is seen, even if the screen is slow
            if owed <= 0 or (each and not self.taken):
                with self.awake:
                    if not self.orders:
                        self.awake.wait(min(0.05, max(0.005, self.due + 1 / pace - now)))
                return
            owed = 1 if each else min(owed, max(1, self.chunk))
            match.run(owed)
            self.due = max(self.due + owed / pace, now - (0.0 if each else 0.2))
            took = time.monotonic() - now
            self.chunk = max(1, min(200_000, round(self.chunk * min(2.0, max(0.5, SLICE / max(took, 1e-5))))))
        else:
            self.running = False
        now = time.monotonic()
        # A picture takes as long to paint as what a key changes, so that goes first, unless keys are held down.
        rest = STAND_BACK if now - self.screen.app.last_input < STAND_BACK else 0.0
        if self.taken and (pace <= SEEN or now - self.shown >= 1 / PICTURES + 3 * rest):
            self.publish()
        else:
            time.sleep(0)

    @property
    def updates(self) -> int:
        return self.match.updates if self.match is not None else 0

    def publish(self) -> None:
        """Hand the screen a picture of now."""
        if self.match is None or self.world is None:
            return
        now = time.monotonic()
        updates = self.updates
        if self.counted[0] and now - self.counted[0] > 0.5:
            self.speed = (updates - self.counted[1]) / (now - self.counted[0])
            self.counted = (now, updates)
        self.remember(now)
        frame = self.match.frame()
        paths = {f"{number}/path": np.array(side.path, np.int64) for number, side in enumerate(self.sides)}
        frame = replace(frame, tensors={**frame.tensors, **paths})
        self.recording.add(frame, self.world)
        self.shown, self.taken = now, False
        curves = tuple(self.curves_of(side) for side in self.sides)
        look = Look(
            self.world, frame, curves, tuple(self.recording.steps), self.speed, self.running, self.number
        )  # fmt: skip
        self.screen.app.call_later(self.screen.take, look)

    def remember(self, now: float) -> None:
        """The returns of episodes that have ended since, and now and then what the greedy policies earn."""
        assert self.match is not None
        for number, side in enumerate(self.sides):
            new = self.match.history(number)[side.known :]
            side.known += len(new)
            side.returns.extend(new)
        if now - self.measured < self.measuring / GREEDY_SHARE and self.running:
            return
        begun = time.monotonic()
        for number, side in enumerate(self.sides):
            path, value = self.match.greedy(number)
            process = self.match.world.process
            expected = expected_return(process, self.match.agents[number])
            side.path, side.fate, side.walked = tuple(path), fate_of(path, process), len(path) - 1
            if expected is not None:
                side.fate, side.walked = "", 0
            if not side.fate:
                side.greedy.add(side.known, value if expected is None else expected)
        self.measured, self.measuring = now, time.monotonic() - begun

    def curves_of(self, side: Side) -> Curves:
        episodes, returns = side.returns.curve()
        steps, values = side.greedy.curve()
        latest = tuple((side.returns.means[-6:] + side.returns.rest)[-6:]) if side.returns.block == 1 else ()
        return Curves(episodes, returns, side.returns.block, steps, values, latest, max(0, side.walked), side.fate)

    # Orders.

    def settings_now(self) -> list[Settings]:
        """Of each side. From any thread."""
        match = self.match
        return list(match.sides) if match is not None else []

    def match_of(self, settings: list[Settings], world: World | None = None) -> None:
        """Another match from the beginning, and nothing remembered."""
        from txlab.experiments.tabular.match import Match

        world = world or self.world
        if world is None:
            return
        self.match = Match(world, settings, self.seed, self.table)
        self.world = self.match.world
        self.number += 1
        self.recording.clear()
        self.sides = [Side() for _ in settings]
        self.speed, self.counted, self.measured, self.measuring = 0.0, (0.0, 0), 0.0, 0.0

    def move_to(self, world: World, table: Mapping[str, Any]) -> None:
        """The learners of now, knowing nothing, in another world."""
        self.table = dict(table)
        self.match_of(self.settings_now() or self.settings, world)

    def match_in(self, world: World, table: Mapping[str, Any], settings: list[Settings]) -> None:
        """These learners, knowing nothing, in this world."""
        self.table = dict(table)
        self.match_of(settings, world)

    def anew(self) -> None:
        """Forget what was learnt; another seed, so that it is another life."""
        self.seed += 1
        self.match_of(self.settings_now())

    def change_rule(self, side: int, rule: Rule) -> None:
        """Another rule for a side, which begins with empty tables; the other side goes on."""
        if self.match is not None and side < len(self.sides):
            self.match.rule(side, rule)
            self.sides[side] = Side(known=len(self.match.history(side)))

    def with_side(self, settings: Settings) -> None:
        """A second learner. Both begin anew: only after equally many updates they can be compared."""
        self.match_of([*self.settings_now()[:1], settings])

    def without(self, side: int) -> None:
        """Those that are left."""
        self.match_of([each for place, each in enumerate(self.settings_now()) if place != side])

    def edit(self, change: Callable[[Map], Map]) -> None:
        """The map changed under the learners' feet; LabError, and nothing is another, where the map is impossible."""
        from txlab.engine.rl.maps.compiling import compile_map

        if self.match is None or self.world is None or self.world.map is None:
            return
        self.match.edited(compile_map(change(self.world.map)))
        for note in self.match.world.notes:
            if note not in self.world.notes:
                self.then(self.screen.tell, note)
        self.world, self.table, self.measured = self.match.world, dict(self.match.table), 0.0

    def greedy_paths(self) -> list[Walk]:
        """Per side: the states that its best actions go through, what that earns, and how it fails to arrive."""
        if self.match is None:
            return []
        found = [self.match.greedy(side) for side in range(len(self.sides))]
        return [(tuple(path), float(value), fate_of(path, self.match.world.process)) for path, value in found]

    def ask(self, question: Callable[[Learning], Any]) -> Any:
        """From another thread: the answer, worked out between two updates. LabError as the question raises it."""
        answer: list[Any] = []
        there = threading.Event()

        def work(learning: Learning) -> None:
            try:
                answer.append(question(learning))
            except Exception as error:
                answer.append(error)
            there.set()

        self.order(work)
        worker = get_current_worker()
        while not there.wait(0.05):
            if worker.is_cancelled:
                return None
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]


def expected_return(process: Process, agent: Agent) -> float | None:
    """What the greedy policy earns on average until the world cuts it off, where one walk would be a matter of luck;
    None where nothing is left to chance, or where that is too much to compute beside."""
    from txlab.engine.rl.dynamic_programming import from_start, value_within

    certain = bool((np.diff(process.first) <= 1).all()) and process.start.max() == 1
    steps = min(LONGEST_HORIZON, process.limit or LONGEST_HORIZON)
    if certain or not process.done.any() or len(process.next) * steps > MOST_BACKUPS:
        return None
    return from_start(process, value_within(process, agent.greedy(), steps))


def told_of(facts: Mapping[str, Any], side: int) -> Mapping[str, Any]:
    """What a frame says about a side."""
    sides = facts.get("sides")
    found = sides[side] if isinstance(sides, (list, tuple)) and side < len(sides) else {}
    return found if isinstance(found, Mapping) else {}
