"""Tries candidates in a pytest process that forks; a plugin, loaded with `-p`. PYTEST_DONT_REWRITE

KAI_MODE is `collected`: pytest collects once, and each candidate is a fork in which the functions that
it changes are replaced; or `fresh`: each candidate is a fork that has loaded pytest, and nothing of the
project. It is asked and answers in lines of JSON, on the standard input and output.
"""

import gc
import importlib
import os
import re
import sys
import threading
import time
import types

from kai_batch import Batch, is_direct
from kai_code import Broken, Loaded, Unsure, compiled, edited
from kai_server import (
    NEAR, PASSED_ALL, PASSED_SOME, SPAWNED, WROTE, Server, alone_seconds, put_place,
)

MODE = os.environ.pop("KAI_MODE")
ROOT = os.path.realpath(os.environ.pop("KAI_ROOT"))
ORIGIN = os.environ.pop("KAI_ORIGIN")
TEMPORARY = os.environ["TMPDIR"]

NAMES = 200
MESSAGE = 500
# A suite that comes to its first failing test in less is run in its own order.
HEAD_SECONDS = 0.01
# A suite that takes longer is not run backwards to see whether its order matters.
REVERSED_SECONDS = 2.0
# What is learnt of a suite that takes longer is not waited for.
WAITED_SECONDS = 0.3
# How long the tests after the first that fails are looked at.
FURTHER_SECONDS = 3.0
# A candidate waits for what is being learnt where the tests that it is learnt from take no longer.
HELD_SECONDS = 0.1
# What does not let itself be interrupted is ended a little later.
BATCH_FACTOR, BATCH_SECONDS = 3, 0.1
# How long files are read and compiled ahead of need.
WARM_SECONDS = 0.3
# How long files are replaced by themselves, to see that nothing changes.
PROOF_SECONDS = 0.3
FIRST = 3
# What a probe says is one line, and a line has a limit.
SAID_CHARS = 400_000

child = None  # Of this process, once it is a fork.
loaded = Loaded(ROOT)
failed, durations, ran = {}, {}, set()
# The tests that fail as they are; in a fork, those of them that have not passed yet.
faulty = set()


def lead_here():
    """What was installed to be used from the original's directory is used from the copy."""
    def moved(path):
        here = isinstance(path, str) and (path == ORIGIN or path.startswith(ORIGIN + os.sep))
        return ROOT + path[len(ORIGIN):] if here else path

    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [moved(path) for path in sys.path if path != own]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [moved(path) for path in paths if path and path != own]
    os.environ.pop("PYTHONPATH", None)
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):
            mapping.update({name: moved(path) for name, path in mapping.items()})


# What a fork does to the files --------------------------------------------------------------------

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.utime", "sqlite3.connect",
}
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn"}
# What is seen by whoever comes after in the same process, or outlives a test.
TOUCHES = {
    "_thread.start_new_thread", "os.fork", "os.forkpty", "socket.connect", "socket.bind", "os.chdir", "os.fchdir",
    "os.putenv", "os.unsetenv", "signal.pthread_kill", "sys.addaudithook", "ctypes.dlopen", "fcntl.fcntl",
}


def watch(event, args):
    if child.in_batch and (
        event in TOUCHES or event in STARTS or event in CHANGES
        or event == "open" and ((args[2] or 0) & WRITES or isinstance(args[0], int))
    ):
        child.touched = True
    if event in STARTS:
        child.flags[SPAWNED] = child.flags[WROTE] = 1
    elif event in CHANGES:
        note(args[0])
        note(args[-1])
        if len(args) > 1:
            note(args[1])
    elif event == "open" and (args[2] or 0) & WRITES:
        note(args[0])


def note(path):
    if isinstance(path, (str, bytes)):
        path = os.path.realpath(os.fsdecode(path))
        if path == ROOT or path.startswith(ROOT + os.sep):
            child.flags[WROTE] = 1


# In a fork ----------------------------------------------------------------------------------------


def become(fork):
    global child
    child = fork
    sys.addaudithook(watch)


