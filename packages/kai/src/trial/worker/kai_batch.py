"""Several candidates in one fork, one after the other, each only until its first failing test. PYTEST_DONT_REWRITE

What fails here has failed; what passes is tried again in a fork of its own. A candidate that leaves
anything behind in the process is the last of its batch, and a batch after which the unmodified code does
not fail as it did is done again, one fork for each.
"""

import os
import re
import signal
import sys
import time

from kai_code import Broken, Unsure
from kai_server import CPU_SECONDS, limit, put_place
from kai_state import State, Unknown

# For how long a batch goes on.
SECONDS = 0.1
# How long a candidate has for its first tests, from what they take as they are: those that hang are many, and what
# is stopped here has its whole time later.
LEAST_SECONDS, FACTOR = 0.03, 3
# What is not interrupted by the time on the processor has so many times as long by the clock, and this.
CLOCK_FACTOR, CLOCK_SECONDS = 3, 0.2
# What grows for ever is stopped before that takes long.
MEMORY_BYTES = 256 * 1024 * 1024
MESSAGE = 500


class Late(BaseException):
    pass


def late(*_):
    raise Late()


def is_direct(item):
    """Whether a test is no more than a function, and its parameters."""
    import pytest

    if item.config.pluginmanager.hasplugin("rerunfailures") or is_hooked(item):
        return False
    if type(item) is not pytest.Function or any(mark.name != "parametrize" for mark in item.iter_markers()):
        return False
    given = getattr(getattr(item, "callspec", None), "params", {})
    info = item._fixtureinfo
    is_alone = set(info.names_closure) <= set(given) and set(info.argnames) <= set(given)
    function = getattr(item.obj, "__func__", item.obj)
    code = getattr(function, "__code__", None)
    is_plain = code is not None and not code.co_flags & 0x2A0 and not hasattr(function, "__wrapped__")
    return is_alone and is_plain and not hasattr(function, "is_hypothesis_test")


HOOKS = (
    "pytest_runtest_protocol", "pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown", "pytest_pyfunc_call",
)


def is_hooked(item):
    """Whether the project itself does something around each test."""
    root = str(item.config.rootpath) + os.sep
    impls = [impl for name in HOOKS for impl in getattr(item.ihook, name).get_hookimpls()]
    return any(impl.function.__code__.co_filename.startswith(root) for impl in impls)


def copied(value):
    """A copy of what holds nothing but plain values; what holds more is given as it is."""
    kind = type(value)
    if kind is list:
        return [copied(one) for one in value]
    if kind is tuple:
        return tuple(copied(one) for one in value)
    if kind is dict:
        return {key: copied(one) for key, one in value.items()}
    if kind is set:
        return set(value)
    return value


