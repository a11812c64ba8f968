"""The group of a run's processes: its members, their communication between steps, and which of them is missing.

Notable: between two steps there is one all-reduce of a few numbers (0.7 ms on gloo): a signal that any process got, and
whether rank 0 has requests, so that all act at the same step. It continues while the run is paused, so that nothing
times out. In addition a thread of each process reports every second which meeting it has reached, and rank 0 reads
that: a collective that fails or never returns does not tell which process is missing; the thread does. It can also
write the end of a run whose main thread waits for a dead process.
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
from txlab.runs.ranks import RankInfo

POLL_EVERY = 0.05
BEAT_EVERY = 1.0
START_WITHIN = 1800.0  # seconds in which rank 0 has to resolve the scenario
WORD_WITHIN = 5.0  # seconds in which a failed process reports why
DEAD_AFTER = 10.0  # seconds without a sign of life, once the launcher has reported a failure
SIGNALS = ("", "SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1")  # by their code in a meeting


class ProcessGroup:
    """The group that this process belongs to; a process that does not finish a step in `timeout` seconds is missing."""

    def __init__(self, here: RankInfo, timeout: float | None = None) -> None:
        self.rank, self.count = here.rank, here.count
        self.store = self._connect(here, "told", START_WITHIN)
        if timeout is not None:
            self.store.set("timeout", str(timeout))
        self.timeout = float(self.store.get("timeout"))  # only rank 0 knows it
        self.store.set(f"process/{self.rank}", f"{socket.gethostname()} {os.getpid()}")
        patience = 1.1 * self.timeout + WORD_WITHIN  # so that rank 0's thread can say who is missing
        cuda = torch.cuda.is_available() and here.local_rank < torch.cuda.device_count()
        if cuda:
            torch.cuda.set_device(here.local_rank)
        dist.init_process_group(
            "cuda:nccl,cpu:gloo" if cuda else "gloo",
            timeout=timedelta(seconds=patience),
            store=self._connect(here, "group", patience),
            rank=here.rank,
            world_size=here.count,
        )
        self.sync_count = 0
        self.requests: list[Request] = []
        self.inbox: Inbox | None = None  # of rank 0
        self.due: Callable[[], bool] = lambda: False
        self.flushes = False  # whether rank 0's recorder asked to be flushed
        self._polled = 0.0
        self._known: dict[int, tuple[str, float]] = {}  # the last sign of life of each, and when it changed
        self._ended = threading.Event()
        self.on_missing: Callable[[str], None] = lambda reason: None  # rank 0: ends the run from the thread
        self.received_signal: Callable[[], str | None] = lambda: None  # whether the launcher has sent a signal
        self._thread = threading.Thread(target=self._watch, name="txlab ranks", daemon=True)
        self._thread.start()

    @staticmethod
    def _connect(here: RankInfo, purpose: str, patience: float) -> PrefixStore:
        """A connection to the launcher's store, which survives a restart: without a prefix of each start, gloo finds
        the addresses of dead processes (torch 2.13 has none). There is one connection per purpose, because a thread
        that waits for a key blocks its connection."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(address, port, is_master=False, timeout=timedelta(seconds=patience))
        return PrefixStore(f"txlab/{here.restarts}/{purpose}", store)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    # Between steps

    def synchronize(self, signal: str | None) -> str | None:
        """Return the signal that any process got, and set `requests` and `flushes` to rank 0's, in every process."""
        now = time.monotonic()
        if self.inbox is not None and now - self._polled >= POLL_EVERY:
            self._polled = now
            self.requests += self.inbox.take()
        numbers = torch.zeros(3, dtype=torch.float64)
        numbers[0] = SIGNALS.index(signal or "")
        if self.leads:
            numbers[1], numbers[2] = len(self.requests), float(self.due())
        self.sync_count += 1
        with self.explain_failures():
            dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
            if numbers[1]:
                self.requests = [Request(**row) for row in self.broadcast([asdict(each) for each in self.requests])]
        self.flushes = bool(numbers[2])
        return SIGNALS[int(numbers[0])] or None

    def take_requests(self) -> list[Request]:
        """Return the requests of the last synchronization, once."""
        requests, self.requests = self.requests, []
        return requests

    def broadcast(self, value: Any = None) -> Any:
        """Return rank 0's value in every process: anything that a checkpoint can hold."""
        names: list[tuple[str, str, tuple[int, ...]]] = []
        tree, tensors_found = take_apart(value) if self.leads else (None, {})
        tensors = {name: torch.as_tensor(tensor) for name, tensor in tensors_found.items()}
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

    def report_failure(self, reason: str) -> None:
        """Report to rank 0 why this process ends."""
        with contextlib.suppress(Exception):
            self.store.set(f"failed/{self.rank}", json.dumps([reason, is_echo(reason)]))

    @contextlib.contextmanager
    def explain_failures(self) -> Iterator[None]:
        """On rank 0, if an error is only an echo of another process's failure, raise RunFailed with that process's
        reason."""
        try:
            yield
        except Exception as error:
            if not self.leads or not is_echo(one_line(error)):
                raise
            reason = self._failure_reason(WORD_WITHIN) or f"another process is gone: {one_line(error)}"
            raise RunFailed(reason) from error

    def _failure_reason(self, within: float) -> str:
        """The reason that another process reported, else which one died without a report; "" if nothing is known."""
        end = time.monotonic() + within
        echo = ""
        while time.monotonic() < end:
            for rank in range(1, self.count):
                if (report := self._read_key(f"failed/{rank}")) is not None:
                    reason, is_an_echo = json.loads(report)
                    word = f"process {rank} of {self.count} failed: {reason}"
                    if not is_an_echo:
                        return word
                    echo = echo or word
                else:
                    host, _, pid = (self._read_key(f"process/{rank}") or "").rpartition(" ")
                    if host == socket.gethostname() and not process_is_alive(int(pid)):
                        return f"process {rank} of {self.count} died without a word (killed, or out of memory)"
            time.sleep(0.1)
        return echo

    def _read_key(self, key: str) -> str | None:
        with contextlib.suppress(Exception):
            if self.store.check([key]):
                return str(self.store.get(key).decode())
        return None

    def _watch(self) -> None:
        """The thread: a sign of life every second, and on rank 0 a check of the others'."""
        beats = 0
        while not self._ended.wait(BEAT_EVERY):
            beats += 1
            with contextlib.suppress(Exception):
                self.store.set(f"beat/{self.rank}", f"{beats} {self.sync_count}")
            if self.leads and (reason := self._missing()):
                self.on_missing(reason)

    def _missing(self) -> str:
        """Why the run cannot continue, in a sentence; "" if no process is missing."""
        now, reached = time.monotonic(), {0: self.sync_count}
        for rank in range(self.count):
            beat = f"0 {self.sync_count}" if rank == 0 else self._read_key(f"beat/{rank}")
            if beat is None:
                continue
            reached[rank] = int(beat.split()[1])
            for mark, key in ((beat, rank), (str(reached[rank]), -1 - rank)):  # a sign of life; progress
                if self._known.get(key, ("", 0.0))[0] != mark:
                    self._known[key] = (mark, now)
        silent = [rank for rank in range(1, self.count) if now - self._known.get(rank, ("", now))[1] > DEAD_AFTER]
        if silent and self.received_signal():
            return f"{list_ranks(silent)} of {self.count} died without a word"
        last = min(reached.values())
        slow = [rank for rank in reached if reached[rank] == last and now - self._known[-1 - rank][1] > self.timeout]
        if slow and self.sync_count:
            return (
                f"{list_ranks(slow)} of {self.count} did not finish a step within compute.timeout = {self.timeout:g} s"
            )
        return ""

    def stop_watching(self) -> None:
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def leave(self) -> None:
        """All leave together, after every user of the group has been freed: otherwise gloo may abort."""
        self.stop_watching()
        dist.barrier()
        dist.destroy_process_group()


def is_echo(reason: str) -> bool:
    """Whether an error means only that another process is gone.

    >>> is_echo("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:38131")
    True
    """
    return any(word in reason for word in ("gloo/", "Connection closed", "Connection reset", "NCCL", "Broken pipe"))


def list_ranks(ranks: list[int]) -> str:
    """
    >>> list_ranks([1]), list_ranks([1, 3])
    ('process 1', 'processes 1, 3')
    """
    return f"process{'es' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
