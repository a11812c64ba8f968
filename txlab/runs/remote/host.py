"""Another machine with a folder of runs: one thread that maintains the connection, its list of runs, and the mirrors.

Notable: large files are fetched in pieces, one at a time, whose size adapts to the connection, so that a new row never
waits long: at 50 kB/s and 200 ms a piece settles at about 4 kB. A lost connection is retried after 1, 2, 4 … 30 s, and
everything continues where it was; a slow connection is kept as long as anything arrives.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from txlab.errors import LabError, convert_os_errors
from txlab.files import atomic_write, read_regular
from txlab.runs.events import json_object
from txlab.runs.remote.address import Address
from txlab.runs.remote.coarse import LARGEST as LARGEST_COARSE
from txlab.runs.remote.coarse import LARGEST_EXACT
from txlab.runs.remote.line import NONSENSE, Line, LineLost, Message, box, parse_json
from txlab.runs.remote.mirror import AT_ONCE, RunMirror, mark_of
from txlab.runs.remote.state import OF_LIST, RemoteState, mark_gone

if TYPE_CHECKING:
    from txlab.runs.remote.reading import Kept

Then = Callable[[dict[str, Any], bytes], None]

TICK = 0.05  # seconds between checks for local requests to the runs
BEAT = 10.0  # seconds between messages to the other side
DELIVERS_WITHIN = 3.0  # seconds after the end of a command
DEAD = 45.0  # seconds without a single byte after which the connection is given up
BACK_OFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
LISTED_EVERY = 4.0  # seconds between two lists while they are shown
MACHINE_EVERY, MACHINE_FOR = 2.0, 10.0  # seconds between two readings of the machine; how long they are continued
SMALLEST, LARGEST = 2 << 10, 256 << 10  # bytes of a piece
# Seconds that a piece may take beyond the round trip: with live rows, when exact digits are awaited, and alone.
QUICK, ASKED, PATIENT = 0.12, 0.5, 1.0
NAME = re.compile(r"(?=[^.])[^/\0]{1,255}")
LISTING = ".listing.json"
MOST_LISTED, MOST_NAMES = 5000, 100_000
# Bytes of a whole list, and of one file in it; a run has about 5 kB there.
LARGEST_LIST, LARGEST_LISTED, LARGEST_MARKS = 256 << 20, 1 << 20, 8 << 20
LARGEST_ROWS = 256 << 10  # bytes of the rows of a listed run that are kept
MOST_MIRRORS = 20_000  # in a folder
# Small unsolicited messages accepted in one burst, and per second for each followed run: a reader sends at most 100,
# and a heartbeat every two seconds.
MOST_NEWS, NEWS_A_SECOND = 1_000, 100
MOST_KEYS = 16  # of a message
CUT_SHORT = "it was cut short"


class Host:
    """A connection to `address.host`, maintained by a daemon thread from `start` on. Public methods may be called from
    any thread.

    line     "connecting", "connected", "lost" or "closed"      why  the error when the connection was lost
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.folder: Path = address.mirrors
        self.root = ""  # on the other side, once it is known
        self.run_named = ""  # the run that the path of the address is, if it is one
        self.names: list[str] = []
        self.named_at = float("-inf")  # when these were the names
        self.line, self.why = "connecting", ""
        self.seen = self.retry = 0.0
        self.offset = 0.0  # seconds by which this clock is ahead of the other, from the message with the least delay
        self.looked_at = 0.0  # when the list was last requested
        self.machine_wanted = float("-inf")  # when a reading of the machine was last requested
        self.machine: Kept | None = None
        self.machine_trouble = ""  # why it cannot be read
        self.listed = threading.Event()  # once a list has been mirrored
        self.listed_at = float("-inf")
        self.connected = threading.Event()
        self.failed = threading.Event()  # once the first attempt has ended without a connection
        self.mirrors: dict[str, RunMirror] = {}
        self.elsewhere: set[str] = set()  # runs whose mirrors another process keeps
        self.gone: set[str] | None = None  # mirrors of runs that are no longer there; None before any list
        self.trouble: dict[str, str] = {}  # why a run cannot be followed
        self.no_frame: dict[tuple[str, int], str] = {}  # why a frame cannot be fetched with all its digits
        self.patient = False  # whether whole logs are awaited, so that pieces may be large
        self.received = 0  # bytes, over all connections
        self._wanted: set[str] = set()  # runs to be mirrored
        self._exact: list[tuple[str, int]] = []  # frames to be fetched with all their digits
        self._requests: list[tuple[dict[str, Any], Future[Message]]] = []  # of other threads, to be sent
        self._awaited: set[Future[Message]] = set()  # their answers
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._line: Line | None = None
        self._thread = threading.Thread(target=self._keep, name=f"connection to {address.host}", daemon=True)

    def start(self) -> Host:
        self._thread.start()
        return self

    def close(self) -> None:
        """Close the connection, and release the mirrors."""
        self._closing = True
        self._wake.set()
        self._thread.join(DELIVERS_WITHIN + 2.0)

    # Called from other threads

    def want_list(self) -> None:
        """Keep the list of runs fresh for a few seconds."""
        self.looked_at = time.monotonic()

    def want_machine(self) -> None:
        """Keep a reading of the machine fresh for a few seconds; the machine needs no folder of runs for it."""
        self.machine_wanted = time.monotonic()

    def want(self, run: str) -> None:
        """Mirror a run from now on. Raises LabError for an impossible name."""
        if not is_name(run):
            raise LabError(f"{run[:80]!r} is not the name of a run on {self.address.host}")
        with self._lock:
            self._wanted.add(run)

    def want_exact(self, run: str, step: int) -> None:
        """Fetch a frame with all its digits."""
        self.want(run)
        with self._lock:
            if (run, step) not in self._exact:
                self._exact.append((run, step))

    def request(self, request: dict[str, Any]) -> Future[Message]:
        """The answer to a request; LineLost if the connection ends first."""
        answer: Future[Message] = Future()
        with self._lock:
            self._requests.append((request, answer))
        return answer

    def try_now(self) -> None:
        """Do not wait for the next attempt to connect."""
        self._wake.set()

    # The thread

    def _keep(self) -> None:
        attempt = 0
        while not self._closing:
            self._say("connecting")
            began = time.monotonic()
            try:
                self._line = Line(self.address.host)
                self._serve(self._line)
            except LabError as error:
                self.why = str(error)
            except OSError as error:
                self.why = f"the mirror {self.folder} cannot be written: {error.strerror}"
            except Exception as error:  # a bug: waiting threads must not wait for ever
                self.why, self._closing = f"the mirror has met a bug: {type(error).__name__}: {error}", True
                self.failed.set()
                raise
            finally:
                if self._line is not None:
                    self.received += self._line.received
                    self._line.close()
                self._line = None
                self.connected.clear()
                self._fail_requests()
            for mirror in self.mirrors.values():
                mirror.line_lost()
            if self._closing:
                break
            attempt = 0 if time.monotonic() - began > 20.0 else attempt + 1
            pause = BACK_OFF[min(max(0, attempt - 1), len(BACK_OFF) - 1)]
            self.retry = time.time() + pause
            self._say("lost")
            self.failed.set()
            self._wake.wait(pause)
            self._wake.clear()
        for mirror in self.mirrors.values():
            mirror.close(self.why)
        self.line = "closed"

    def take_requests(self) -> list[tuple[dict[str, Any], Future[Message]]]:
        """The requests of other threads since the last call."""
        with self._lock:
            requests, self._requests = self._requests, []
        self._awaited = {answer for answer in self._awaited if not answer.done()} | {answer for _, answer in requests}
        return requests

    def _fail_requests(self) -> None:
        self.take_requests()
        for answer in self._awaited:
            if not answer.done():
                answer.set_exception(LineLost(self.why or f"the connection to {self.address.host} is closed"))

    def _say(self, line: str) -> None:
        self.line = line
        self.keep_line()
        for mirror in self.mirrors.values():
            mirror.say(line=line, why=self.why, seen=self.seen, retry=self.retry, offset=self.offset)

    def mirror(self, run: str) -> RunMirror | None:
        """A new mirror of a run; None if another process keeps it."""
        state = RemoteState(self.address.host, self.root, run, "connected", seen=self.seen, offset=self.offset)
        with suppress(BlockingIOError):
            return RunMirror(self.folder, state)
        return None

    def tell_gone(self) -> None:
        """Mark each mirror whose run is missing from a complete list of runs as gone, or as back."""
        with suppress(OSError):
            here = {path.name for path in self.folder.iterdir() if is_name(path.name)}
            gone = here.difference(self.names)
            for name in here if self.gone is None else gone ^ self.gone:
                mark_gone(self.folder / name, name in gone)
            self.gone = gone

    def keep_line(self) -> None:
        """Record with the listed runs whether the list is fresh."""
        listing = self.listed.is_set() and time.monotonic() - self.looked_at < 2 * LISTED_EVERY
        if self.folder.is_dir() and (listing or self.line != "connected"):
            state = RemoteState(
                self.address.host, self.root, "", self.line, self.why, self.seen, time.time(), self.retry
            )
            with suppress(OSError):
                atomic_write(self.folder / OF_LIST, state.to_json())

    def _serve(self, line: Line) -> None:
        """Talk over a connection until it is lost, which raises LineLost, or the host is closed."""
        talk = Conversation(self, line)
        talk.ask({"do": "root", "path": self.address.path}, talk.root_known)
        ends = float("inf")
        while time.monotonic() < ends and not (self._closing and talk.delivered):
            if self._closing and ends == float("inf"):  # recent requests are still passed on
                ends = time.monotonic() + DELIVERS_WITHIN
                talk.tick()
            messages = line.wait(TICK)
            talk.limit_news(messages)
            for head, body in messages:
                talk.hear(head, body)
            if not line.started:
                continue
            if time.monotonic() - line.heard > DEAD:
                raise LineLost(f"{self.address.host} has been silent for {DEAD:.0f} s")
            talk.tick()


