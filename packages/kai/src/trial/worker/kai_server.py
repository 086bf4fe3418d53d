"""Forks for each request, and tells what the fork said, or that it said nothing. PYTEST_DONT_REWRITE"""

import collections
import ctypes
import json
import mmap
import os
import resource
import selectors
import shutil
import signal
import sys
import time

MEMORY_BYTES = 1024 * 1024 * 1024
FILE_BYTES = 64 * 1024 * 1024
ANSWER_BYTES = 4 * 1024 * 1024
# Rounds of looking for processes that a fork left behind.
REAP_ROUNDS = 200

# Candidates of one batch.
COUNT = 16

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Of what a fork and the server share: what the fork did, how far it came of the tests that are known to
# fail, and, in four bytes, which of its requests it is at, or which test of a proof.
WROTE, SPAWNED, NEAR, AT, SHARED_BYTES = 0, 1, 2, 4, 8
PASSED_SOME, PASSED_ALL = 1, 2
# A process that was not given the processor has so many times as long by the clock.
CLOCK_FACTOR = 3
BUSY_SHARE = 0.6
ALONE_FACTOR, ALONE_SECONDS = 2, 0.2
# What passes all tests that are known to fail is no common candidate: the tests after them may be slow. One at a time
# goes on for so long, and all of them together for so much of the whole time.
NEAR_SECONDS, NEAR_SHARE = 3, 0.25
CPU_SECONDS = 60
# How often whoever waits for what takes long hears that it goes on.
ALIVE_SECONDS = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


LIBRARY = ctypes.CDLL(None)


def prctl(option, value):
    try:
        LIBRARY.prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        # Not Linux: process groups have to do.
        pass


class Fork:
    """In the server: a fork that runs."""

    def __init__(self, pid, pipe, requests, seconds, flags, then):
        self.pid, self.pipe, self.requests, self.flags, self.then = pid, pipe, requests, flags, then
        self.request, self.seconds, self.data = requests[0], seconds, b""
        self.start = time.monotonic()
        self.at, self.used = 0, 0.0
        # Seconds of the processor, once it has ended.
        self.spent, self.is_extended = 0.0, False
        self.renew()

    def renew(self):
        self.began = time.monotonic()
        self.deadline = self.began + self.seconds

    def is_late(self, may_extend):
        """At its deadline: whether it has had its time, of the processor or three times as long by the clock."""
        if self.request["kind"] != "try" and not self.request.get("isEach"):
            return True
        used, at = processor_seconds(self.pid), place(self.flags)
        if self.at != at:
            # It is at another request, or test, which has its own time.
            self.at, self.used = at, used
            self.renew()
            return False
        seconds = self.seconds
        is_over = time.monotonic() - self.began >= seconds * CLOCK_FACTOR
        if is_over or used - self.used >= seconds * BUSY_SHARE:
            if self.flags[NEAR] != PASSED_ALL or not may_extend(self):
                return True
            self.is_extended = True
            if used - self.used >= NEAR_SECONDS or time.monotonic() - self.began >= NEAR_SECONDS * CLOCK_FACTOR:
                return True
        self.deadline = time.monotonic() + min(self.seconds / 2, ALIVE_SECONDS)
        return False


def place(flags):
    return int.from_bytes(flags[AT:AT + 4], "little")


def put_place(flags, at):
    flags[AT:AT + 4] = at.to_bytes(4, "little")


def alone_seconds(request):
    """For all of the tests, and what a fork takes, where a deadline is for the first of them."""
    return request["deadlineMs"] / 1000 * ALONE_FACTOR + ALONE_SECONDS


def processor_seconds(pid):
    try:
        with open("/proc/%d/stat" % pid) as stream:
            fields = stream.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    except (OSError, ValueError, IndexError):
        # Nobody tells: then it is the clock that counts.
        return float("inf")


