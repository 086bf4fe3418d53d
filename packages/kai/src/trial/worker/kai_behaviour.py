"""Says what a function does under several texts of its file; a pytest plugin, loaded with `-p`. PYTEST_DONT_REWRITE

While the tests run it notes what the function is called with. After them it makes other inputs like
these, and each text answers all of them in a fork of its own. KAI_BEHAVIOUR names a JSON file: the file,
the function, the texts, the limits, and where the answers go.
"""

import copy
import itertools
import json
import os
import random
import re
import select
import signal
import sys
import time
import types

from kai_code import Broken, Loaded, Unsure

PLAN = None
SHOWN = 160
DEPTH = 8
LENGTH = 200
# A test that calls so often with nothing new is not watched to its end, which would take many times as long.
IDLE = 100_000
ROUNDS = 3
ENOUGH = 60

calls, seen = [], set()
idle = 0


def matches(code):
    return (
        os.path.realpath(code.co_filename) == PLAN["path"]
        and code.co_name == PLAN["name"]
        and PLAN["firstLine"] <= code.co_firstlineno <= PLAN["lastLine"]
    )


known = {}


def watch(frame, event, _):
    global idle
    idle += 1
    if idle > IDLE or len(calls) >= PLAN["callCount"]:
        sys.setprofile(None)
        return
    code = frame.f_code
    wanted = known.get(code)
    if wanted is None:
        wanted = known[code] = matches(code)
    if not wanted or event != "call":
        return
    sys.setprofile(None)
    try:
        note(frame, code)
    except BaseException:
        pass
    finally:
        sys.setprofile(watch)


def note(frame, code):
    global idle
    if code.co_flags & 0x0C or code.co_kwonlyargcount:
        return
    names = code.co_varnames[: code.co_argcount]
    args = [frame.f_locals[name] for name in names]
    key = shown(args)
    if key in seen:
        return
    seen.add(key)
    idle = 0
    calls.append(copy.deepcopy(args))


# Other inputs like those ---------------------------------------------------------------------------


def others(value, chance, level=0):
    """Values like this one, each changed in one place."""
    if level > 3:
        return
    if value is True or value is False:
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 0, 1, -value, value * 2, value + chance.randint(2, 12))
    elif isinstance(value, float):
        yield from (value + 0.5, value - 1.0, 0.0, -value, value * 2, float(round(value)), value + 1e-3)
    elif isinstance(value, str):
        yield from texts(value, chance)
    elif isinstance(value, (list, tuple)):
        kind = type(value)
        for made in lists(list(value), chance, level):
            try:
                yield made if kind is list else kind(made)
            except Exception:
                return
    elif isinstance(value, dict):
        for key in list(value)[:4]:
            yield {k: v for k, v in value.items() if k != key}
            for other in itertools.islice(others(value[key], chance, level + 1), 3):
                yield {**value, key: other}
        yield {}
    elif isinstance(value, (set, frozenset)):
        items = sorted(value, key=repr)
        if items:
            yield type(value)(items[1:])
            for other in itertools.islice(others(items[0], chance, level + 1), 2):
                try:
                    yield type(value)([*items, other])
                except TypeError:
                    pass


def texts(value, chance):
    yield ""
    if value:
        at = chance.randrange(len(value))
        yield value[1:]
        yield value[:-1]
        yield value[:at] + value[at + 1:]
        yield value + value[at]
        yield value[::-1]
        yield value.swapcase()
        other = chance.randrange(len(value))
        yield value[:at] + value[other] + value[at + 1:]
        word = value.split(" ")
        if len(word) > 1:
            chance.shuffle(word)
            yield " ".join(word)
            yield " ".join(word[:-1])
        yield value + value
        yield re.sub(r"\d+", lambda match: str(int(match.group()[:15]) + chance.randint(1, 5)), value)
    yield value + chance.choice("abcxyzAEIOU 019.,-()")


def lists(value, chance, level):
    yield []
    if value:
        at = chance.randrange(len(value))
        yield value[1:]
        yield value[:-1]
        yield value[:at] + value[at + 1:]
        yield value + [value[at]]
        yield value[::-1]
        mixed = list(value)
        chance.shuffle(mixed)
        yield mixed
        try:
            yield sorted(value)
        except TypeError:
            pass
        yield value + value
        for at in {0, len(value) - 1, at}:
            for other in itertools.islice(others(value[at], chance, level + 1), 7):
                yield [*value[:at], other, *value[at + 1:]]
                yield [*value, other]


def inputs():
    chance = random.Random(1)
    made = list(calls)
    told = {shown(args) for args in made}
    last = calls
    for _ in range(ROUNDS):
        before = len(made)
        if before >= PLAN["inputCount"] or not last:
            break
        extend(made, told, last, chance)
        # What a few inputs lead to is too little to tell by; then it is gone further from them.
        last = made[before:] if len(made) < ENOUGH else []
    return made


def extend(made, told, last, chance):
    rounds = []
    for args in last:
        fresh = []
        for at, value in enumerate(args):
            for other in itertools.islice(others(value, chance), 40):
                fresh.append([*args[:at], other, *args[at + 1:]])
        chance.shuffle(fresh)
        rounds.append(fresh)
    for one, other in itertools.islice(itertools.permutations(last, 2), 40):
        if len(one) > 1 and len(one) == len(other):
            at = chance.randrange(len(one))
            rounds.append([[*one[:at], other[at], *one[at + 1:]]])
    # A few of each call before many of one.
    for batch in itertools.zip_longest(*rounds):
        for args in batch:
            if args is None or len(made) >= PLAN["inputCount"]:
                continue
            key = shown(args)
            if key not in told:
                told.add(key)
                made.append(args)