class Batch:
    """Made in the server, once it is known which tests are to be run; used in forks of it."""

    def __init__(self, items, loaded, failure, hangs):
        self.items, self.loaded, self.failure, self.hangs = items, loaded, failure, hangs
        self.expected, self.loads, self.seconds = None, False, LEAST_SECONDS
        roots = [getattr(getattr(item, "callspec", None), "params", None) for item in items]
        self.state = State(loaded.inside, roots)

    def call(self, item):
        """Runs a test; what it raised, or None."""
        given = getattr(getattr(item, "callspec", None), "params", {})
        names = item._fixtureinfo.argnames
        function = item.obj
        if "random" in sys.modules:
            sys.modules["random"].setstate(self.chance)
        try:
            function(**{name: copied(given[name]) for name in names})
        except BaseException as error:
            return error
        return None

    def called(self, item):
        """The same, as it is, where it may not end; and how long it took."""
        start, clock = time.process_time(), time.monotonic()
        try:
            wait(self.seconds if self.hangs else 0)
            error = self.call(item)
            wait(0)
        except Late as late:
            wait(0)
            error = late
        took = max(time.process_time() - start, (time.monotonic() - clock) / CLOCK_FACTOR)
        return error, took

    def is_bad(self, error):
        return type(error) is Late if self.hangs else error is not None and self.failure(error)

    def begin(self, child):
        # Nobody reads what is printed.
        sys.stdout = sys.stderr = open(os.devnull, "w")
        self.chance = sys.modules["random"].getstate() if "random" in sys.modules else None
        self.child = child
        child.in_batch = True
        limit(CPU_SECONDS, MEMORY_BYTES)
        signal.signal(signal.SIGPROF, late)
        signal.signal(signal.SIGALRM, late)

    def unmodified(self):
        """How the tests fail as they are, each run three times, and whether the first time loads something that is
        not theirs; None where they may not be batched."""
        said, times = {}, []
        try:
            at_first, before = self.state.taken(), None
            for item in self.items * 3:
                error, took = self.called(item)
                if not self.is_bad(error):
                    return None
                times.append(took)
                words = shown(error)
                if said.setdefault(item.nodeid, words) != words:
                    return None
                error = None
                before = before or self.state.taken()
            after = self.state.taken()
        except Unknown:
            return None
        is_same = at_first == before or self.state.has_only_loaded(at_first, before)
        if not is_same or after != before or self.child.touched:
            return None
        # The first of them loads, and any may be interrupted by others.
        seconds = LEAST_SECONDS if self.hangs else LEAST_SECONDS + FACTOR * len(self.items) * min(times)
        return {"raised": said, "loads": at_first != before, "seconds": seconds}

    def run(self, child, requests):
        """In a fork: tries what it comes to, and says what became of each, and whether that can be believed."""
        self.begin(child)
        if self.loads:
            self.called(self.items[0])
        self.before = self.state.taken()
        results, until, is_clean = [], time.process_time() + SECONDS, True
        for at, request in enumerate(requests):
            put_place(child.flags, 1 + at)
            start, clock = time.process_time(), time.monotonic()
            kind, failed = self.attempt(request)
            took = max(time.process_time() - start, (time.monotonic() - clock) / CLOCK_FACTOR)
            results.append((kind, failed, took * 1000))
            if child.touched or not self.is_same():
                is_clean = False
                break
            # What passes is looked at alone, and at once.
            if kind == "passed" or time.process_time() > until:
                break
        put_place(child.flags, 1 + len(requests))
        # Without that what was left behind is no one's but the last one's.
        is_good = not is_clean or self.fails_alike()
        child.answer({"kind": "batch", "results": results, "isGood": is_good})

    def is_same(self):
        try:
            return self.state.taken() == self.before
        except Unknown:
            return False

    def fails_alike(self):
        error, _ = self.called(self.items[0])
        return error is not None and shown(error) == self.expected[self.items[0].nodeid]

    def attempt(self, request):
        undo = []
        seconds = min(self.seconds, request["deadlineMs"] / 1000)
        try:
            try:
                for path, change in request["files"].items():
                    undo.extend(self.loaded.change(path, change))
                wait(seconds)
                return self.ran()
            finally:
                wait(0)
                for function, code in undo:
                    function.__code__ = code
        except Broken:
            return ("broken", [])
        except Unsure:
            return ("unsure", [])
        except Late:
            for function, code in undo:
                function.__code__ = code
            return ("timeout", [])

    def ran(self):
        for item in self.items:
            error = self.call(item)
            if error is None:
                continue
            if type(error) in (Late, MemoryError):
                return ("timeout", [])
            # What else than a failure it may be, pytest knows.
            return ("failed", [item.nodeid]) if self.failure(error) else ("passed", [])
        return ("passed", [])


def shown(error):
    try:
        return re.sub("0x[0-9a-f]+", "0x", type(error).__name__ + ": " + str(error))[:MESSAGE]
    except Exception:
        return type(error).__name__


def wait(seconds):
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds and seconds * CLOCK_FACTOR + CLOCK_SECONDS)
