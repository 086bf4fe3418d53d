"""What a run of a test may leave behind in a process, so that it can be seen to have left nothing. PYTEST_DONT_REWRITE"""

import builtins
import collections
import functools
import marshal
import os
import sys
import threading
import types

# Values that are looked at; a project that keeps more in its modules has each candidate in a fork of its own.
VALUES = 4000

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
PLAIN_HOLDERS = (list, tuple, dict, set, frozenset)
# What cannot change, or is nobody's state: it is known again by which it is.
FIXED = (
    types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.MethodWrapperType, range, slice, type(types.GenericAlias(list, int)),
)
FIXED_IN = {
    "re", "datetime", "decimal", "fractions", "uuid", "pathlib", "typing", "operator", "logging", "abc",
    "zoneinfo", "ipaddress", "string", "enum", "_abc",
}
ABSTRACT = {"abc", "typing", "enum"}
OWN_NAMES = {"__builtins__", "__cached__", "__loader__", "__spec__", "__doc__", "__file__"}


LOCKS = (type(threading.Lock()), type(threading.RLock()))


class Unknown(Exception):
    """There is a value whose state cannot be seen."""


class State:
    """The state of the modules below a directory, and of what else a test is given."""

    def __init__(self, inside, roots):
        self.inside, self.roots, self.ours = inside, roots, {}
        # What is loaded later is seen by how many modules there are.
        self.modules = [module for module in list(sys.modules.values()) if self.holds(module)]

    def holds(self, module):
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and os.path.realpath(file).startswith(self.inside)

    def taken(self):
        """A value that is equal to another one only if nothing has changed between them."""
        self.out, self.seen, self.left = [], {}, VALUES
        others = set()
        for module in self.modules:
            for key, value in list(vars(module).items()):
                if key not in OWN_NAMES:
                    self.out.append(key)
                    self.walk(value)
                    if type(value) is types.ModuleType and "pytest" not in value.__name__:
                        others.add(value)
        self.walk(self.roots)
        for module in sorted(others, key=id):
            self.out.append(tuple(map(id, vars(module).values())))
        self.out.append(tuple(map(id, vars(builtins).values())))
        return (self.out, process())

    def has_only_loaded(self, before, after):
        """Whether all that has changed is that modules were loaded, and none of the project's."""
        count = sum(1 for module in list(sys.modules.values()) if self.holds(module))
        return before[0] == after[0] and before[1][1:] == after[1][1:] and count == len(self.modules)

    def walk(self, value):
        self.left -= 1
        if self.left < 0:
            raise Unknown()
        kind = type(value)
        if kind in PLAIN:
            self.out.append((kind.__name__, repr(value) if kind is float or kind is complex else value))
        elif kind is object or kind in FIXED or kind.__module__ in FIXED_IN or kind.__module__.startswith("_pytest"):
            self.out.append(id(value))
        elif id(value) in self.seen:
            self.out.append(("seen", self.seen[id(value)]))
        else:
            self.seen[id(value)] = len(self.seen)
            self.out.append(id(value))
            if kind in PLAIN_HOLDERS:
                try:
                    # The version that says the same of the same, however often each is referred to.
                    self.out.append(marshal.dumps(value, 2))
                    return
                except ValueError:
                    pass
            self.look(value, kind)

    def look(self, value, kind):
        if kind is types.FunctionType:
            self.function(value)
        elif isinstance(value, type):
            if self.is_ours(value):
                self.items(vars(value))
        elif kind is property:
            self.each((value.fget, value.fset, value.fdel))
        elif kind in (staticmethod, classmethod):
            self.walk(value.__func__)
        elif kind is types.MethodType:
            self.each((value.__func__, value.__self__))
        elif kind is functools.partial:
            self.each((value.func, value.args, value.keywords))
        elif kind is functools._lru_cache_wrapper:
            self.out.append(tuple(value.cache_info()))
            self.items(vars(value))
        elif kind is types.CellType:
            try:
                self.walk(value.cell_contents)
            except ValueError:
                pass
        elif kind is types.MappingProxyType:
            self.items(value)
        elif kind in LOCKS:
            self.out.append(repr(value))
        else:
            self.thing(value, kind)

    def function(self, value):
        self.out.append(id(value.__code__))
        if value.__code__.co_filename.startswith(self.inside):
            self.each((value.__defaults__, value.__kwdefaults__, value.__closure__, value.__dict__))

    def thing(self, value, kind):
        base = self.content(value)
        if kind is base:
            return
        # Of a class of theirs: its own attributes, beside what its base holds.
        if not self.is_ours(kind):
            raise Unknown()
        own = getattr(value, "__dict__", None)
        if own is not None:
            self.items(own)
        for above in kind.__mro__:
            names = vars(above).get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                if hasattr(value, name):
                    self.walk(getattr(value, name))

    def content(self, value):
        """Goes through what a container holds; the container that it is, or derives from."""
        if isinstance(value, dict):
            self.items(value)
            for base in (collections.OrderedDict, collections.defaultdict, collections.Counter):
                if isinstance(value, base):
                    if base is collections.defaultdict:
                        self.walk(value.default_factory)
                    return base
            return dict
        for base in (list, tuple, collections.deque):
            if isinstance(value, base):
                self.out.append(len(value))
                self.each(value)
                return base
        for base in (set, frozenset):
            if isinstance(value, base):
                if not all(type(one) in PLAIN for one in value):
                    raise Unknown()
                self.left -= len(value)
                self.out.append(frozenset((type(one).__name__, one) for one in value))
                return base
        if isinstance(value, bytearray):
            self.out.append(bytes(value))
            return bytearray
        for base in type(value).__mro__:
            if base in (int, float, str, bytes):
                self.out.append(base.__repr__(value))
            elif base is not object and not self.is_ours(base) and base.__module__ not in ABSTRACT:
                raise Unknown()
        return None

    def items(self, mapping):
        self.out.append(len(mapping))
        for key, value in list(mapping.items()):
            self.walk(key)
            self.walk(value)

    def each(self, values):
        for value in values:
            self.walk(value)

    def is_ours(self, kind):
        if kind not in self.ours:
            self.ours[kind] = self.holds(sys.modules.get(kind.__module__))
        return self.ours[kind]


def process():
    """What of a process is shared by all that runs in it."""
    return (
        len(sys.modules), dict(os.environ._data), os.getcwd(), list(sys.path), sys.getrecursionlimit(),
        threading.active_count(), sys.gettrace(), sys.getprofile(), len(sys.meta_path),
    )