def finish(kind, **more):
    message = {"kind": kind, "failed": list(failed)[:NAMES], "ranCount": len(ran), **more}
    if not child.is_try:
        message.update(durations=durations, raised=failed)
    child.answer(message)


def run(session, items):
    run_all(session, items)
    finish("failed" if failed else "passed")


def run_all(session, items):
    session.items = items
    # Nobody reads what a failure looks like.
    session.config.option.tbstyle = "no"
    for at, item in enumerate(items):
        if not child.is_try:
            put_place(child.flags, at)
        after = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.shouldfail or session.shouldstop:
            break


def run_covered(session, items):
    """All of them as they are, with the probe's hooks; its timers are set anew for this process."""
    seconds = child.request["deadlineMs"] / 1000
    os.environ.update({
        "KAI_PROBE_FOLDER": os.environ["TMPDIR"], "KAI_PROBE_ROOT": ROOT, "KAI_PROBE_RUNNER": "pytest",
        "KAI_PROBE_GRAIN": "test", "KAI_PROBE_TEST_S": str(seconds / 4), "KAI_PROBE_ALL_S": "86400",
    })
    module = types.ModuleType("kai_probe")
    exec(compile(child.request["probe"], "kai_probe", "exec"), module.__dict__)

    def tell_all():
        module.probe.write()
        path = os.path.join(os.environ["KAI_PROBE_FOLDER"], "%d.json" % os.getpid())
        try:
            with open(path) as stream:
                said = stream.read(SAID_CHARS + 1)
        except OSError:
            said = ""
        child.answer({"kind": "covered" if 0 < len(said) <= SAID_CHARS else "unsure", "said": said[:SAID_CHARS]})

    last = threading.Timer(seconds * 0.8, tell_all)
    last.daemon = True
    last.start()
    session.config.pluginmanager.register(module, "kai-probe")
    run_all(session, items)
    tell_all()


def run_replaced(session, items):
    request = child.request
    try:
        if request["kind"] == "prove":
            until = time.monotonic() + PROOF_SECONDS
            for path in loaded.files():
                # What is not come to is compared with what is alive when it is first replaced.
                if time.monotonic() > until:
                    break
                with open(path, "rb") as stream:
                    loaded.replace(path, stream.read(), everything=True)
        for path, change in request["files"].items():
            loaded.change(path, change)
    except Broken:
        finish("broken")
    except Unsure as error:
        finish("unsure", why=str(error))
    run(session, items)


def load_from_memory(files):
    """The changed files are read from here by all that imports them."""
    from importlib import _bootstrap_external as external

    texts = {}
    for path, change in files.items():
        if not path.endswith(".py"):
            finish("unsure", why="it is no Python file")
        path = os.path.join(ROOT, path)
        texts[path] = (change if isinstance(change, str) else edited(loaded.text(path), change)).encode()
    for path, data in texts.items():
        try:
            compiled(data, path)
        except Broken:
            finish("broken")
    get_data, path_stats = external.FileLoader.get_data, external.SourceFileLoader.path_stats

    def changed_data(self, path):
        data = texts.get(os.path.realpath(path))
        return get_data(self, path) if data is None else data

    def changed_stats(self, path):
        # Whatever was kept of the file as it is on disk is no match for this.
        changed = os.path.realpath(path) in texts
        return {"mtime": -1, "size": -1} if changed else path_stats(self, path)

    external.FileLoader.get_data = changed_data
    external.SourceFileLoader.path_stats = changed_stats
    rewrite = importlib.import_module("_pytest.assertion.rewrite")
    rewrite_test = rewrite._rewrite_test

    def changed_test(fn, config):
        if os.path.realpath(str(fn)) in texts:
            finish("unsure", why="pytest reads it by itself")
        return rewrite_test(fn, config)

    rewrite._rewrite_test = changed_test


# In the server ------------------------------------------------------------------------------------


