"""The processes of a run as one: who they are, what they tell each other between steps, and which of them is missing.

Notable: between two steps there is one all-reduce of a few numbers (0.7 ms on gloo): a signal that any process got, and
whether rank 0 has requests, so that all act at the same step. It goes on while the run is paused, so that nothing times
out. Beside it a thread of each process says every second which meeting it has reached, and rank 0 reads that: a
collective that fails, or never returns, does not say who is missing, and the thread does. It can also write the end of
a run whose main thread waits for a process that is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # documented, and not in its __all__

from txlab.errors import RunFailed, one_line
from txlab.runs.checkpoints import put_together, take_apart
from txlab.runs.control import Inbox, Request
from txlab.runs.directory import process_is_alive
from txlab.runs.ranks import Place

POLL_EVERY = 0.05
BEAT_EVERY = 1.0
START_WITHIN = 1800.0  # seconds in which rank 0 has to find out what is to be computed
WORD_WITHIN = 5.0  # seconds in which a process that failed says why
DEAD_AFTER = 10.0  # seconds without a sign of life, once the launcher has said that something is wrong
SIGNALS = ("", "SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1")  # by their place in the numbers of a meeting


class Ranks:
    """The group that this process belongs to; a process that does not finish a step in `timeout` seconds is missing."""

    def __init__(self, here: Place, timeout: float | None = None) -> None:
        self.rank, self.count = here.rank, here.count
        self.store = self._connected(here, "told", START_WITHIN)
        if timeout is not None:
            self.store.set("timeout", str(timeout))
        self.timeout = float(self.store.get("timeout"))  # only rank 0 knows it
        self.store.set(f"process/{self.rank}", f"{socket.gethostname()} {os.getpid()}")
        patience = 1.1 * self.timeout + WORD_WITHIN  # so that rank 0's thread can say who is missing
        cuda = torch.cuda.is_available() and here.local < torch.cuda.device_count()
        if cuda:
            torch.cuda.set_device(here.local)
        dist.init_process_group(
            "cuda:nccl,cpu:gloo" if cuda else "gloo",
            timeout=timedelta(seconds=patience),
            store=self._connected(here, "group", patience),
            rank=here.rank,
            world_size=here.count,
        )
        self.meetings = 0
        self.requests: list[Request] = []
        self.inbox: Inbox | None = None  # of rank 0
        self.due: Callable[[], bool] = lambda: False
        self.flushes = False  # whether rank 0's recorder asked to be flushed
        self._polled = 0.0
        self._known: dict[int, tuple[str, float]] = {}  # the last sign of life of each, and when it was new
        self._ended = threading.Event()
        self.missed: Callable[[str], None] = lambda reason: None  # rank 0: ends the run from the thread
        self.alarmed: Callable[[], str | None] = lambda: None  # whether the launcher has sent a signal
        self._thread = threading.Thread(target=self._watch, name="txlab ranks", daemon=True)
        self._thread.start()

    @staticmethod
    def _connected(here: Place, purpose: str, patience: float) -> PrefixStore:
        """A connection to the launcher's store, which survives a restart: without a prefix of each start, gloo finds
        the addresses of processes that are gone (torch 2.13 has none). It is one connection for each purpose, because
        a thread that waits for a key keeps its connection from others."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(address, port, is_master=False, timeout=timedelta(seconds=patience))
        return PrefixStore(f"txlab/{here.restarts}/{purpose}", store)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    # Between steps

    def meet(self, signal: str | None) -> str | None:
        """Meet all others: returns the signal that any of them got; `requests` and `flushes` are then rank 0's."""
        now = time.monotonic()
        if self.inbox is not None and now - self._polled >= POLL_EVERY:
            self._polled = now
            self.requests += self.inbox.take()
        numbers = torch.zeros(3, dtype=torch.float64)
        numbers[0] = SIGNALS.index(signal or "")
        if self.leads:
            numbers[1], numbers[2] = len(self.requests), float(self.due())
        self.meetings += 1
        with self.explaining():
            dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
            if numbers[1]:
                self.requests = [Request(**row) for row in self.told([asdict(each) for each in self.requests])]
        self.flushes = bool(numbers[2])
        return SIGNALS[int(numbers[0])] or None

    def taken(self) -> list[Request]:
        """The requests of the last meeting, once."""
        requests, self.requests = self.requests, []
        return requests

    def told(self, value: Any = None) -> Any:
        """Rank 0's value, in every process: anything that a checkpoint can hold."""
        names: list[tuple[str, str, tuple[int, ...]]] = []
        tree, found = take_apart(value) if self.leads else (None, {})
        tensors = {name: torch.as_tensor(tensor) for name, tensor in found.items()}
        if self.leads:
            names = [
                (name, str(each.dtype).removeprefix("torch."), tuple(each.shape)) for name, each in tensors.items()
            ]
        data = json.dumps([tree, names]).encode() if self.leads else b""
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0)
        text = torch.empty(int(size), dtype=torch.uint8)
        if self.leads:
            text = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        dist.broadcast(text, 0)
        tree, names = json.loads(text.numpy().tobytes())
        for name, dtype, shape in names:
            if not self.leads:
                tensors[name] = torch.empty(shape, dtype=getattr(torch, dtype))
            if tensors[name].numel():
                dist.broadcast(tensors[name].reshape(-1).view(torch.uint8), 0)
        return put_together(tree, dict(tensors))

    # Who is missing

    def fails(self, reason: str) -> None:
        """Tell rank 0 why this process ends."""
        with contextlib.suppress(Exception):
            self.store.set(f"failed/{self.rank}", json.dumps([reason, is_echo(reason)]))

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """On rank 0, raise RunFailed with the reason of the process that failed for an error that is only an echo."""
        try:
            yield
        except Exception as error:
            if not self.leads or not is_echo(one_line(error)):
                raise
            reason = self._word(WORD_WITHIN) or f"another process is gone: {one_line(error)}"
            raise RunFailed(reason) from error

    def _word(self, within: float) -> str:
        """The reason that another process gave, else which one has gone without a word; "" if nothing is known."""
        end = time.monotonic() + within
        echo = ""
        while time.monotonic() < end:
            for rank in range(1, self.count):
                if (said := self._said(f"failed/{rank}")) is not None:
                    reason, is_an_echo = json.loads(said)
                    word = f"process {rank} of {self.count} failed: {reason}"
                    if not is_an_echo:
                        return word
                    echo = echo or word
                else:
                    host, _, pid = (self._said(f"process/{rank}") or "").rpartition(" ")
                    if host == socket.gethostname() and not process_is_alive(int(pid)):
                        return f"process {rank} of {self.count} died without a word (killed, or out of memory)"
            time.sleep(0.1)
        return echo

    def _said(self, key: str) -> str | None:
        with contextlib.suppress(Exception):
            if self.store.check([key]):
                return str(self.store.get(key).decode())
        return None

    def _watch(self) -> None:
        """The thread: a sign of life every second, and on rank 0 a look at those of the others."""
        beats = 0
        while not self._ended.wait(BEAT_EVERY):
            beats += 1
            with contextlib.suppress(Exception):
                self.store.set(f"beat/{self.rank}", f"{beats} {self.meetings}")
            if self.leads and (reason := self._missing()):
                self.missed(reason)

    def _missing(self) -> str:
        """Why the run cannot go on, in a sentence; "" if nobody is missing."""
        now, reached = time.monotonic(), {0: self.meetings}
        for rank in range(self.count):
            beat = f"0 {self.meetings}" if rank == 0 else self._said(f"beat/{rank}")
            if beat is None:
                continue
            reached[rank] = int(beat.split()[1])
            for mark, key in ((beat, rank), (str(reached[rank]), -1 - rank)):  # a sign of life; progress
                if self._known.get(key, ("", 0.0))[0] != mark:
                    self._known[key] = (mark, now)
        silent = [rank for rank in range(1, self.count) if now - self._known.get(rank, ("", now))[1] > DEAD_AFTER]
        if silent and self.alarmed():
            return f"{listed(silent)} of {self.count} died without a word"
        last = min(reached.values())
        slow = [rank for rank in reached if reached[rank] == last and now - self._known[-1 - rank][1] > self.timeout]
        if slow and self.meetings:
            return f"{listed(slow)} of {self.count} did not finish a step within compute.timeout = {self.timeout:g} s"
        return ""

    def stop_watching(self) -> None:
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def leave(self) -> None:
        """All leave together. What the group was used by has been freed: gloo may abort otherwise."""
        self.stop_watching()
        dist.barrier()
        dist.destroy_process_group()


def is_echo(reason: str) -> bool:
    """Whether an error says only that another process is gone.

    >>> is_echo("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:38131")
    True
    """
    return any(word in reason for word in ("gloo/", "Connection closed", "Connection reset", "NCCL", "Broken pipe"))


def listed(ranks: list[int]) -> str:
    """
    >>> listed([1]), listed([1, 3])
    ('process 1', 'processes 1, 3')
    """
    return f"process{'es' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
