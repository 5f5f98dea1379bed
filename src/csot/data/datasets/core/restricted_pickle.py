"""Pickles that hold arrays, lists, dicts, text and numbers. Anything else is never executed.

A pickle is a program for a small stack machine, which names functions and calls them. This one
knows the instructions that build plain data, looks every name up in a short list that stands for
code of this file, and counts what a program makes it do. Python's own machine has no such bounds:
nine bytes reserve gigabytes, and NumPy believes what a pickle says about its memory.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, FileError, clip, reason
from csot._core.files import open_zip, read_bytes

LARGEST = 512 << 20
"""Bytes; the largest official file has 150 MB."""
STEPS = 2_500_000
"""Instructions and values; the largest official file has some 350,000."""
DEPTH = 32
"""Lists within lists; official files have two levels."""
NUMBERS = re.compile(r"[biuf][0-9]{1,2}")
KEYS = (str, bytes, int, float, bool, type(None))
LARGEST_KEY = 1 << 60
"""Largest integer key of a dict: larger ones can share a hash, which takes quadratic time."""
PLAIN = (*KEYS, np.generic)
MARK = object()


class Refused(Exception):
    """The pickle holds more than data, or too much of it."""


class _Name:
    """A function or class that the pickle names."""

    def __init__(self, module: str, name: str) -> None:
        self.key = (module, name)
        if self.key not in ALLOWED:
            raise Refused(clip(f"{module}.{name}"))


class _Dtype:
    """`numpy.dtype`, of numbers."""

    def __init__(self, code: object) -> None:
        if not isinstance(code, str) or not NUMBERS.fullmatch(code):
            raise Refused("an array of another type than numbers")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def build(self, machine: _Machine, state: Any) -> None:
        """(version, byte order, no parts ...)."""
        _, order, *parts = state
        if order not in ("<", ">", "|", "=") or any(part is not None for part in parts[:3]):
            raise Refused("an array of a type with parts")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """`numpy.core.multiarray._reconstruct`: an empty array, which its state then fills."""

    def __init__(self) -> None:
        self.array: npt.NDArray[Any] = np.empty(0)

    def build(self, machine: _Machine, state: Any) -> None:
        """(version, shape, dtype, whether Fortran's order, content)."""
        _, shape, kind, fortran, raw = state
        numbers = machine.numbers(kind, raw)
        self.array = numbers.reshape(shape, order="F" if fortran else "C")


def _encode(machine: _Machine, text: object, encoding: object = "") -> bytes:
    """`_codecs.encode`: how Python 3 writes bytes for Python 2, and nothing else."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise Refused("an encoding other than latin1")
    machine.charge(len(text))
    return text.encode("latin1")


def _refuse_call(machine: _Machine, *_: object) -> Any:
    raise Refused("a call of numpy.ndarray")


ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _refuse_call,  # named by each array, and never called
    ("numpy", "dtype"): lambda machine, code, *_: _Dtype(code),
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda machine: b"",
}
for _package in ("numpy.core", "numpy._core"):  # before and since NumPy 2
    ALLOWED[f"{_package}.multiarray", "_reconstruct"] = lambda machine, *_: _Array()
    ALLOWED[f"{_package}.multiarray", "scalar"] = lambda machine, kind, raw: machine.numbers(
        kind, raw
    )[0]

# Instructions by what they do; their names are those of `pickletools`.
CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": MARK}
VALUES = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    }
)
EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
IGNORED = frozenset({"PROTO", "FRAME"})


class _Machine:
    """Stack and memory of one pickle."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._stack: list[Any] = []
        self._memory: dict[Any, Any] = {}
        # Every byte of an array is a byte of the file: what needs more was repeated.
        self._bytes_left = len(content)
        self._steps_left = STEPS
        self._does: dict[str, Callable[[Any], None]] = {
            "POP": lambda _: self._drop(),
            "POP_MARK": lambda _: self._drop_marked(),
            "LIST": lambda _: self._stack.append(self._marked()),
            "TUPLE": lambda _: self._stack.append(tuple(self._marked())),
            "DICT": lambda _: self._fill({}, self._marked()),
            "APPEND": lambda _: self._append([self._stack.pop()]),
            "APPENDS": lambda _: self._append(self._marked()),
            "SETITEM": lambda _: self._set([self._stack.pop(-2), self._stack.pop()]),
            "SETITEMS": lambda _: self._set(self._marked()),
            "MEMOIZE": lambda _: self._put(len(self._memory)),
            "GLOBAL": lambda text: self._stack.append(_Name(*text.split(" ", 1))),
            "STACK_GLOBAL": lambda _: self._stack.append(
                _Name(str(self._stack.pop(-2)), str(self._stack.pop()))
            ),
            "REDUCE": lambda _: self._call(),
            "BUILD": lambda _: self._build(),
        }

    def run(self) -> Any:
        """What the pickle holds."""
        for opcode, argument, _ in pickletools.genops(self._content):
            self._step()
            name = opcode.name
            if name in VALUES:
                self._stack.append(argument)
            elif name in PUTS:
                self._put(argument)
            elif name in GETS:
                self._stack.append(self._memory[argument])
            elif name in CONSTANTS:
                self._stack.append(CONSTANTS[name])
            elif name in EMPTY:
                self._stack.append(EMPTY[name]())
            elif name in TUPLES:
                items = [self._stack.pop() for _ in range(TUPLES[name])]
                self._stack.append(tuple(reversed(items)))
            elif name in self._does:
                self._does[name](argument)
            elif name in ("PERSID", "BINPERSID"):
                raise Refused("a reference to something outside of the pickle")
            elif name not in IGNORED and name != "STOP":
                raise Refused(f"the instruction {name}")
        return self._plain(self._stack.pop(), DEPTH)

    def numbers(self, kind: Any, raw: Any) -> npt.NDArray[Any]:
        """A copy of its own: the content of a pickle cannot be written to."""
        if not isinstance(kind, _Dtype) or not isinstance(raw, str | bytes):
            raise Refused("an array that is not made of bytes")
        self.charge(len(raw))
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        return np.frombuffer(content, kind.dtype).copy()

    def charge(self, count: int) -> None:
        self._bytes_left -= count
        # Text is charged twice on its way to an array: once as bytes, once as numbers.
        if self._bytes_left < -len(self._content):
            raise Refused("arrays of more bytes than the file has")

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise Refused(f"more than {STEPS:,} values, where official files have some 350,000")

    def _put(self, index: Any) -> None:
        if index > LARGEST_KEY:
            raise Refused(f"a memory of more than {LARGEST_KEY:,} places")
        self._memory[index] = self._stack[-1]

    def _drop(self) -> None:
        self._stack.pop()

    def _drop_marked(self) -> None:
        self._marked()

    def _marked(self) -> list[Any]:
        """What lies above the last mark."""
        items = []
        while (item := self._stack.pop()) is not MARK:
            items.append(item)
        return items[::-1]

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise Refused("entries for what is not a list")
        target.extend(items)

    def _set(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not dict:
            raise Refused("entries for what is not a dict")
        self._fill(self._stack.pop(), items)

    def _fill(self, target: dict[Any, Any], items: list[Any]) -> None:
        keys = items[::2]
        # Hashing nested tuples overflows the stack of the interpreter.
        if not all(type(key) in KEYS for key in keys):
            raise Refused("a dict whose keys are not text or numbers")
        if any(type(key) is int and abs(key) > LARGEST_KEY for key in keys):
            raise Refused(f"a dict with a key beyond {LARGEST_KEY:,}")
        target.update(zip(keys, items[1::2], strict=True))
        self._stack.append(target)

    def _call(self) -> None:
        arguments = self._stack.pop()
        function = self._stack.pop()
        if not isinstance(function, _Name) or type(arguments) is not tuple:
            raise Refused("a call of what is not a function")
        self._stack.append(ALLOWED[function.key](self, *arguments))

    def _build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if not isinstance(target, _Array | _Dtype) or type(state) is not tuple:
            raise Refused(f"a state for {type(target).__name__}")
        target.build(self, state)

    def _plain(self, value: Any, depth: int) -> Any:
        """Stand-ins for arrays become arrays; what is referred to twice counts twice."""
        self._step()
        if depth < 0:
            raise Refused(f"more than {DEPTH} levels of lists")
        if isinstance(value, _Array):
            return value.array
        if type(value) is dict:
            return {key: self._plain(entry, depth - 1) for key, entry in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self._plain(entry, depth - 1) for entry in value])
        if isinstance(value, PLAIN):
            return value
        raise Refused(f"a {type(value).__name__}")


def read_pickle(path: Path) -> Any:
    """What the file holds. Text of Python 2 is read as latin1, so keys are `str`."""
    try:
        return loads(read_bytes(path, LARGEST), path)
    except FileError as error:
        raise DataError(str(error)) from error


def read_torch_zip(path: Path) -> Any:
    """What `torch.save` wrote, where that is arrays and lists, not tensors."""
    try:
        with open_zip(path, "a file of torch.save, or is cut", "get it again") as archive:
            inner = [info for info in archive.infolist() if info.filename.endswith("data.pkl")]
            if len(inner) != 1 or inner[0].file_size > LARGEST:
                raise DataError(f"{path} is not a file of torch.save: it holds no single data.pkl")
            content = archive.read(inner[0])
    except FileError as error:
        raise DataError(str(error)) from error
    except Exception as error:  # a damaged member raises many kinds
        raise DataError(
            f"{path} is not a file of torch.save, or is cut ({reason(error)}); get it again"
        ) from error
    return loads(content, path)


def loads(content: bytes, path: Path) -> Any:
    """The value of a pickle; `path` is for the error."""
    try:
        return _Machine(content).run()
    except Refused as error:
        raise DataError(
            f"{path} is cut, or holds more than arrays, lists, text and numbers: {error}. Pickles "
            "can run code, so it is not read; get the official file"
        ) from error
    except Exception as error:  # a broken pickle raises nearly anything
        raise DataError(
            f"{path} is not a readable pickle ({reason(error)}); get the file again"
        ) from error