class Collected:
    """The server in a process that has collected; knows which tests are worth to be run first."""

    def __init__(self, session):
        self.session, self.items, self.first, self.batch = session, list(session.items), None, None
        self.is_held = False

    def serve(self):
        server.say({"kind": "ready"})
        fork, act = server.serve(self.begin, self.prove, lambda: self.batch is not None, lambda: self.is_held)
        become(fork)
        act(fork)

    def fork(self, requests, act, then, seconds=None):
        made = server.fork(requests, then, seconds)
        return None if made is None else (made, act)

    def all_of(self, requests, items, then, seconds=None):
        return self.fork(requests, lambda _: run_replaced(self.session, items), then, seconds)

    def prove(self, request):
        if request["kind"] == "cover":
            return self.fork([request], lambda _: run_covered(self.session, self.items), tell)
        self.first = self.batch = None
        return self.all_of([request], self.items, self.proved)

    def begin(self, requests):
        if self.batch is not None and not requests[0].get("alone"):
            seconds = self.batch.seconds * BATCH_FACTOR + BATCH_SECONDS
            return self.fork(requests, lambda child: self.batch.run(child, requests), self.batched, seconds)
        seconds = alone_seconds(requests[0])
        if self.first is None:
            return self.all_of(requests, self.items, tell, seconds)
        return self.all_of(requests, self.first, self.tried, seconds)

    def tried(self, fork, answer):
        if answer["kind"] != "passed":
            return tell(fork, answer)
        # All of them in their own order, in a fork that these have not touched.
        return self.all_of(fork.requests, self.items, tell, fork.seconds)

    def batched(self, fork, answer):
        requests, at = fork.requests, answer["at"] - 1
        if answer["kind"] != "batch" and not 0 <= at < len(requests):
            server.waiting.again(requests, True)
        elif answer["kind"] != "batch":
            # It ended, or was ended, at one of them: that one goes alone, and the rest goes on.
            server.waiting.again(requests[at + 1:], False)
            server.waiting.again(requests[:at], False)
            if answer["kind"] == "timeout":
                answer["isBrief"] = self.is_brief(requests[at])
                tell(fork, answer, requests[at])
            else:
                server.waiting.again([requests[at]], True)
        elif not answer["isGood"]:
            server.waiting.again(requests, True)
        else:
            results = answer["results"]
            server.waiting.again(requests[len(results):], False)
            for request, (kind, names, took) in zip(requests, results):
                if kind == "passed":
                    server.waiting.again([request], True)
                else:
                    # What wrote is the last of its batch.
                    wrote = answer["wrote"] and request is requests[len(results) - 1]
                    said = {"kind": kind, "failed": names, "tookMs": took, "wrote": wrote}
                    tell(fork, {**said, "isBrief": kind == "timeout" and self.is_brief(request)}, request)
        return None

    def is_brief(self, request):
        return self.batch.seconds < request["deadlineMs"] / 1000

    def proved(self, fork, answer):
        times, raised = answer.get("durations", {}), answer.get("raised", {})
        total = sum(times.values())
        if answer["kind"] == "timeout" and not answer["wrote"]:
            return self.hung(fork, answer)
        if answer["wrote"] or answer["kind"] != "failed":
            return tell(fork, answer)
        faulty.clear()
        faulty.update(raised)
        stops = bool(self.session.config.getoption("maxfail", 0))
        if stops and all(times.get(name, 0.0) >= HEAD_SECONDS for name in raised):
            tell(fork, answer)
            return self.look_further(fork, times, raised)
        is_waited = total <= WAITED_SECONDS and self.is_long(times, raised)
        if not is_waited:
            # Until more is known, candidates are tried in the order that there is.
            tell(fork, answer)
        return self.learn(fork, total, times, raised, lambda: tell(fork, answer) if is_waited else None)

    def look_further(self, fork, times, raised):
        """Where a run stops at a test that takes long to fail: whether one after it fails sooner."""
        self.is_held = True

        def then(_, other):
            more = other.get("raised", {})
            if all(more.get(name) == words for name, words in raised.items()):
                faulty.update(more)
                return self.learn(fork, None, other["durations"], more, lambda: None)
            return self.learn(fork, None, times, raised, lambda: None)

        return self.unstopped(fork.requests, self.items, then, FURTHER_SECONDS)

    def unstopped(self, requests, items, then, seconds=None):
        def act(_):
            self.session.config.option.maxfail = 0
            run_replaced(self.session, items)

        return self.fork(requests, act, then, seconds)

    def hung(self, fork, answer):
        """The test that the proof did not come to the end of."""
        item = self.items[min(answer["at"], len(self.items) - 1)]
        faulty.clear()
        faulty.add(item.nodeid)
        # Those before it came to their end, and what passes comes to the end of this one.
        tell(fork, {**answer, "ranCount": answer["at"] + 1})
        self.is_held = True
        return self.learn_batch(fork.requests, [item], {item.nodeid: "Late: "}, True)

    def is_long(self, times, raised):
        """Whether it takes long to come to the first test that fails."""
        head = 0.0
        for item in self.items:
            if item.nodeid in raised:
                return head >= HEAD_SECONDS
            head += times.get(item.nodeid, 0.0)
        return False

    def learn(self, fork, total, times, raised, told):
        """Finds the quickest failing tests, and whether they fail alike where they are run first."""
        bad = [item for item in self.items if item.nodeid in raised]
        quick = sorted(bad, key=lambda item: times.get(item.nodeid, 0.0))[:FIRST]
        quick = [item for item in bad if item in quick]
        expected = {item.nodeid: raised[item.nodeid] for item in quick}
        stops = bool(self.session.config.getoption("maxfail", 0))
        # Until it is known, a candidate costs all of the tests.
        self.is_held = bool(quick) and sum(times.get(item.nodeid, 0.0) for item in quick) <= HELD_SECONDS

        def end(is_free):
            self.first = quick if is_free and self.is_long(times, raised) else None
            told()
            if not is_free:
                self.is_held = False
                return None
            quickest = min(quick, key=lambda item: times.get(item.nodeid, 0.0))
            return self.learn_batch(fork.requests, [quickest], expected, False)

        def alone(_, other):
            # What stops at its first failing test says nothing of those after it.
            if other.get("raised") != expected or stops or total is None or total > REVERSED_SECONDS:
                return end(other.get("raised") == expected)
            self.is_held = False
            return self.all_of(fork.requests, self.items[::-1], backwards)

        def backwards(_, other):
            return end(other.get("raised") == raised)

        return self.unstopped(fork.requests, quick, alone) if quick else told()

    def learn_batch(self, requests, items, raised, hangs):
        """Finds out whether several candidates may share a fork."""
        if not all(is_direct(item) for item in items):
            self.is_held = False
            return None
        batch = Batch(items, loaded, is_failure, hangs)

        def act(child):
            batch.begin(child)
            child.answer({"kind": "failed", "said": batch.unmodified()})

        def then(_, answer):
            self.is_held = False
            said = answer.get("said") or {"raised": {}}
            kinds = {name: words.partition(":")[0] for name, words in said["raised"].items()}
            if kinds and all(raised[name].partition(":")[0] == kind for name, kind in kinds.items()):
                batch.expected, batch.loads, batch.seconds = said["raised"], said["loads"], said["seconds"]
                self.batch = batch
            return None

        return self.fork(requests, act, then)


