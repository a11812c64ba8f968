"""What one does to runs from the Lab: start, resume, stop, delete; each in a thread, each told in a line.

Notable: a run is a process of its own, started by the same code as `txlab run --detach`; leaving the console ends none.
"""

from __future__ import annotations

from pathlib import Path

from textual.binding import Binding

from txlab.tui.deletion import delete_run
from txlab.tui.formatting import STATES
from txlab.tui.run_summary import ENDED, GOING, Glance
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.lab.rows import Rows
from txlab.tui.widgets.page import Page

CAN_GO_ON = ("paused", "lost", "failed", "stopped", "interrupted")


class RunsActions(BenchScreen):
    """A screen with a selected run; it looks at the runs again after each action."""

    await_run = ""
    """The run that was started last, to be selected as soon as the list has it."""

    def selected_run(self) -> Glance | None:
        raise NotImplementedError

    def look_at_runs(self, seen: set[str], force: bool = False) -> None:
        """In a thread: look again at the runs named in `seen`, and at which ones there are."""
        raise NotImplementedError

    def side(self) -> str:
        """Which list the keys work on: "catalogue" or "runs"."""
        raise NotImplementedError

    def word_for(self, binding: Binding) -> str:
        """The keys at the bottom are those that do something to what is selected."""
        name = binding.id or ""
        if name == "lab.scroll":
            return binding.description if self.query_one("#details", Page).overflows else ""
        if self.side() != "runs":
            return binding.description
        run = self.selected_run()
        status = run.status if run else ""
        ours = run is not None and not run.recorded
        useful = {
            "lab.attach": False,  # enter does it
            "lab.resume": ours and status in CAN_GO_ON,
            "lab.stop": ours and status in GOING,
            "lab.delete": status in (*ENDED, "lost"),
        }
        if not useful.get(name, True):
            return ""
        return {"lab.start": "open", "lab.other": "catalogue"}.get(name, binding.description)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Runs can be stopped and deleted on their side, scenarios changed on theirs."""
        if action not in ("resume", "stop", "delete", "attach", "change", "start") or not self.is_attached:
            return True
        if not self.query("#runs"):
            return True
        runs = self.side() == "runs"
        if action in ("change", "start"):
            return bool(not runs or action == "start")
        if self.query_one("#runs", Rows).key is None:
            return False
        run = self.selected_run()
        if runs and action in ("resume", "stop") and run is not None and run.recorded:
            return False  # another program's loop takes no requests
        return bool(runs or action == "attach")

    def begin(self, name: str, overrides: list[str]) -> None:
        self.tell(f"{name}: {STATES['created']}")
        root = self.app.root  # type: ignore[attr-defined]
        self.run_worker(lambda: self.start_run(name, overrides, root), thread=True, group="start", exit_on_error=False)

    def start_run(self, name: str, overrides: list[str], root: Path) -> None:
        from txlab.runs.process import prepare, start_detached
        from txlab.runs.scenario import load_scenario

        path = prepare(load_scenario(name, overrides), root=root)
        self.await_run = str(path)
        self.look_at_runs({path.name}, force=True)
        start_detached(path)
        self.app.call_from_thread(self.tell, f"{name} runs on its own now; tab, enter opens it")

    def action_resume(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        if run.status in ("running", "created"):
            self.tell(f"{run.name} is {STATES[run.status]}")
            return
        if run.status == "paused":
            self.request(run, "resume")
            return
        self.tell(f"{run.name}: {STATES['created']}")
        self.run_worker(lambda: self.resume_run(run.path), thread=True, group="start", exit_on_error=False)

    def resume_run(self, path: Path) -> None:
        from txlab.runs.process import start_detached

        start_detached(path)
        self.look_at_runs({path.name}, force=True)

    def action_stop(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        if not run.going:
            self.tell(f"{run.name} is not running ({STATES.get(run.status, run.status)})")
            return
        from txlab.tui.screens.dialogs import Confirm

        self.app.push_screen(
            Confirm(f"Stop {run.name}?", "It saves a checkpoint first and can be resumed.", "stop"),
            lambda sure: self.request(run, "stop") if sure else None,
        )

    def request(self, run: Glance, what: str) -> None:
        def leave() -> None:
            from txlab.runs.control import Request, send

            send(run.path, Request(what))

        self.run_worker(leave, thread=True, group="ask", exit_on_error=False)

    def action_delete(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        from txlab.tui.screens.dialogs import Confirm

        if run.status not in (*ENDED, "lost"):
            self.tell(f"{run.name} is {STATES.get(run.status, run.status)}: stop it first (x)", "warning")
            return
        self.app.push_screen(
            Confirm(f"Delete {run.name}?", f"{run.path} with its curves, frames and checkpoints, for ever.", "delete"),
            lambda sure: self.delete(run.path) if sure else None,
        )

    def delete(self, path: Path) -> None:
        root = self.app.root  # type: ignore[attr-defined]

        def remove() -> None:
            delete_run(path, root)
            self.app.call_from_thread(self.tell, f"{path.name} is deleted")
            self.look_at_runs(set(), force=True)

        if self.app.current_run == path.absolute():  # type: ignore[attr-defined]
            self.app.current_run = None  # type: ignore[attr-defined]
        self.run_worker(remove, thread=True, group="delete", exit_on_error=False)