# What came of them ---------------------------------------------------------------------------------


def shown(value, level=0, over=()):
    """A text that two values share only if they are alike, also those that are equal and of other kinds."""
    if level > DEPTH or id(value) in over:
        return "…"
    inner = (*over, id(value))
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value)[:2000]
    if isinstance(value, float):
        return "%.9g" % value
    if isinstance(value, dict):
        parts = [f"{shown(k, level + 1, inner)}: {shown(v, level + 1, inner)}" for k, v in list(value.items())[:LENGTH]]
        return type(value).__name__ + "{" + ", ".join(parts) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(shown(one, level + 1, inner) for one in list(value)[:LENGTH])) + "}"
    if isinstance(value, (list, tuple)):
        ends = "[]" if isinstance(value, list) else "()"
        return ends[0] + ", ".join(shown(one, level + 1, inner) for one in value[:LENGTH]) + ends[1]
    if isinstance(value, (types.GeneratorType, map, filter, zip, range, reversed)):
        return type(value).__name__ + shown(list(itertools.islice(value, LENGTH)), level + 1, inner)
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        return type(value).__name__ + shown(own, level + 1, inner)
    return re.sub("0x[0-9a-f]+", "0x", repr(value))[:2000]


class Late(BaseException):
    pass


def late(*_):
    raise Late()


def answer(function, args):
    """What a call comes to: `v` and what it returns and leaves in its arguments, `e` and what is raised, or `t`."""
    try:
        own = copy.deepcopy(args)
        signal.setitimer(signal.ITIMER_REAL, PLAN["callMs"] / 1000)
        try:
            got = function(*own)
            text = "v" + shown(got)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        left = shown(own)
        return text if left == shown(args) else text + " leaving " + left
    except Late:
        return "t"
    except RecursionError:
        return "t"
    except BaseException as error:
        return "e" + type(error).__name__


def evaluate(loaded, text, made, pipe):
    signal.signal(signal.SIGALRM, late)
    function = replaced(loaded, text)
    until = time.monotonic() + PLAN["textMs"] / 1000
    for args in made:
        said = "u" if time.monotonic() > until else answer(function, args)
        os.write(pipe, (json.dumps(said[:SHOWN * 20]) + "\n").encode())


def replaced(loaded, text):
    """The function as that text has it."""
    name = PLAN["qualified"]
    try:
        loaded.replace(PLAN["path"], text.encode())
        found = [
            function
            for key, functions in loaded.functions.items()
            for function in functions
            if os.path.realpath(key[0]) == PLAN["path"] and key[2] in PLAN["lines"] and function.__name__ == PLAN["name"]
        ]
        if found:
            return found[0]
    except Unsure:
        pass
    space = {"__name__": "kai_alone", "__file__": PLAN["path"]}
    exec(compile(text, PLAN["path"], "exec", dont_inherit=True), space)
    at = types.SimpleNamespace(**space)
    for part in name.split("."):
        at = getattr(at, part)
    return at


def forked(loaded, text, made):
    pipe, other = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(pipe)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        try:
            evaluate(loaded, text, made, other)
        except BaseException:
            pass
        os._exit(0)
    os.close(other)
    return pid, pipe


def collected(pid, pipe):
    data, until = b"", time.monotonic() + PLAN["textMs"] / 1000 + 1
    while time.monotonic() < until:
        ready, _, _ = select.select([pipe], [], [], max(0, until - time.monotonic()))
        part = os.read(pipe, 1 << 16) if ready else b""
        if not part:
            break
        data += part
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    os.waitpid(pid, 0)
    os.close(pipe)
    lines = data.split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def compare():
    sys.setprofile(None)
    if not calls:
        return {"inputs": [], "called": 0, "outcomes": []}
    loaded = Loaded(PLAN["root"])
    loaded.index()
    made = inputs()
    outcomes = []
    for text in PLAN["texts"]:
        got = collected(*forked(loaded, text, made))
        outcomes.append(got + ["u"] * (len(made) - len(got)))
    texts = [shown(args)[1:-1][:SHOWN] for args in made]
    return {"inputs": texts, "called": len(calls), "outcomes": outcomes}


# What pytest calls ---------------------------------------------------------------------------------


def pytest_configure(config):
    global PLAN
    path = os.environ.pop("KAI_BEHAVIOUR", None)
    if path is None:
        return
    with open(path, encoding="utf-8") as stream:
        PLAN = json.load(stream)
    PLAN["path"] = os.path.realpath(PLAN["path"])
    PLAN["lines"] = range(PLAN["firstLine"], PLAN["lastLine"] + 1)


def pytest_runtest_setup():
    global idle
    if PLAN is not None:
        idle = 0
        sys.setprofile(watch)


def pytest_sessionfinish(session):
    if PLAN is None:
        return
    sys.setprofile(None)
    said = compare()
    with open(PLAN["out"], "w", encoding="utf-8") as stream:
        json.dump(said, stream)