def tell(fork, answer, request=None):
    words = ("kind", "failed", "ranCount", "wrote", "spawned", "why", "tookMs", "said", "isBrief", "isNear")
    server.say({"id": (request or fork.request)["id"], **{word: answer[word] for word in words if word in answer}})


def serve_fresh():
    """Loads what each fork would load, and returns in the forks."""
    from importlib.metadata import entry_points

    importlib.import_module("pytest")
    importlib.import_module("_pytest.assertion.rewrite")
    if not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        found = entry_points()
        group = found.select(group="pytest11") if hasattr(found, "select") else found.get("pytest11", [])
        for entry in group:
            try:
                importlib.import_module(entry.value.partition(":")[0])
            except Exception:
                # Pytest will come to it by itself, and say what is wrong with it.
                pass
    files = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
    if any(os.path.realpath(file).startswith(ROOT + os.sep) for file in files):
        server.say({"kind": "unfit", "why": "a plugin loads the project"})
        os._exit(0)
    gc.collect()
    gc.freeze()
    server.say({"kind": "ready"})
    become(server.serve(lambda requests: server.fork(requests, tell, alone_seconds(requests[0])), lambda request: server.fork([request], tell)))
    load_from_memory(child.request["files"])


# What pytest calls --------------------------------------------------------------------------------