class Waiting:
    """Candidates that wait for a fork, the first first; those that are to be alone are not batched."""

    def __init__(self):
        self.requests = collections.deque()

    def __len__(self):
        return len(self.requests)

    def add(self, request):
        self.requests.append(request)

    def again(self, requests, alone):
        for request in reversed(requests):
            request["alone"] = alone
            self.requests.appendleft(request)

    def drop(self, request_id):
        found = [request for request in self.requests if request["id"] == request_id]
        for request in found:
            self.requests.remove(request)
        return found

    def next(self, is_batched, slots):
        """What the next fork is for."""
        if not is_batched or self.requests[0].get("alone"):
            return [self.requests.popleft()]
        count = min(COUNT, -(-len(self.requests) // slots))
        taken = []
        while self.requests and len(taken) < count and not self.requests[0].get("alone"):
            taken.append(self.requests.popleft())
        return taken


class Server:
    def __init__(self, ask_fd, answer_fd, temporary):
        self.ask_fd, self.answer_fd, self.temporary = ask_fd, answer_fd, temporary
        self.forks, self.buffer = {}, b""
        # How many forks may run candidates at a time, and what waits for one.
        self.slots, self.waiting = 1, Waiting()
        # For how long candidates have gone on beyond their deadlines, and since when they may.
        self.extended, self.began = 0.0, time.monotonic()
        self.selector = selectors.DefaultSelector()
        # What a fork leaves behind becomes the server's child, and is found.
        prctl(PR_SET_CHILD_SUBREAPER, 1)

    def say(self, message):
        data = (json.dumps(message) + "\n").encode()
        while data:
            data = data[os.write(self.answer_fd, data):]

    def serve(self, begin, prove, is_batched=lambda: False, is_held=lambda: False):
        """`begin(requests)` forks for those that are tried, unless they are held, and `prove(request)` for the proof.
        Returns in a fork, with what they return there, and never here."""
        self.selector.register(self.ask_fd, selectors.EVENT_READ, None)
        while True:
            deadlines = [fork.deadline for fork in self.forks.values()]
            wait = max(0, min(deadlines) - time.monotonic()) if deadlines else None
            for key, _ in self.selector.select(wait):
                child = self.hear(prove) if key.data is None else self.collect(key.data)
                if child is not None:
                    return child
            for fork in list(self.forks.values()):
                if time.monotonic() < fork.deadline:
                    continue
                if not fork.is_late(self.may_extend):
                    self.say({"kind": "alive"})
                    continue
                child = self.finish(fork, "timeout")
                if child is not None:
                    return child
            while self.waiting and len(self.forks) < self.slots and not is_held():
                child = begin(self.waiting.next(is_batched(), self.slots))
                if child is not None:
                    return child

    def may_extend(self, fork):
        if fork.is_extended:
            return True
        most = NEAR_SECONDS + NEAR_SHARE * (time.monotonic() - self.began)
        return self.extended < most and not any(other.is_extended for other in self.forks.values())

    def hear(self, prove):
        data = os.read(self.ask_fd, 1 << 20)
        if not data:
            for fork in list(self.forks.values()):
                self.kill(fork)
            os._exit(0)
        lines = (self.buffer + data).split(b"\n")
        self.buffer = lines.pop()
        for at, line in enumerate(lines):
            request = json.loads(line)
            if request["kind"] == "cancel":
                child = self.cancel(request["id"])
            elif request["kind"] == "try":
                self.waiting.add(request)
                continue
            else:
                self.slots = max(self.slots, int(request.get("slots") or 1))
                child = prove(request)
            if child is not None:
                return child
        return None

    def cancel(self, request_id):
        for request in self.waiting.drop(request_id):
            self.say({"id": request["id"], "kind": "cancelled"})
        for fork in list(self.forks.values()):
            if request_id in [request["id"] for request in fork.requests]:
                wrote = fork.flags[WROTE] == 1
                self.end(fork)
                self.say({"id": request_id, "kind": "cancelled", "wrote": wrote})
                others = [request for request in fork.requests if request["id"] != request_id]
                self.waiting.again(others, False)
        return None

    def fork(self, requests, then, seconds=None):
        """The child in the fork; none in the server, where `then(fork, answer)` hears the answer."""
        if seconds is None:
            seconds = requests[0]["deadlineMs"] / 1000
        pipe, other = os.pipe()
        flags, server = mmap.mmap(-1, SHARED_BYTES), os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(pipe)
            self.selector.close()
            for fork in self.forks.values():
                os.close(fork.pipe)
            os.close(self.ask_fd)
            os.close(self.answer_fd)
            return Child(requests, other, flags, self.temporary, seconds, server)
        os.close(other)
        os.set_blocking(pipe, False)
        fork = Fork(pid, pipe, requests, seconds, flags, then)
        self.forks[pid] = fork
        self.selector.register(pipe, selectors.EVENT_READ, fork)
        return None

    def collect(self, fork):
        if fork.pid not in self.forks:
            return None
        try:
            data = os.read(fork.pipe, 1 << 16)
        except BlockingIOError:
            return None
        fork.data += data
        is_whole = fork.data.endswith(b"\n") or len(fork.data) > ANSWER_BYTES
        return self.finish(fork, None) if is_whole or not data else None

    def end(self, fork):
        self.selector.unregister(fork.pipe)
        os.close(fork.pipe)
        self.kill(fork)
        self.extended += fork.spent if fork.is_extended else 0.0
        del self.forks[fork.pid]
        self.reap()
        try:
            os.rmdir(os.path.join(self.temporary, str(fork.pid)))
        except FileNotFoundError:
            pass
        except OSError:
            shutil.rmtree(os.path.join(self.temporary, str(fork.pid)), ignore_errors=True)

    def finish(self, fork, end):
        self.end(fork)
        # One that ended without a word has failed: the tests did not come to their end.
        answer = {"kind": end or "failed", "failed": [] if end else ["the process ended"]}
        if end is None:
            try:
                answer = json.loads(fork.data)
            except ValueError:
                pass
        answer["tookMs"] = max(fork.spent, (time.monotonic() - fork.start) / CLOCK_FACTOR) * 1000
        answer["wrote"] = fork.flags[WROTE] == 1
        answer["spawned"] = fork.flags[SPAWNED] == 1
        answer["isNear"] = fork.flags[NEAR] > 0
        answer["at"] = place(fork.flags)
        fork.flags.close()
        return fork.then(fork, answer)

    def kill(self, fork):
        for kill in (os.killpg, os.kill):
            try:
                kill(fork.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        try:
            usage = os.wait4(fork.pid, 0)[2]
            fork.spent = usage.ru_utime + usage.ru_stime
        except ChildProcessError:
            pass

    def reap(self):
        """Ends what left the groups of the forks, and of what ends, what it leaves in turn."""
        for _ in range(REAP_ROUNDS):
            try:
                with open("/proc/self/task/%d/children" % os.getpid()) as stream:
                    pids = {int(pid) for pid in stream.read().split()} - set(self.forks)
            except (OSError, ValueError):
                return
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except (ProcessLookupError, ChildProcessError, PermissionError):
                    pass


class Child:
    """In a fork: what was asked, and the way to answer it."""

    def __init__(self, requests, pipe, flags, temporary, seconds, server):
        self.request, self.pipe, self.flags = requests[0], pipe, flags
        self.is_try = self.request["kind"] == "try"
        # In a batch: whether something was done that is seen outside of the process.
        self.in_batch = self.touched = False
        self.pid = os.getpid()
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            # The server was ended before that was said, and nobody would end this.
            os._exit(0)
        own = os.path.join(temporary, str(self.pid))
        os.mkdir(own)
        os.environ["TMPDIR"] = own
        if "tempfile" in sys.modules:
            sys.modules["tempfile"].tempdir = own
        limit(max(CPU_SECONDS, seconds * len(requests)), MEMORY_BYTES)

    def answer(self, message):
        # A process that the code under test has forked comes here too, and is not asked.
        if os.getpid() == self.pid:
            data = (json.dumps(message) + "\n").encode()
            try:
                while data:
                    data = data[os.write(self.pipe, data):]
            except OSError:
                pass
        os._exit(0)


def limit(seconds, memory_bytes):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bounds = [(resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_CPU, int(seconds) + 2)]
    try:
        with open("/proc/self/statm") as stream:
            used = int(stream.read().split()[0]) * resource.getpagesize()
        bounds.append((resource.RLIMIT_AS, used + memory_bytes))
    except (OSError, ValueError):
        pass
    for what, most in bounds:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
