"""The shown part of a frame. Frames are checked, since any program may have recorded them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.drawing.axis import Window
from txlab.drawing.curve import apart
from txlab.drawing.legibility import DESK, Legibility
from txlab.drawing.plane import (
    Graph,
    Path,
    Sheet,
    Shows,
    contours,
    empty,
    ends,
    graph_sheet,
    heights,
    places,
    stamp,
    window_of,
)
from txlab.drawing.scatter import Camera
from txlab.drawing.tangent_plane import tangent_sheet
from txlab.drawing.update_lines import compact
from txlab.engine.descent.known import Known
from txlab.engine.descent.tangent import Tangent
from txlab.errors import LabError
from txlab.experiments.protocol import Frame

if TYPE_CHECKING:
    from torch import Tensor

LETTERS = {
    "gradient": "G", "newton-root": "R", "momentum": "M", "adam": "A", "sgd": "D", "newton-minimum": "N", "sign": "S",
}  # fmt: skip
"""rule → its letter; the colour of a rule is that of its place here"""
NAMES = {"rate": "γ", "momentum": "μ", "beta1": "β₁", "beta2": "β₂", "noise": "noise", "anywhere": "anywhere"}
"""setting → its letter"""
OFF = "takes no part"
WORDS = {"arrived": "arrived", "it goes in a circle": "circle", "it diverges": "diverges", OFF: "off"}
CLOSER = 1.5  # from one size of the view to the next
FAR = 4.0  # the view follows points up to this many times its initial size away
MOST_BACK = 60  # sizes
SMALLEST_SHARE = 1e-16  # of the largest value: how far down a logarithmic axis goes


@dataclass(frozen=True, eq=False)
class Walker:
    """One method in a frame. `ink` is the number of its colour; values (n) are f along its path (n, dimensions);
    `hessian` (2, 2) is H at its point, where its rule uses that."""

    number: int
    name: str
    rule: str
    title: str
    equation: str
    letter: str
    ink: int
    path: np.ndarray
    values: np.ndarray
    steps: int
    rests: str
    settings: Mapping[str, float]
    tangent: Tangent | None
    curvature: float
    hessian: np.ndarray | None = None

    @property
    def on(self) -> bool:
        return self.rests != OFF

    @property
    def word(self) -> str:
        """Why it rests, in a word; "" = it is moving."""
        known = (word for beginning, word in WORDS.items() if self.rests.startswith(beginning))
        return next(known, "rests") if self.rests else ""


@dataclass(frozen=True, eq=False)
class Shown:
    """A frame as shown: `f` as typed, names of its variables, u and v of the data if any."""

    frame: Frame
    f: str
    names: str
    walkers: tuple[Walker, ...]
    u: np.ndarray | None = None
    v: np.ndarray | None = None

    @property
    def one(self) -> bool:
        """Whether f has one variable."""
        return len(self.walkers[0].path[0]) == 1

    @property
    def key(self) -> tuple[object, ...]:
        """The inputs of the ground."""
        return self.f, self.one, None if self.u is None or self.v is None else (self.u.tobytes(), self.v.tobytes())


def read_shown(frame: Frame) -> Shown:
    """Read a frame. LabError if it is not of this kind: any program may have recorded it."""
    facts, tensors = frame.facts, frame.tensors
    names, f = facts.get("methods"), facts.get("f")
    if not isinstance(names, (list, tuple)) or not names or not isinstance(f, str):
        raise LabError("this frame does not say which methods go down which function")
    try:
        rules = [str(each) for each in facts.get("rules") or names]
        walkers = tuple(walker_of(frame, i, str(name), rules) for i, name in enumerate(names))
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        raise LabError("this frame does not say where its methods have been") from None
    if len({walker.path.shape[1] for walker in walkers}) > 1:
        raise LabError("the methods of this frame go down functions of one variable and of two")
    u, v = (np.asarray(tensors.get(f"data/{name}", np.empty(0)), np.float64) for name in "uv")
    with_data = u.ndim == 1 and len(u) > 0 and u.shape == v.shape and walkers[0].path.shape[1] == 2
    names_of = str(facts.get("names") or "xy")[:2].ljust(2, "y")
    return Shown(frame, f, names_of, walkers, u if with_data else None, v if with_data else None)


def walker_of(frame: Frame, i: int, name: str, rules: Sequence[str]) -> Walker:
    """Method i of a frame. Two methods of the same rule have numbers instead of letters."""
    facts, tensors = frame.facts, frame.tensors

    def entry_of(key: str, default: Any) -> Any:
        values = facts.get(key)
        return values[i] if isinstance(values, (list, tuple)) and i < len(values) else default

    path = np.asarray(tensors[f"{i}/path"], np.float64)
    if path.ndim != 2 or not len(path) or path.shape[1] not in (1, 2) or not np.isfinite(path).all():
        raise ValueError
    values = np.asarray(tensors.get(f"{i}/values", np.full(len(path), np.nan)), np.float64).reshape(len(path))
    known, rule, tangent = tuple(LETTERS), rules[i], None
    alone = rules.count(rule) == 1 and rule in known
    if f"{i}/gradient" in tensors and f"{i}/value" in tensors:
        gradient = np.asarray(tensors[f"{i}/gradient"], np.float64).reshape(path.shape[1])
        tangent = Tangent(tuple(path[-1].tolist()), float(np.asarray(tensors[f"{i}/value"])), tuple(gradient.tolist()))
    settings = {str(key): float(value) for key, value in dict(entry_of("settings", {})).items()}
    hessian = tensors.get(f"{i}/hessian")
    return Walker(
        number=i,
        name=name,
        rule=rule,
        title=str(entry_of("titles", name)) if alone else name,
        equation=str(entry_of("equations", "")),
        letter=LETTERS[rule] if alone else str((i + 1) % 10),
        ink=known.index(rule) if alone else i,
        path=path,
        values=values,
        steps=int(entry_of("steps", len(path) - 1)),
        rests=str(entry_of("rests", "")),
        settings={key: value for key, value in settings.items() if key in NAMES},
        tangent=tangent,
        curvature=float(np.asarray(tensors.get(f"{i}/curvature", np.nan))),
        hessian=None if hessian is None else np.asarray(hessian, np.float64).reshape(2, 2),
    )


def function_of(shown: Shown) -> Callable[[Tensor], Tensor]:
    """The objective; imports torch, so it is called in a thread. LabError if it is not a formula."""
    if shown.u is not None and shown.v is not None:
        import torch

        from txlab.engine.descent.regression import LineData

        return LineData(*(torch.tensor(part, dtype=torch.float64) for part in (shown.u, shown.v)))
    from txlab.engine.descent.expressions import expression

    return expression(shown.f)


@dataclass(frozen=True, eq=False)
class Ground:
    """f in a camera's view: of one variable y at x, of two `values` (2 · rows, columns)."""

    key: tuple[object, ...]
    camera: Camera
    room: tuple[int, int]
    window: Window
    x: np.ndarray
    values: np.ndarray