class Conversation:
    """The requests and answers over one connection."""

    def __init__(self, host: Host, line: Line) -> None:
        self.host, self.line = host, line
        self.waiting: dict[int, Then] = {}
        self.number = 0
        self.ready = False
        self.beaten = self.listed = 0.0
        self.listing = False
        self.followed: set[str] = set()
        self.fetching = False
        self.turn = 0
        self.piece, self.round_trip = 8 << 10, float("inf")
        self.nexts: set[str] = set()  # runs of which the next frame has been asked for
        self.least = float("inf")
        self.began, self.news = time.monotonic(), 0
        self.came = self.batches = 0  # bytes and messages of the list being received
        self.reading, self.read_at, self.kept_at = False, float("-inf"), float("-inf")

    def ask(self, request: dict[str, Any], then: Then, body: bytes = b"") -> int:
        self.number += 1
        self.waiting[self.number] = then
        self.line.send({**request, "id": self.number}, body)
        return self.number

    def limit_news(self, messages: list[Message]) -> None:
        """Refuse a flood of unsolicited messages before the first is processed. Raises LineLost."""
        self.news += sum(len(body) < SMALLEST and head.get("id") not in self.waiting for head, body in messages)
        took = time.monotonic() - self.began
        if self.news > MOST_NEWS + NEWS_A_SECOND * (1 + len(self.followed)) * took:
            raise self.line.nonsense(f"{self.news} messages in {took:.0f} s have no end")

    def hear(self, head: dict[str, Any], body: bytes) -> None:
        """Process a message. Raises LineLost for one that makes no sense."""
        try:
            self._hear(head, body)
        except NONSENSE as error:
            raise self.line.nonsense(
                f"a message of it makes no sense ({type(error).__name__}: {error})"[:400]
            ) from error

    def _hear(self, head: dict[str, Any], body: bytes) -> None:
        host = self.host
        now, theirs = time.time(), head.get("now")
        host.seen = now
        if isinstance(theirs, float | int) and now - theirs < self.least:
            self.least = now - theirs  # a message takes time, so the least difference is nearest to the truth
            host.offset = self.least - (self.round_trip / 2 if self.round_trip < 5 else 0.0)
        number, run = head.get("id"), head.get("run", head.get("gone"))
        if len(head) > MOST_KEYS:
            raise ValueError("it has too many keys")
        if isinstance(number, int) and number in self.waiting:
            if head.get("more") is True and self.listing:
                self.waiting[number](head, body)
            else:
                self.waiting.pop(number)(head, body)
            return
        if isinstance(run, str) and run in self.followed:
            if "gone" in head:
                self.followed.discard(run)
                host.trouble[run] = f"{run} is gone from {host.address.host}: {str(head.get('error'))[:200]}"
            else:
                host.mirrors[run].take(head, body, host.offset)
        elif "beat" not in head or len(head) > 2:
            raise ValueError("it was not asked for")

    def root_known(self, head: dict[str, Any], body: bytes) -> None:
        host = self.host
        if "error" in head:
            where = host.address.path or "$TXLAB_RUNS or ~/runs"
            why = f"{host.address.host} has no folder of runs: {where}: {str(head['error'])[:200]}"
            now = time.monotonic()
            if now - host.machine_wanted > MACHINE_FOR or now - host.looked_at < LISTED_EVERY or host._wanted:
                raise LineLost(why)
            host.failed.set()
            host._say("connected")
            host.why = why
            return
        names, run = head.get("names"), head.get("run")
        if not isinstance(names, list) or not isinstance(head.get("root"), str) or len(names) > MOST_NAMES:
            raise self.line.nonsense("it does not say where its runs are")
        host.names = [name for name in names if isinstance(name, str) and is_name(name)]
        host.named_at = time.monotonic()
        host.root = head["root"][:4096]
        host.run_named = run if isinstance(run, str) and is_name(run) else ""
        host.why, self.ready = "", True
        for mirror in host.mirrors.values():
            mirror.line_stands()
        host._say("connected")
        host.connected.set()

    @property
    def delivered(self) -> bool:
        """Whether all local requests to the runs have been passed on."""
        return not self.ready or not any(self.host.mirrors[run].undelivered for run in self.followed)

    def take_answer(self, done: Callable[[str], None], head: dict[str, Any]) -> None:
        """Process the answer to a local request."""
        done(str(head["error"]) or "it does not say why" if "error" in head else "")

    # Due requests

    def tick(self) -> None:
        host, now = self.host, time.monotonic()
        if now - self.beaten > BEAT:
            self.beaten = now
            self.ask({"do": "beat"}, lambda head, body: self.time_answer(now))
        if now - host.machine_wanted < MACHINE_FOR and not self.reading and now - self.read_at > MACHINE_EVERY:
            first = self.read_at == float("-inf")
            self.reading, self.read_at = True, now
            self.ask({"do": "box"}, self.take_machine, box() if first else b"")
        if not self.ready:
            if host.line == "connected" and (host._wanted or now - host.looked_at < LISTED_EVERY):
                raise LineLost(host.why)
            return
        self.follow_wanted()
        for request, answer in host.take_requests():
            self.ask(request, lambda head, body, answer=answer: answer.set_result((head, body)))  # type: ignore[misc]
        if not self.listing and now - host.looked_at < LISTED_EVERY and now - self.listed > LISTED_EVERY:
            self.list_runs()
        for run in self.followed:
            mirror = host.mirrors[run]
            mirror.refresh(host.seen, host.offset)
            for request, body, done in mirror.outgoing():
                self.ask({"do": "put", **request}, lambda head, _, done=done: self.take_answer(done, head), body)  # type: ignore[misc]
        if not self.fetching:
            self.fetch()
        self.ask_for_next()

    def time_answer(self, sent: float) -> None:
        self.round_trip = min(self.round_trip, time.monotonic() - sent)

    def take_machine(self, head: dict[str, Any], body: bytes) -> None:
        """Check and keep a reading of the machine. Raises ValueError for one that makes no sense."""
        from txlab.runs.remote import reading as readings  # pydantic takes 0.1 s to import

        self.reading = False
        self.host.machine_trouble = str(head.get("error") or head.get("failed") or "")[:200]
        if "error" in head or body == b"{}":
            return
        if len(body) > readings.LARGEST:
            raise ValueError(f"a reading of the machine has {len(body)} bytes")
        reading = readings.Reading.model_validate(parse_json(body))
        age = max(0.0, float(head["now"]) - reading.time)  # both by the other clock
        self.host.machine = readings.Kept(seen=time.time() - min(age, 1e6), reading=reading)
        if time.monotonic() - self.kept_at > readings.KEEP_EVERY:
            self.kept_at = time.monotonic()
            readings.keep(self.host.folder, self.host.machine)

    def follow_wanted(self) -> None:
        host = self.host
        with host._lock:
            wanted = [run for run in sorted(host._wanted) if run not in self.followed and run not in host.trouble]
        for run in wanted:
            if run not in host.mirrors:
                if (made := host.mirror(run)) is None:
                    host.elsewhere.add(run)
                    continue
                host.mirrors[run] = made
                host.elsewhere.discard(run)
                host.mirrors[run].say()
            mirror = host.mirrors[run]
            mirror.line_stands()
            self.followed.add(run)
            self.nexts.discard(run)

            def take_reply(head: dict[str, Any], body: bytes, run: str = run) -> None:
                if "error" in head:
                    self.followed.discard(run)
                    host.trouble[run] = f"{run} cannot be read on {host.address.host}: {str(head['error'])[:200]}"

            self.ask({"do": "follow", **mirror.request()}, take_reply)

    # The list of runs

    def list_runs(self) -> None:
        self.listing, self.came, self.batches = True, 0, 0
        known = read_marks(self.host.folder)
        wanted: set[str] = set()  # what has not come yet

        def take_names(head: dict[str, Any], body: bytes) -> None:
            self.root_known(head, body)
            if self.host.run_named:  # else the runs next to it would be listed
                path, where = self.host.address.path.rstrip("/"), self.host.address.host
                folder = path.rpartition("/")[0] or "/"
                raise LineLost(f"{path} on {where} is not a folder of runs; the one around it is {where}:{folder}")
            names = self.host.names[:MOST_LISTED]
            wanted.update(names)
            with suppress(FileNotFoundError):
                if sum(1 for _ in self.host.folder.iterdir()) + len(wanted.difference(known)) > MOST_MIRRORS:
                    raise LineLost(f"{self.host.folder} has mirrors of too many runs: delete what you need no more")
            here = {name: known[name] for name in names if name in known and (self.host.folder / name).is_dir()}
            self.ask({"do": "list", "names": names, "known": here}, take_runs)

        def take_runs(head: dict[str, Any], body: bytes) -> None:
            if "error" in head:
                raise LineLost(f"{self.host.address.host} cannot list its runs: {str(head['error'])[:200]}")
            self.came, self.batches = self.came + len(body), self.batches + 1
            if self.came > LARGEST_LIST or self.batches > MOST_LISTED:
                raise LineLost(f"{self.host.address.host} lists runs without end")
            keep_listing(self.host, head.get("runs"), body, known, wanted)
            if head.get("more") is not True:
                keep_marks(self.host, known)
                self.listing, self.listed = False, time.monotonic()
                self.host.tell_gone()
                self.host.listed_at = self.listed
                self.host.listed.set()
                self.host.keep_line()

        self.ask({"do": "root", "path": self.host.address.path}, take_names)

    # Large things, a piece at a time

    def fetch(self) -> None:
        """Request the next piece with the highest priority."""
        host = self.host
        with host._lock:
            exact = next(((run, step) for run, step in host._exact if run in self.followed), None)
        if exact is not None:
            self.fetch_frame(*exact, exactly=True)
            return
        kept = [(run, host.mirrors[run]) for run in sorted(self.followed) if host.mirrors[run].followed]
        self.turn += 1
        gaps = [(run, mirror) for run, mirror in kept if mirror.gap]
        missing = [(run, steps[0]) for run, mirror in kept if (steps := mirror.missing_frames())]
        if gaps and (self.turn % 2 or not missing or host.patient):
            run, mirror = gaps[self.turn % len(gaps)]
            at, began = mirror.whole, time.monotonic()
            self.fetching = True

            def fill(head: dict[str, Any], body: bytes) -> None:
                self.fetching = False
                self.adapt_pace(began)
                if "error" in head or len(body) < min(size, SMALLEST):
                    raise LineLost(
                        f"the log of {run} cannot be read: {str(head.get('error', 'it became shorter'))[:200]}"
                    )
                mirror.fill(at, body)

            size = min(4 * self.piece, mirror.gap)  # a log is a fifth of its size on the line
            self.ask({"do": "read", "path": f"{run}/events.jsonl", "at": at, "n": size}, fill)
        elif missing:
            self.fetch_frame(*missing[self.turn % len(missing)], exactly=False)

    def adapt_pace(self, began: float) -> None:
        """Adapt the size of a piece to how long one took."""
        took = time.monotonic() - began
        self.round_trip = min(self.round_trip, took)
        allowed = PATIENT if self.host.patient else ASKED if self.host._exact else QUICK
        if took > self.round_trip + allowed:
            self.piece = max(SMALLEST, self.piece // 2)
        elif took < self.round_trip + allowed / 2:
            self.piece = min(LARGEST, self.piece * 2)

    def fetch_frame(self, run: str, step: int, exactly: bool) -> None:
        self.fetching = True
        base = None if exactly else max(self.host.mirrors[run].decoder.kept, default=None)
        request = {"do": "frame", "run": run, "step": step, "base": base, "exact": exactly, "n": self.piece}
        began = time.monotonic()
        number = self.ask(request, lambda head, body: self.pieces(run, number, exactly, step, head, body, began))

    def ask_for_next(self) -> None:
        """For each run, request once the frame after the newest one here; it is answered when there is one."""
        for run in self.followed:
            mirror = self.host.mirrors[run]
            if run in self.nexts or not mirror.followed:
                continue
            self.nexts.add(run)
            base = max(mirror.decoder.kept, default=None)
            after = max(mirror.frames.steps, default=None)
            request = {"do": "next", "run": run, "after": after, "base": base, "n": self.piece, "most": AT_ONCE}

            def came(head: dict[str, Any], body: bytes, run: str = run) -> None:
                said_frame = head.get("frame")
                step = said_frame[0] if isinstance(said_frame, list) and said_frame else None
                self.pieces(run, head.get("id"), False, step, head, body, time.monotonic(), live=True)

            self.ask(request, came)

    def pieces(
        self,
        run: str,
        number: Any,
        exactly: bool,
        step: Any,
        head: dict[str, Any],
        body: bytes | bytearray,
        began: float,
        live: bool = False,
    ) -> None:
        """Gather the pieces of a frame, then keep it."""
        size = head.get("size")
        if not live:
            self.adapt_pace(began)
        mirror = self.host.mirrors[run]
        largest = LARGEST_EXACT if exactly else LARGEST_COARSE
        cut = type(size) is int and len(body) < min(size, SMALLEST)
        if "error" in head or type(size) is not int or size > largest or len(body) > size or cut:
            why = CUT_SHORT
            if type(size) is int and size > largest:
                why = f"it has {size >> 20} MiB, and at most {largest >> 20} MiB are fetched"
            # It was thinned out or rewound meanwhile.
            self.frame_done(run, step, exactly, live, str(head.get("error", why))[:200])
            mirror.there.pop(step, None)
            return
        if len(body) < size:
            held = bytearray(body) if isinstance(body, bytes) else body
            began = time.monotonic()
            request = {"do": "more", "run": run, "of": number, "at": len(body), "n": self.piece}
            self.ask(
                request,
                lambda head, body: (
                    self.pieces(run, number, exactly, step, head, held.__iadd__(body), began, live)
                    if len(body) >= min(size - len(held), SMALLEST)
                    else self.frame_done(run, step, exactly, live, CUT_SHORT)
                ),
            )
            return
        try:
            mirror.keep_frame(body, exactly)
        except KeyError:  # it refers to a frame that is no longer known here: start over
            mirror.decoder.kept.clear()
        except OSError as error:
            raise LineLost(f"the mirror {mirror.path} cannot be written: {error.strerror}") from None
        except (*NONSENSE, LabError) as error:
            raise LineLost(f"a frame of {run} makes no sense ({error})") from None
        self.frame_done(run, step, exactly, live)

    def frame_done(self, run: str, step: Any, exactly: bool, live: bool, why: str = "") -> None:
        if exactly and why:
            self.host.no_frame[run, step] = why
        if live:
            self.nexts.discard(run)
        else:
            self.fetching = False
        if exactly:
            with self.host._lock, suppress(ValueError):
                self.host._exact.remove((run, step))


def is_name(text: str) -> bool:
    """Whether a run can have this name, here too; names with a leading dot are not runs."""
    return NAME.fullmatch(text) is not None and len(text.encode("utf-8", "replace")) <= 255


def read_marks(folder: Path) -> dict[str, Any]:
    """The marks of the runs as they were last listed."""
    with suppress(OSError):
        return json_object(read_regular(folder / LISTING, LARGEST_MARKS, follow=False))
    return {}


def keep_listing(host: Host, runs: Any, body: bytes, known: dict[str, Any], wanted: set[str]) -> None:
    """Mirror the small files and some rows of the listed runs, except followed ones; `wanted` are the names not yet
    received."""
    if not isinstance(runs, list):
        raise LineLost(f"{host.address.host} lists its runs in a way that makes no sense")
    place = 0
    allowed = {"run.json", "heartbeat", "label.json", "events.jsonl"}
    for name, mark, parts in runs:
        if name not in wanted:
            raise LineLost(f"{host.address.host} lists something that is not a run: {str(name)[:80]!r}")
        wanted.discard(name)
        files: dict[str, bytes] = {}
        for file, size in parts:
            if file not in allowed or type(size) is not int or not 0 <= size <= LARGEST_LISTED:
                raise LineLost(f"{host.address.host} lists a file that no run has: {str(file)[:80]!r}")
            files[file], place = body[place : place + size], place + size
        if files and name not in host.mirrors:
            if (mirror := host.mirror(name)) is None:
                continue
            try:
                with convert_os_errors(f"the mirror {mirror.path} cannot be written"):
                    for file, content in files.items():
                        if file != "events.jsonl":
                            mirror.replace(file, None, content, host.offset)
                        elif mirror.partial or not mirror.whole:
                            mirror.begin_listed(content[-LARGEST_ROWS:])
            finally:
                mirror.known_marks.clear()
                mirror.close()
        known[name] = [mark_of(each) for each in mark][:4]


def keep_marks(host: Host, known: dict[str, Any]) -> None:
    """Keep the marks of the existing runs. A deleted run keeps its mirror, which may be its only copy."""
    there = {name: mark for name, mark in known.items() if name in host.names}
    with suppress(OSError):
        host.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_write(host.folder / LISTING, orjson.dumps(there))