def hooks():
    import pytest

    class Hooks:
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self, session):
            if child is not None:
                child.flags[SPAWNED] = 0
            elif MODE == "collected":
                sys.setprofile(loaded.profile)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session):
            sys.setprofile(None)
            if child is None:
                serve_collected(session)
            elif session.testsfailed:
                finish("broken" if child.is_try else "failed", failed=list(failed) or ["collection"])
            elif not session.items:
                finish("failed", failed=["no tests"])
            run(session, session.items)

        @pytest.hookimpl(tryfirst=True)
        def pytest_collectreport(self, report):
            if report.failed:
                failed.setdefault(report.nodeid, "collection")

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            if child is None:
                return
            if child.is_try and report.when == "call" and report.passed and report.nodeid in faulty:
                faulty.remove(report.nodeid)
                child.flags[NEAR] = PASSED_SOME if faulty else PASSED_ALL
            durations[report.nodeid] = durations.get(report.nodeid, 0.0) + report.duration
            if report.failed or (report.when == "call" and report.passed):
                ran.add(report.nodeid)
            if report.failed:
                failed.setdefault(report.nodeid, getattr(report, "kai_raised", report.when))
                if child.is_try:
                    finish("failed")

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(self, item, call):
            if child is not None and child.is_try and is_plain_failure(item, call.excinfo):
                finish("failed", failed=[item.nodeid])
            outcome = yield
            if child is not None and not child.is_try and call.excinfo is not None:
                outcome.get_result().kai_raised = fingerprint(call.excinfo)

        @pytest.hookimpl(trylast=True)
        def pytest_unconfigure(self, config):
            # A fork that comes here never came to its tests.
            if child is not None:
                finish("broken" if child.is_try else "failed", failed=["configuration"])

    return Hooks()


def is_plain_failure(item, excinfo):
    """Whether what was raised is a failure for sure, so that nobody has to write it up."""
    if excinfo is None or item.get_closest_marker("xfail") is not None:
        return False
    if item.config.pluginmanager.hasplugin("rerunfailures"):
        return False
    return is_failure(excinfo.value)


def is_failure(error):
    from _pytest.outcomes import Failed

    is_error = isinstance(error, Exception) and type(error).__name__ != "SkipTest"
    # Others that pytest raises itself are skips and such.
    return type(error) is Failed or (is_error and not type(error).__module__.startswith("_pytest"))


def fingerprint(excinfo):
    try:
        return re.sub("0x[0-9a-f]+", "0x", excinfo.typename + ": " + str(excinfo.value))[:MESSAGE]
    except Exception:
        return excinfo.typename


def serve_collected(session):
    if session.testsfailed or not session.items:
        server.say({"kind": "unfit", "why": "pytest did not collect"})
        os._exit(0)
    loaded.index()
    warm_up()
    gc.collect()
    gc.freeze()
    Collected(session).serve()


def warm_up():
    until = time.monotonic() + WARM_SECONDS
    for path in loaded.files():
        if time.monotonic() > until:
            break
        try:
            loaded.warm(path)
        except (OSError, ValueError, SyntaxError, RecursionError):
            # Whoever needs it comes to it by itself.
            pass


def pytest_configure(config):
    config.pluginmanager.register(hooks(), "kai-hooks")


lead_here()
server = Server(os.dup(0), os.dup(1), TEMPORARY)
with open(os.devnull, "r+b", 0) as nowhere:
    os.dup2(nowhere.fileno(), 0)
    os.dup2(nowhere.fileno(), 1)
if MODE == "fresh":
    serve_fresh()
elif MODE == "collected":
    # A conftest is loaded before anything is collected.
    sys.setprofile(loaded.profile)