def ground_of(shown: Shown, camera: Camera, room: tuple[int, int]) -> Ground:
    """Compute f in the camera's view; called in a thread."""
    import torch

    f, (rows, columns) = function_of(shown), room
    window = window_of(camera, rows, columns)
    if shown.one:
        x = np.linspace(camera.x - camera.across, camera.x + camera.across, 4 * columns)
        values = f(torch.from_numpy(x)[None]).numpy()
        return Ground(shown.key, camera, room, window, x, values)
    x, y = places(window, rows, columns)
    points = np.stack(np.meshgrid(x, y))
    return Ground(shown.key, camera, room, window, x, f(torch.from_numpy(points)).numpy())


def sheet_of(shown: Shown, ground: Ground, chosen: int, ascii: bool, legibility: Legibility = DESK) -> Sheet:
    """The drawing of a frame: the chosen method is on top, with its tangent."""
    rows, columns = ground.room
    order = sorted((each for each in shown.walkers if each.on), key=lambda each: each.number == chosen)
    if not shown.one:
        return contours(ground.window, ground.values, [path_of(each, each.path) for each in order], ascii, legibility)
    paths = [path_of(each, np.stack([each.path[:, 0], each.values], 1)) for each in order]
    graph = Graph(ground.x, ground.values)
    walker = shown.walkers[chosen]
    if walker.on and (tangent := walker.tangent) is not None:
        bent = walker.curvature if walker.rule == "newton-minimum" and np.isfinite(walker.curvature) else 0.0
        graph = Graph(ground.x, ground.values, (tangent.point[0], tangent.value), tangent.gradient[0], bent)
    starts = [float(path.points[0, 1]) for path in paths]
    low, high = heights(graph, [float(path.points[-1, 1]) for path in paths], starts)
    window = Window(ground.camera.x - ground.camera.across, ground.camera.x + ground.camera.across, low, high)
    return graph_sheet(window, graph, paths, rows, columns, ascii, legibility)


def path_of(walker: Walker, points: np.ndarray) -> Path:
    return Path(points, walker.letter, walker.ink, walker.title)


