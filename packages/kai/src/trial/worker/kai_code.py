"""The functions of a loaded module, replaced by those of another text of its file. PYTEST_DONT_REWRITE"""

import __future__
import ast
import gc
import os
import sys
import types


# Of a code, what `from __future__ import` has set.
FUTURE = 0
for name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, name).compiler_flag


class Broken(Exception):
    """The text does not compile."""


class Unsure(Exception):
    """The change cannot be put into place exactly; it needs a process that loads it anew."""


def compiled(data, path):
    try:
        return compile(data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        raise Broken() from None


class Loaded:
    """What was loaded from below a directory, and which of it has run already."""

    def __init__(self, root):
        self.inside = root + os.sep
        self.executed = set()
        self.functions = {}
        self.modules = {}
        self.codes, self.texts, self.spans = {}, {}, {}

    def profile(self, frame, event, _):
        """A profile function for the time of loading: what has run then has left its traces."""
        if event == "call" and frame.f_code.co_filename.startswith(self.inside):
            self.executed.add(key_of(frame.f_code))

    def index(self):
        """Finds every function that is alive, whoever holds it and however it is wrapped."""
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                self.modules[os.path.realpath(file)] = module
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType:
                if thing.__code__.co_filename.startswith(self.inside):
                    self.functions.setdefault(key_of(thing.__code__), []).append(thing)

    def files(self):
        """The files whose functions can be replaced."""
        paths = {os.path.realpath(key[0]) for key in self.functions}
        return sorted(path for path in paths if is_plain(self.modules.get(path)))

    def replace(self, path, data, everything=False):
        module = self.modules.get(path)
        if not is_plain(module):
            raise Unsure("not loaded, or not as it is")
        return self.put_all(self.base(path, module.__file__), compiled(data, module.__file__), everything)

    def change(self, path, change):
        """Puts a change of a file into place: its whole text, or edits of it as `[from, to, text]`.
        Returns each function that was changed with the code that it had."""
        path = self.inside + path
        if isinstance(change, str):
            return self.replace(path, change.encode())
        module = self.modules.get(path)
        if not is_plain(module):
            raise Unsure("not loaded, or not as it is")
        part = self.part(path, module.__file__, change)
        if part is None:
            return self.replace(path, edited(self.text(path), change).encode())
        return self.put_all(*part, False)

    def put_all(self, old, new, everything):
        found = []
        differences(old, new, found)
        if everything:
            found = [(one, other, False) for one, other in all_pairs(old, new)]
        if any(is_own and key_of(before) in self.executed for before, _, is_own in found):
            raise Unsure("it ran while it was loaded")
        undo = []
        try:
            for before, after, _ in found:
                for function in self.functions.get(key_of(before), []):
                    undo.append((function, function.__code__))
                    put(function, before, after)
        except Unsure:
            for function, code in undo:
                function.__code__ = code
            raise
        return undo

    def base(self, path, file):
        if path not in self.codes:
            self.codes[path] = compile(self.text(path).encode(), file, "exec", dont_inherit=True)
        return self.codes[path]

    def text(self, path):
        """The file as it is in the tree, in characters as they are edited."""
        if path not in self.texts:
            with open(path, "rb") as stream:
                self.texts[path] = stream.read().decode()
        return self.texts[path]

    def warm(self, path):
        """Reads and compiles ahead what each fork would read and compile."""
        file = self.modules[path].__file__
        self.base(path, file)
        self.parts(path)

    def part(self, path, file, edits):
        """The statement at the top of the file that edits lie in, compiled as it is and with them; None where
        the whole file has to be looked at."""
        first, last = edits[0][0], edits[-1][1]
        for start, end, line in self.parts(path):
            if start <= first and last <= end:
                break
        else:
            return None
        flags = self.base(path, file).co_flags & FUTURE
        text = self.text(path)[start:end]
        moved = edited(text, [[a - start, b - start, made] for a, b, made in edits])
        key = (path, start)
        try:
            if moved[-1:] != text[-1:]:
                # It might go on in what follows.
                return None
            if key not in self.codes:
                self.codes[key] = compile("\n" * line + text, file, "exec", flags, dont_inherit=True)
            return self.codes[key], compile("\n" * line + moved, file, "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
            return None

    def parts(self, path):
        """Where the functions and classes at the top of a file begin and end, and how many lines are before."""
        if path in self.spans:
            return self.spans[path]
        text = self.text(path)
        starts = [0]
        # Other ends of lines, and a mark at the beginning, are counted in other ways.
        is_plain_text = not any(one in text for one in "\r\f\v\ufeff\x1c\x1d\x1e\x85\u2028\u2029")
        for line in text.split("\n") if is_plain_text else ():
            starts.append(starts[-1] + len(line) + 1)
        spans = []
        for node in ast.parse(text).body if is_plain_text else ():
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                first = min([node.lineno] + [one.lineno for one in node.decorator_list])
                spans.append((starts[first - 1], starts[node.end_lineno], first - 1))
        self.spans[path] = spans
        return spans


def edited(text, edits):
    made, at = "", 0
    for start, end, new in edits:
        made, at = made + text[at:start] + new, end
    return made + text[at:]


def put(function, before, after):
    # Something rewrote the code when it was loaded, and would do so again.
    if shape(function.__code__) != shape(before):
        raise Unsure("the code is not the file's")
    try:
        function.__code__ = after
    except ValueError:
        raise Unsure("it has other free variables") from None


def is_plain(module):
    return type(getattr(module, "__loader__", None)).__name__ == "SourceFileLoader"


def key_of(code):
    return (code.co_filename, getattr(code, "co_qualname", code.co_name), code.co_firstlineno)


def differences(old, new, found):
    """Collects (old, new, whether it differs itself) of each function that holds a difference."""
    olds, news = inner(old), inner(new)
    is_own = shape(old) != shape(new) or len(olds) != len(news)
    is_below = False
    for one, other in zip(olds, news):
        is_below = differences(one, other, found) or is_below
    if is_own and not is_function(old):
        raise Unsure("what runs at load differs")
    if (is_own or is_below) and is_function(old):
        found.append((old, new, is_own))
    return is_own or is_below


def all_pairs(old, new):
    for one, other in zip(inner(old), inner(new)):
        if is_function(one):
            yield one, other
        yield from all_pairs(one, other)


def inner(code):
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def is_function(code):
    # Of all codes, those of modules and of classes alone have no fast locals.
    return bool(code.co_flags & 0x1)


def shape(code):
    """All that a code does, but for the codes in it, and for where its lines are."""
    return (
        code.co_code, tuple(typed(const) for const in code.co_consts), code.co_names,
        code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_name,
        getattr(code, "co_exceptiontable", b""),
    )


def typed(const):
    """A constant with its type: 1, 1.0 and True are equal, and are not the same."""
    if isinstance(const, types.CodeType):
        return ("code", const.co_name)
    if isinstance(const, tuple):
        return ("tuple",) + tuple(typed(one) for one in const)
    if isinstance(const, frozenset):
        return ("frozenset",) + tuple(sorted(repr(typed(one)) for one in const))
    return (type(const).__name__, repr(const))
