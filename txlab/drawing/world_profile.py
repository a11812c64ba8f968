"""A world of one long row as bars: the gambler's hundred capitals at one look."""

from __future__ import annotations

from txlab.drawing.world import ASCII_BARS, BARS, Canvas, states_of
from txlab.drawing.world_scene import Scene, View
from txlab.drawing.world_signs import actions_sign
from txlab.engine.rl.world import World


def profile(world: World, scene: Scene, view: View, rows: int) -> Canvas:
    """A world of one long row: its values as bars, so that a hundred states are seen at once (the gambler's)."""
    first, columns = view.first[1], view.cells[1]
    canvas = Canvas(columns * view.size.wide, rows)
    states = {column: state for (_, column), state in states_of(world, view.layer).items()}
    share = view.scale.share(scene.value)
    levels = view.ramp.level(share).tolist()
    zero = 0.5 if view.scale.signed else 0.0
    bars = ASCII_BARS if view.ascii else BARS
    for column in range(columns):
        state = states.get(first + column)
        if state is None or world.process.terminal[state]:
            continue
        height = float(share[state]) if share[state] == share[state] else zero
        eighths = max(1, round(height * 8 * (rows - 1)))
        for row in range(rows - 1):
            part = min(8, eighths - 8 * row)
            if part <= 0:
                break
            for x in range(column * view.size.wide, (column + 1) * view.size.wide):
                canvas.text[rows - 2 - row][x] = bars[part - 1]
                canvas.role[rows - 2 - row][x] = "trace" if state == scene.updated else "bar"
                canvas.level[rows - 2 - row][x] = levels[state]
        sign = ("@" if view.ascii else "◉") if state == scene.agent else ""
        best = scene.best(state, world.process.actions)
        words = sign or actions_sign([world.process.actions[a] for a in best[:1]], view.size.wide, view.ascii)
        canvas.write(column * view.size.wide, rows - 1, words[: view.size.wide], "agent" if sign else "strong")
    return canvas