def curves_sheet(
    shown: Shown, chosen: int, room: tuple[int, int], ascii: bool, legibility: Legibility = DESK
) -> tuple[str, Sheet | None]:
    """f over the steps of each method, |f| for root finding; on a logarithmic axis if no value is negative. There the
    lowest row is reserved for zeros, which have a separate mark. None = nothing yet."""
    order = sorted((each for each in shown.walkers if each.on), key=lambda each: each.number == chosen)
    roots = [each.letter for each in order if each.rule == "newton-root"]
    drawn = [np.abs(each.values) if each.rule == "newton-root" else each.values for each in order]
    finite = np.concatenate([each[np.isfinite(each)] for each in drawn] or [np.empty(0)])
    title = "|f| after each step" if roots and len(roots) == len(order) else "f after each step"
    title += f", |f| of {', '.join(roots)}" if roots and len(roots) < len(order) else ""
    longest = max(map(len, drawn), default=0)
    if longest < 2 or not len(finite):
        return title, None
    low, high = float(finite.min()), float(finite.max())
    zero, log, mark = -np.inf, low >= 0 and high > 0, "v" if ascii else "▼"
    if log:
        least = float(finite[finite > 0].min())
        marked, low = low == 0 or least < high * SMALLEST_SHARE, max(least, high * SMALLEST_SHARE)
        low, high = apart(low, high, log)
        if marked:
            title += f"   {mark} 0" if least >= low else f"   {mark} below {compact(low)}"
            zero, low = low, max(low * (low / high) ** (1 / max(1, room[0] - 1)), 1e-300)
    else:
        low, high = apart(low, high, log)
    sheet = empty(Window(0, longest - 1, low, high, False, log), *room)
    paths = []
    for each, values in zip(order, drawn, strict=True):
        steps = np.arange(len(values))
        stamp(
            sheet, np.stack([steps, np.where(values < zero, np.nan, values)], 1), each.ink, each.letter.lower(), ascii,
            legibility=legibility,
        )  # fmt: skip
        for step in steps[values < zero].tolist():
            cell = sheet.cell_of(step, low)
            sheet.characters[cell], sheet.shows[cell] = mark, each.ink
        paths.append(path_of(each, np.stack([steps, np.maximum(values, low) if log else values], 1)))
    ends(sheet, paths, legibility)
    return title, sheet


def data_sheet(
    shown: Shown, chosen: int, room: tuple[int, int], ascii: bool, legibility: Legibility = DESK
) -> Sheet | None:
    """The data with the line of each method, the chosen one on top."""
    if shown.u is None or shown.v is None:
        return None
    (left, right), (low, high) = (apart(float(each.min()), float(each.max()), False) for each in (shown.u, shown.v))
    wide, tall = 0.06 * (right - left), 0.1 * (high - low)
    sheet = empty(Window(left - wide, right + wide, low - tall, high + tall), *room)
    across = np.array([sheet.window.left, sheet.window.right])
    order = sorted((each for each in shown.walkers if each.on), key=lambda each: each.number == chosen)
    paths = []
    for each in order:
        w, b = each.path[-1].tolist()
        line = np.stack([across, w * across + b], 1)
        stamp(sheet, line, each.ink, each.letter.lower(), ascii, legibility=legibility)
        paths.append(path_of(each, line))
    for u, v in zip(shown.u.tolist(), shown.v.tolist(), strict=True):
        cell = sheet.cell_of(u, v)
        sheet.characters[cell], sheet.shows[cell] = "o" if ascii else "●", Shows.POINT
    ends(sheet, paths, legibility)
    return sheet


def plane_sheet(
    shown: Shown, chosen: int, room: tuple[int, int], ascii: bool, legibility: Legibility = DESK
) -> tuple[str, Sheet | None]:
    """The tangent plane at the chosen method's point, and its normal. None where there is none, or it is level."""
    walker = shown.walkers[chosen]
    figure = walker.tangent.figure if walker.on and walker.tangent is not None else None
    if figure is None:
        return "the tangent plane", None
    return f"the tangent plane at {walker.letter}", tangent_sheet(figure, room, walker.ink, ascii, legibility)


def following(camera: Camera, home: Camera, shown: Shown, room: tuple[int, int]) -> Camera:
    """The camera, moved back to show all methods, except very distant ones."""
    near = []
    for walker in shown.walkers:
        x, y = (*walker.path[-1].tolist(), camera.y)[:2]
        if walker.on and abs(x - home.x) <= FAR * home.across and abs(y - home.y) <= FAR * home.up:
            near.append((x, y))
    for _ in range(MOST_BACK):
        window = window_of(camera, *room)
        wide = camera.across if shown.one else (window.right - window.left) / 2
        if all(abs(x - camera.x) <= wide and window.low <= y <= window.high for x, y in near):
            break
        camera = camera.zoom_at(1 / CLOSER, camera.x, camera.y)
    return camera


def value_at(ground: Ground, x: float, default: float) -> float:
    """f of one variable at x, between the values that were computed."""
    value = float(np.interp(x, ground.x, ground.values))
    return value if np.isfinite(value) else default


def camera_of(known: Known) -> Camera:
    return Camera(known.middle[0], known.middle[-1] if len(known.middle) > 1 else 0.0, known.half, known.half)


def camera_around(points: Sequence[np.ndarray], half: float = 2.5) -> Camera:
    """A camera that shows the origin and these points."""
    x = [0.0, *(float(point[0]) for point in points)]
    y = [0.0, *(float(point[1]) for point in points if len(point) > 1)]
    across, up = (max(half, 0.75 * (max(each) - min(each))) for each in (x, y))
    return Camera((min(x) + max(x)) / 2, (min(y) + max(y)) / 2, across, up)
