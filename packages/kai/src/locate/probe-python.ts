/**
 * A module that counts, for each line of the tree, how many failing and how many passing tests ran it.
 * Python loads it as `sitecustomize` and pytest as a plugin; `sys.monitoring` is used where it is (3.12)
 * and `sys.settrace` where not. Lines outside of all functions run when a file is loaded, by whichever
 * test comes first, so they are not counted. What runs too long is interrupted, and what is not
 * interrupted ends with the process, its lines written.
 */
export const PYTHON_PROBE: string = `
import os, sys, threading

class Probe:
    def __init__(self):
        env = os.environ
        self.folder = env["KAI_PROBE_FOLDER"]
        self.root = env["KAI_PROBE_ROOT"].rstrip("/") + "/"
        self.per_test = env["KAI_PROBE_GRAIN"] == "test"
        self.test_s = float(env["KAI_PROBE_TEST_S"])
        self.all_s = float(env["KAI_PROBE_ALL_S"])
        self.hits = {}
        self.adders = {}
        self.counts = {}
        self.totals = [0, 0]
        self.running = None
        self.failed = False
        self.main = threading.main_thread().ident
        self.timer = None
        self.monitoring = getattr(sys, "monitoring", None)
        self.tool = None

    def adder(self, filename):
        path = os.path.abspath(filename)
        if path.startswith(self.root):
            name = path[len(self.root):]
            if "site-packages/" not in name and not name.startswith("."):
                return self.hits.setdefault(name, set()).add
        return None

    def local(self, add):
        def trace(frame, event, arg):
            if event == "line":
                add(frame.f_lineno)
            return trace
        return trace

    def trace(self, frame, event, arg):
        code = frame.f_code
        if not code.co_flags & 1:
            return None
        name = code.co_filename
        try:
            return self.adders[name]
        except KeyError:
            add = self.adder(name)
            made = self.adders[name] = None if add is None else self.local(add)
            return made

    def on_line(self, code, line):
        if code.co_flags & 1:
            name = code.co_filename
            if name not in self.adders:
                self.adders[name] = self.adder(name)
            add = self.adders[name]
            if add is not None:
                add(line)
        return self.monitoring.DISABLE

    def watch(self):
        if self.monitoring is None:
            threading.settrace(self.trace)
            sys.settrace(self.trace)
            return
        mon = self.monitoring
        if self.tool is None:
            free = [n for n in (4, 3, 5, 2, 1, 0) if mon.get_tool(n) is None]
            if not free:
                return
            self.tool = free[0]
            mon.use_tool_id(self.tool, "kai")
            mon.register_callback(self.tool, mon.events.LINE, self.on_line)
        mon.set_events(self.tool, mon.events.LINE)
        mon.restart_events()

    def unwatch(self):
        if self.monitoring is None:
            sys.settrace(None)
            threading.settrace(None)
        elif self.tool is not None:
            self.monitoring.set_events(self.tool, 0)

    def interrupt(self):
        import ctypes
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self.main), ctypes.py_object(TimeoutError))

    def begin(self, name):
        if self.running is not None:
            return
        self.running = name
        self.failed = False
        for lines in self.hits.values():
            lines.clear()
        self.timer = threading.Timer(self.test_s, self.interrupt)
        self.timer.daemon = True
        self.timer.start()
        self.watch()

    def end(self, name, outcome):
        if self.running != name:
            return
        self.unwatch()
        self.running = None
        self.timer.cancel()
        if outcome is not None:
            self.count(0 if outcome == "failed" else 1)

    def count(self, which):
        self.totals[which] += 1
        for name, lines in self.hits.items():
            into = self.counts.setdefault(name, {})
            for line in list(lines):
                into.setdefault(line, [0, 0])[which] += 1

    def write(self):
        if self.running is not None:
            self.unwatch()
            self.running = None
            self.count(0)
        if not any(self.totals):
            return
        import json
        grain = "test" if self.per_test else "process"
        files = [getattr(one, "__file__", None) for one in list(sys.modules.values())]
        loaded = [f[len(self.root):] for f in files if f and f.startswith(self.root)]
        said = {"grain": grain, "totals": self.totals, "loaded": loaded, "files": self.counts}
        place = os.path.join(self.folder, "%d.json" % os.getpid())
        with open(place + ".part", "w") as out:
            json.dump(said, out)
        os.replace(place + ".part", place)

    def give_up(self):
        self.write()
        os._exit(1)

def start():
    import atexit
    probe = Probe()
    atexit.register(probe.write)
    last = threading.Timer(probe.all_s, probe.give_up)
    last.daemon = True
    last.start()
    if not probe.per_test:
        probe.test_s = probe.all_s + 1
        probe.begin("process")
    elif os.environ.get("KAI_PROBE_RUNNER") == "unittest":
        wrap_unittest(probe)
    return probe

def wrap_unittest(probe):
    from unittest.case import TestCase
    run = TestCase.run
    def kai_run(self, result=None):
        name = self.id()
        if result is None:
            return run(self, result)
        bad = lambda: len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
        before, skipped = bad(), len(result.skipped)
        probe.begin(name)
        try:
            return run(self, result)
        finally:
            done = None if len(result.skipped) > skipped else "passed"
            probe.end(name, "failed" if bad() > before else done)
    TestCase.run = kai_run

probe = start() if "KAI_PROBE_FOLDER" in os.environ else None
outcomes = {}

if os.environ.get("KAI_PROBE_RUNNER") == "pytest":
    import pytest

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(item):
        outcomes.clear()
        probe.begin(item.nodeid)
        yield
        probe.end(item.nodeid, outcomes.get("failed") or outcomes.get("call"))

    def pytest_runtest_logreport(report):
        if report.failed:
            outcomes["failed"] = "failed"
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            outcomes["call"] = "passed"
`;

/** Loads the probe before the program, and then whatever the interpreter's own start would have been. */
export const PYTHON_START: string = `
import os, sys
from importlib.machinery import PathFinder

here = os.path.dirname(os.path.abspath(__file__))
if os.environ.get("KAI_PROBE_RUNNER") != "pytest":
    import kai_probe
spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != here])
if spec is not None and spec.loader is not None:
    spec.loader.exec_module(sys.modules[__name__])
`;
