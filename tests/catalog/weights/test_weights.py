"""Files of weights: plain data comes in, code never runs, and nothing unfolds without bounds."""

from __future__ import annotations

import argparse
import io
import pickle
import struct
import sys
import tarfile
import threading
import time
import tracemalloc
import types
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from catalog.models import find
from catalog.models.base import KeyRules
from catalog.weights import pickle_scan
from catalog.weights.content import Weights
from catalog.weights.fitting import without_classifier
from catalog.weights.pickle_scan import Inert, PickleBombError, names_asked_for
from catalog.weights.reading import read_content
from catalog.weights.strict_loading import load_weights
from survey.errors import CheckpointError

STATE = {"conv.weight": torch.arange(24.0).reshape(2, 3, 2, 2), "fc.bias": torch.ones(5)}


def _saved(path: Path, payload: object, **options: Any) -> Path:
    torch.save(payload, path, **options)
    return path


def _refused(path: Path, words: str) -> CheckpointError:
    with pytest.raises(CheckpointError, match=words) as caught:
        read_content(path).weights()
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def _assert_state(weights: Weights) -> None:
    assert weights.tensors.keys() == STATE.keys()
    assert all(torch.equal(weights.tensors[key], STATE[key]) for key in STATE)


# Plain data beside the weights.

HARMLESS: dict[str, Callable[[], object]] = {
    "namespace": lambda: argparse.Namespace(lr=0.1, inner=argparse.Namespace(dims=(1, 2))),
    "float": lambda: np.float64(0.5),
    "integer": lambda: np.int64(3),
    "dtype": lambda: np.dtype("float32"),
    "array": lambda: np.arange(6).reshape(2, 3),
    "random state": lambda: np.random.RandomState(0).get_state(),
    "defaultdict": lambda: defaultdict(list, a=[1], b=[2]),
    "counter": lambda: Counter({10: 1, 20: 1}),
    "path": lambda: PurePosixPath("runs/1"),
    "version": lambda: torch.__version__,
    "torch": lambda: (torch.device("cuda:1"), torch.Size([2]), torch.float16, torch.strided),
    "set": lambda: {1, 2},
    "bytes": lambda: b"\x00\xff",
}


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless_objects_beside_the_weights_are_left_out(
    tmp_path: Path, kind: str, zipped: bool
) -> None:
    payload = {"state_dict": STATE, "extra": HARMLESS[kind](), "list": [HARMLESS[kind]()]}
    path = _saved(tmp_path / "file", payload, _use_new_zipfile_serialization=zipped)
    _assert_state(read_content(path).weights())


def test_no_object_of_another_class_is_made(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", {**STATE, "args": argparse.Namespace(lr=1)})
    payload = read_content(path).payload
    assert isinstance(payload, dict)
    assert type(payload["args"]) is Inert
    assert read_content(path).weights().dropped_keys == ("args",)


def test_paths_of_newer_pythons_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PurePosixPath, "__module__", "pathlib._local")
    module = types.ModuleType("pathlib._local")
    module.PurePosixPath = PurePosixPath  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pathlib._local", module)
    path = _saved(tmp_path / "file", {"state_dict": STATE, "extra": PurePosixPath("runs/1")})
    assert b"pathlib._local" in path.read_bytes()
    _assert_state(read_content(path).weights())


def test_old_names_of_numpy_are_known(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({**STATE, "best": np.float64(1.0)}, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(tmp_path / "file", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("data.pkl"):
                assert b"numpy._core.multiarray" in content
                content = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            new.writestr(name, content)
    assert read_content(tmp_path / "file").weights().dropped_keys == ("best",)


def test_a_history_of_losses_names_methods_that_are_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    class HistoryBuffer:
        def __init__(self) -> None:
            self.values = np.arange(3)
            self.methods = {"mean": HistoryBuffer.mean}

        @classmethod
        def mean(cls) -> None:
            """Give a mean; its name in a pickle is a call of getattr."""

        def __setstate__(self, state: object) -> None:
            looked_up.append(state)

    name = "mmengine.logging.history_buffer"
    module = types.ModuleType(name)
    module.HistoryBuffer = HistoryBuffer  # type: ignore[attr-defined]
    HistoryBuffer.__module__, HistoryBuffer.__qualname__ = name, "HistoryBuffer"
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "mmengine", types.ModuleType("mmengine"))
    monkeypatch.setitem(sys.modules, "mmengine.logging", types.ModuleType("mmengine.logging"))
    path = _saved(tmp_path / "file", {"state_dict": STATE, "message_hub": [HistoryBuffer()]})
    _assert_state(read_content(path).weights())
    assert looked_up == []


def test_stand_ins_are_taken_back_and_many_may_read_at_once(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", {**STATE, "args": argparse.Namespace(lr=1)})
    failed = []
    before = set(torch.serialization.get_safe_globals())

    def read() -> None:
        try:
            for _ in range(5):
                read_content(path).weights()
        except CheckpointError as problem:
            failed.append(problem)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(torch.serialization.get_safe_globals()) == before
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):
        torch.load(path, weights_only=True)


# Where files were written.


def test_files_from_a_gpu_come_to_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for zipped in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:3")
            path = _saved(tmp_path / "file", STATE, _use_new_zipfile_serialization=zipped)
        assert b"cuda:3" in path.read_bytes()
        weights = read_content(path).weights()
        assert {tensor.device.type for tensor in weights.tensors.values()} == {"cpu"}
        _assert_state(weights)


def test_a_file_of_weights_may_stand_in_a_zip_archive(tmp_path: Path) -> None:
    for zipped in (True, False):
        inner = _saved(tmp_path / "inner", STATE, _use_new_zipfile_serialization=zipped)
        with zipfile.ZipFile(tmp_path / "outer.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/", "")
            archive.writestr("folder/weights.pth.tar", inner.read_bytes())
            archive.writestr("__MACOSX/._weights.pth.tar", b"x")
        _assert_state(read_content(tmp_path / "outer.zip").weights())


def test_a_zip_archive_must_hold_one_file_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
        archive.writestr("b.txt", "x")
    _refused(path, r"2 files \(a.txt, b.txt\)")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "these are no weights")
    _refused(path, "damaged")
    nested = path.read_bytes()
    for _ in range(3):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.zip", nested)
        nested = path.read_bytes()
    _refused(path, "damaged")


def test_other_kinds_of_files_are_called_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for start, words in [
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x93NUMPY\x01\x00", "numpy"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\xef\xbb\xbf<html>quota exceeded</html>", "web page"),
    ]:
        path.write_bytes(start + bytes(100))
        _refused(path, words)
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    _refused(path, "tar archive")


def test_a_plain_pickle_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for payload in ({"a": 1}, {f"layer{i}": [0.1] * 9 for i in range(20)}):
        for protocol in (0, 2, 4):
            path.write_bytes(pickle.dumps(payload, protocol))
            _refused(path, "plain pickle")


def test_a_late_protocol_is_called_one(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", STATE, pickle_protocol=4)
    assert "torch.save" in str(_refused(path, "safely").hint)


# What would run code or unfold.


class _Call:
    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def _jax_array(*_: object) -> None:
    """Stand where a pickle asks for an array of JAX."""


@pytest.mark.parametrize("form", ["zip", "legacy", "plain", "small"])
def test_a_pickle_of_jax_is_called_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    module = types.ModuleType("jaxlib")
    module._jax_array = _jax_array  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jaxlib", module)
    monkeypatch.setattr(_jax_array, "__module__", "jaxlib")
    payload: Any = _Call(_jax_array, 1)
    path = tmp_path / "pretrain.pkl"
    if form in {"zip", "legacy"}:
        _saved(path, {**STATE, "x": payload}, _use_new_zipfile_serialization=form == "zip")
    else:
        path.write_bytes(pickle.dumps([payload, *range(99 if form == "plain" else 0)]))
    error = _refused(path, r"JAX.* jaxlib\._jax_array")
    assert "padding" in str(error.hint)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_what_asks_for_the_system_is_refused_by_name(tmp_path: Path, zipped: bool) -> None:
    import os

    victim = tmp_path / "victim"
    payload = {**STATE, "x": _Call(os.mkdir, str(victim))}
    path = _saved(tmp_path / "file", payload, _use_new_zipfile_serialization=zipped)
    _refused(path, r"asks for posix\.mkdir")
    path.write_bytes(pickle.dumps(_Call(os.mkdir, str(victim))))
    _refused(path, r"asks for posix\.mkdir")
    assert not victim.exists()


def test_a_stand_in_for_getattr_gives_nothing_to_call(tmp_path: Path) -> None:
    payload = {**STATE, "x": _Call(getattr, argparse.Namespace(), "__init__")}
    assert read_content(_saved(tmp_path / "file", payload)).weights().dropped_keys == ("x",)
    program = b"\x80\x02cbuiltins\ngetattr\ncargparse\nNamespace\nX\x04\x00\x00\x00exit\x86R)R."
    with pytest.raises(CheckpointError):
        read_content(_with_program(tmp_path, program)).weights()


def _with_program(folder: Path, program: bytes) -> Path:
    """Return an archive of torch's whose pickle is this one."""
    path = folder / "crafted"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", "3\n")
    return path


def _nested(levels: int, inner: bytes, join: bytes) -> bytes:
    """Return a program that joins a value with itself, again and again: 2 ** levels values."""
    program = inner + b"q\x00"
    for level in range(levels):
        program += b"h" + bytes([level]) + join + b"q" + bytes([level + 1])
    return program


@pytest.mark.parametrize("levels", [25, 100])
def test_a_key_that_unfolds_without_end_is_never_hashed(tmp_path: Path, levels: int) -> None:
    program = b"\x80\x02}" + _nested(levels, b"K\x01", b"\x86") + b"K\x01s."
    _refused(_with_program(tmp_path, program), "1,000,000 nested")
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2)
    (tmp_path / "legacy").write_bytes(magic + program)
    _refused(tmp_path / "legacy", "1,000,000 nested")


def test_lists_filled_after_they_were_nested_are_seen(tmp_path: Path) -> None:
    # All lists are made empty, then each is put twice into the next, the outermost first.
    program = b"\x80\x02" + b"".join(b"]q" + bytes([i]) for i in range(40))
    for i in range(39):
        program += b"h" + bytes([i]) + b"(h" + bytes([i + 1]) + b"h" + bytes([i + 1]) + b"e0"
    program += b"ctorch\nTensor\nh\x00\x85R."
    _refused(_with_program(tmp_path, program), "1,000,000 nested")


def _saved_key(inner: bytes) -> bytes:
    return b"\x80\x02}" + inner + b"K\x01s."


def test_a_list_that_holds_itself_takes_no_memory() -> None:
    program = b"\x80\x02]q\x00(" + b"h\x00" * 100 + b"e0}h\x00K\x01s."
    tracemalloc.start()
    try:
        with pytest.raises(PickleBombError, match="unfolds"):
            names_asked_for(io.BytesIO(program))
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_a_mark_is_no_value() -> None:
    for operations in (b"K\x01b.", b"K\x01a.", b"\x85."):
        with pytest.raises(pickle.UnpicklingError, match="mark"):
            names_asked_for(io.BytesIO(b"\x80\x02(" + operations))
    # Only POP may take one; text protocols end recursive tuples so.
    assert names_asked_for(io.BytesIO(b"(0K\x01.")) == []


def test_a_key_nested_too_deep_is_never_hashed(tmp_path: Path) -> None:
    program = _saved_key(b"K\x01" + b"\x85" * 400_000)
    # By itself first: hashing such a key overflows the stack, and would end the tests.
    with pytest.raises(PickleBombError, match="200 deep"):
        names_asked_for(io.BytesIO(program))
    _refused(_with_program(tmp_path, program), "200 deep")


@pytest.mark.parametrize("kind", ["dict", "counter"])
def test_keys_made_to_have_one_hash_are_not_hashed(tmp_path: Path, kind: str) -> None:
    numbers = (pickle.encode_long((2**61 - 1) * (10**6 + i)) for i in range(6_000))
    keys = b"".join(b"\x8a" + bytes([len(key)]) + key + b"K\x01" for key in numbers)
    program = b"\x80\x02}(" + keys + b"u."
    if kind == "counter":
        program = b"\x80\x02ccollections\nCounter\n](" + keys + b"e\x85R."
    started = time.process_time()
    _refused(_with_program(tmp_path, program), "5,000 keys")
    assert time.process_time() - started < 5


def test_plain_keys_may_be_many(tmp_path: Path) -> None:
    # More than may be odd, of each kind.
    steps = dict.fromkeys(range(6_000), 0.5) | {f"step {step}": 1 for step in range(6_000)}
    weights = read_content(
        _saved(tmp_path / "file", {"state_dict": STATE, "history": steps})
    ).weights()
    _assert_state(weights)


@pytest.mark.parametrize("name", ["Tensor", "FloatTensor", "storage.UntypedStorage"])
def test_a_tensor_made_of_a_number_is_refused(tmp_path: Path, name: str) -> None:
    # Its values would be whatever the memory held, and its size any.
    package, _, kind = f"torch.{name}".rpartition(".")
    for arguments in (b"K\x05\x85", b"U\x05\x01\x01\x01\x01\x01"):
        program = f"c{package}\n{kind}\n".encode() + arguments + b"R"
        path = _with_program(tmp_path, b"\x80\x02}X\x01\x00\x00\x00w" + program + b"s.")
        _refused(path, f"calls torch.{name} ")


class _Disguised:
    """A dict that is saved with attributes in the place of its methods."""

    def __init__(self, content: dict[str, Any], **attributes: object) -> None:
        self.saved = content, {**dict.fromkeys(["items", "get", "keys"], 1), **attributes}

    def __reduce__(self) -> tuple[Any, ...]:
        content, attributes = self.saved
        return OrderedDict, (), attributes, None, iter(content.items())


def test_a_dicts_attributes_are_not_its_content(tmp_path: Path) -> None:
    state = _Disguised(STATE, _metadata=_Disguised({"conv": {"version": 2}}))
    path = _saved(tmp_path / "file", _Disguised({"state_dict": state}))
    for container in ((), ("state_dict",)):
        weights = read_content(path).weights(container)
        _assert_state(weights)
        assert weights.versions == {"conv": {"version": 2}}
    with pytest.raises(CheckpointError, match="a dict with the keys state_dict"):
        read_content(path).weights(("model",))


class _Attributed:
    """A tensor that is saved with attributes in the place of its methods."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = self.tensor.__reduce_ex__(2)
        methods = dict.fromkeys(["to", "is_complex", "is_floating_point", "detach"], 1)
        call = (function, torch.Tensor, arguments, methods)
        return torch._tensor._rebuild_from_type_v2, call


def test_a_tensors_attributes_are_not_its_methods(tmp_path: Path) -> None:
    state = {"weight": torch.full((1, 2), 3.0), "bias": torch.ones(1)}
    path = _saved(tmp_path / "file", {key: _Attributed(t) for key, t in state.items()})
    model = nn.Linear(2, 1)
    load_weights(model, path, "test:linear")
    assert all(torch.equal(t, state[key]) for key, t in model.state_dict().items())


def test_values_that_float32_cannot_hold_are_refused(tmp_path: Path) -> None:
    for value, fits in [(1e300, False), (1e30, True), (float("inf"), True), (float("nan"), True)]:
        state = {"weight": torch.full((1, 2), value, dtype=torch.float64), "bias": torch.ones(1)}
        path = _saved(tmp_path / "file", state)
        if fits:
            load_weights(nn.Linear(2, 1), path, "test:linear")
        else:
            with pytest.raises(CheckpointError, match=r"weight .*float32"):
                load_weights(nn.Linear(2, 1), path, "test:linear")


@pytest.mark.parametrize(
    ("dtype", "place", "value", "fits"),
    [
        (torch.bfloat16, torch.int64, 255.0, True),
        (torch.bfloat16, torch.int64, 300.0, False),
        (torch.float16, torch.int64, 2047.0, True),
        (torch.float16, torch.int64, 3000.0, False),
        (torch.float32, torch.int64, 3000.0, True),
        (torch.float32, torch.int64, 1.5, False),
        (torch.float32, torch.float16, 1e6, False),
        (torch.float32, torch.float16, 1.5, True),
        (torch.int32, torch.int64, 3000, True),
        (torch.int64, torch.uint8, 255, True),
        (torch.int64, torch.uint8, 300, False),
        (torch.float32, torch.complex64, 1e9, True),
    ],
)
def test_values_that_a_buffer_cannot_hold_are_refused(
    tmp_path: Path, dtype: torch.dtype, place: torch.dtype, value: float, fits: bool
) -> None:
    model = nn.BatchNorm1d(1)
    model.register_buffer("index", torch.zeros(1, dtype=place))
    state = {**model.state_dict(), "index": torch.tensor([value], dtype=dtype)}
    # Nobody reads the counter.
    state["num_batches_tracked"] = torch.tensor(3000.0, dtype=torch.bfloat16)
    path = _saved(tmp_path / "file", state)
    if fits:
        load_weights(model, path, "test:net")
        assert model.index.tolist() == [value]
    else:
        with pytest.raises(CheckpointError, match=r"index .*cannot hold"):
            load_weights(model, path, "test:net")


def test_single_numbers_and_lazy_layers_are_taken_as_torch_takes_them(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(2), nn.PReLU())
    model[1].weight = nn.Parameter(torch.tensor(0.25))
    state = {"0.weight": torch.ones(2, 3), "0.bias": torch.ones(2), "1.weight": torch.ones(1)}
    load_weights(model, _saved(tmp_path / "file", state), "test:net")
    assert torch.equal(model[0].weight, torch.ones(2, 3))
    assert model[1].weight.shape == ()
    with pytest.raises(CheckpointError, match="of another shape"):
        load_weights(nn.Sequential(nn.Linear(2, 2), nn.PReLU()), tmp_path / "file", "test:net")


def test_names_of_a_file_are_shown_short_and_plain(tmp_path: Path) -> None:
    hostile = {"\x1b[2Jgone": torch.ones(1), "x" * 100_000: torch.ones(1)}
    path = _saved(tmp_path / "file", hostile)
    with pytest.raises(CheckpointError, match="does not fit") as caught:
        load_weights(nn.Linear(1, 1), path, "test:linear")
    program = b"\x80\x02cpos\x1b[2Jix\n" + b"y" * 5_000 + b"\n)R."
    asked = _refused(_with_program(tmp_path, program), "it asks for pos")
    for message in (caught.value.message, asked.message):
        assert message.isprintable()
        assert len(message) < 1_000


def test_a_key_of_many_parts_is_answered_at_once(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", {"a." * 200_000 + "weight": torch.ones(1)})
    started = time.process_time()
    with pytest.raises(CheckpointError, match="does not fit"):
        load_weights(nn.Linear(1, 1), path, "test:linear")
    assert time.process_time() - started < 5


def _records(files: dict[str, bytes], start: int) -> tuple[bytes, bytes]:
    """Return files as an archive holds them from a place on, and the list of them."""
    body = listed = b""
    for name, content in files.items():
        sizes = (zlib.crc32(content), len(content), len(content), len(name), 0)
        place = start + len(body)
        body += struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, *sizes)
        body += name.encode() + content
        versions = (20, 20, 0, 0, 0, 0)
        listed += struct.pack("<4s6H3I5H2I", b"PK\1\2", *versions, *sizes, 0, 0, 0, 0, place)
        listed += name.encode()
    return body, listed


def _files_of(payload: object) -> dict[str, bytes]:
    saved = io.BytesIO()
    torch.save(payload, saved)
    with zipfile.ZipFile(saved) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _with_two_lists(shown: object, hidden: object) -> bytes:
    """Return an archive in which Python finds one list of files, and torch another."""
    content, places = b"", []
    for payload in (hidden, shown):
        files = _files_of(payload)
        body, listed = _records(files, len(content))
        content += body
        start = len(content)
        content += listed
        places.append(len(content))
        counts = (44, 45, 45, 0, 0, len(files), len(files), len(listed), start)
        content += struct.pack("<4sQ2H2I4Q", b"PK\6\6", *counts)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, places[0], 1)
    return (
        content
        + locator
        + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    )


def test_an_archive_that_reads_in_two_ways_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(_with_two_lists(shown={"a": torch.ones(1)}, hidden={"b": torch.zeros(1)}))
    # Or the test would prove nothing.
    assert torch.load(path, weights_only=True).keys() == {"b"}
    _refused(path, "ambiguous")
    for before, after in [(b"", b"PK\5\6" + bytes(18)), (b"PK\3\4", b"")]:
        _saved(path, STATE)
        path.write_bytes(before + path.read_bytes() + after)
        with pytest.raises(CheckpointError):
            read_content(path).weights()


def test_a_buffer_of_any_length_is_not_made(tmp_path: Path) -> None:
    # Here of nine bytes, so that the test does no harm where it fails.
    program = b"\x80\x02cbuiltins\nbytearray\nK\x09\x85R."
    _refused(_with_program(tmp_path, program), r"asks for builtins\.bytearray")


def test_a_pickle_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_scan, "MOST_OPERATIONS", 500)
    program = b"\x80\x02]" + b"K\x01a" * 1000 + b"."
    _refused(_with_program(tmp_path, program), "500 operations")


def test_an_archive_that_unpacks_to_far_more_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    for name in ("archive/data.pkl", "weights.pth"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, bytes(2**25))
        _refused(path, "33,554,432 bytes")


@pytest.mark.parametrize("name", ["archive/data.pkl", "weights.pth"])
def test_a_list_that_lies_about_sizes_makes_no_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(2**26))
    listed = bytearray(path.read_bytes())
    size = listed.rindex(b"PK\1\2") + 24
    listed[size : size + 4] = struct.pack("<I", 1000)
    path.write_bytes(listed)
    tracemalloc.start()
    try:
        _refused(path, "damaged")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_flipped_byte_is_refused_wherever_it_lies(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", STATE)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        (weights,) = (m for m in archive.infolist() if m.filename.endswith("data/0"))
    start = whole.index(STATE["conv.weight"].numpy().tobytes())
    for place in range(start, start + weights.file_size, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        # torch itself sees nothing.
        assert torch.load(path, weights_only=True).keys() == STATE.keys()
        _refused(path, "damaged")


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_more_tensors_than_any_network_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    many = {str(number): torch.ones(1) for number in range(20)}
    path = _saved(tmp_path / "file", many, _use_new_zipfile_serialization=zipped)
    assert len(read_content(path).weights().tensors) == 20
    safetensors.torch.save_file(many, tmp_path / "safe")
    monkeypatch.setattr(pickle_scan, "MOST_TENSORS", 19)
    _refused(path, "more than 19 tensors")
    _refused(tmp_path / "safe", "more than 19 tensors")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_an_archive_with_one_name_twice_is_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", STATE)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("file/data.pkl", b"\x80\x02}.")
    _refused(path, "two files of one name")


def test_a_second_program_is_looked_at_too(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", STATE)
    with zipfile.ZipFile(path, "a") as archive:
        program = b"\x80\x02}" + _nested(60, b"K\x01", b"\x86") + b"K\x01s."
        archive.writestr("other/DATA.PKL", program)
    _refused(path, "unfolds")


def test_a_tensor_that_claims_any_size_is_refused_before_it_is_made(tmp_path: Path) -> None:
    wide = torch.ones(1, dtype=torch.float16).expand(2**20, 2**20)
    path = _saved(tmp_path / "file", {"weight": wide, "bias": torch.ones(2)})
    with pytest.raises(CheckpointError, match="1048576x1048576, needed 2x3"):
        load_weights(nn.Linear(3, 2), path, "test:linear")


def test_a_library_never_computes_with_tensors_of_any_size(tmp_path: Path) -> None:
    def computing(tensors: object) -> dict[str, torch.Tensor]:
        raise AssertionError(tensors)

    wide = torch.ones(1).expand(2**20, 2**10)
    path = _saved(tmp_path / "file", {"pos_embed": wide, **nn.Linear(3, 2).state_dict()})
    with pytest.raises(CheckpointError, match=r"16 times .* 32\b"):
        load_weights(nn.Linear(3, 2), path, "test:linear", adapt=computing)


def test_a_storage_that_claims_more_than_its_file_is_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", {"a": torch.ones(200)}, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    assert content.count(struct.pack("<BB", 0x4B, 200)) >= 1
    path.write_bytes(content.replace(b"K\xc8", b"J\x00\x00\x00\x7f"))
    _refused(path, "damaged")


def test_names_are_read_from_every_protocol() -> None:
    for protocol in range(6):
        stream = io.BytesIO(pickle.dumps([OrderedDict(a=1), PurePosixPath("x")], protocol) + b"x")
        names = names_asked_for(stream)
        assert "collections.OrderedDict" in names
        assert "pathlib.PurePosixPath" in names
        assert stream.read() == b"x"
    for damaged in (b"", b"\x80", b"K\x01", b"h\x07.", b"s.", b"\xff."):
        with pytest.raises(pickle.UnpicklingError):
            names_asked_for(io.BytesIO(damaged))
    with pytest.raises(PickleBombError):
        names_asked_for(io.BytesIO(b"\x80\x02}" + _nested(200, b")", b"\x86") + b"K\x01s."))


# Rules.


def _network() -> nn.Module:
    return nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 1), fc=nn.Linear(2, 3)))


def test_containers_are_followed_exactly(tmp_path: Path) -> None:
    path = _saved(tmp_path / "file", {"a": {"b": STATE, "model": {"x": torch.ones(1)}}, "model": 1})
    _assert_state(read_content(path).weights(("a", "b")))
    for container, words in [
        (("a",), r"no named tensors: .* b, model; .* under a"),
        (("a", "c"), r"no dict 'c' under a, .* b, model"),
        (("c",), "no dict 'c', where"),
        (("model", "x"), "no dict 'model'"),
        (("a", "b", "conv.weight"), "no dict 'conv.weight' under a > b"),
    ]:
        with pytest.raises(CheckpointError, match=words):
            read_content(path).weights(container)


def test_of_several_forms_the_one_that_fits_is_taken(tmp_path: Path) -> None:
    rules = KeyRules(
        prefix="module.",
        drop=("head.*",),
        alternatives=(
            KeyRules(container=("ema",), prefix="net."),
            KeyRules(drop=("*head*",)),
        ),
    )
    state = {key: torch.full_like(t, 3) for key, t in _network().state_dict().items()}
    files: dict[str, tuple[object, set[str]]] = {
        "first": (
            {f"module.{k}": t for k, t in state.items()} | {"module.head.x": state["fc.bias"]},
            {"module.head.x"},
        ),
        "second": (
            {"ema": {f"net.{k}": t for k, t in state.items()} | {"old": state["fc.bias"]}},
            {"old"},
        ),
        "third": ({**state, "my.head.x": state["fc.bias"]}, {"my.head.x"}),
        "third, wrapped": (
            {f"backbone.{k}": t for k, t in state.items()} | {"head": state["fc.bias"]},
            {"head"},
        ),
    }
    for name, (payload, dropped) in files.items():
        model = _network()
        left_out = load_weights(model, _saved(tmp_path / name, payload), "test:net", rules)
        assert all(torch.equal(t, state[k]) for k, t in model.state_dict().items()), name
        assert set(left_out) == dropped
    heads = _saved(tmp_path / "heads", {"head.weight": torch.ones(2)})
    with pytest.raises(CheckpointError, match="4 of 4 keys missing"):
        load_weights(_network(), heads, "test:net", KeyRules(drop=("head.*",)))
    nothing = _saved(tmp_path / "nothing", {"x.conv.weight": torch.ones(2, 1, 1, 1)})
    with pytest.raises(CheckpointError, match=r"4 of 4 keys missing .*begin with x\. \(1\)"):
        load_weights(_network(), nothing, "test:net", rules)


def test_a_prefix_is_stripped_once_and_from_the_start(tmp_path: Path) -> None:
    model = nn.ModuleDict({"net": nn.ModuleDict({"net": nn.Linear(2, 2)})})
    state = {f"net.{key}": t.clone() for key, t in model.state_dict().items()}
    rules = KeyRules(prefix="net.")
    assert load_weights(model, _saved(tmp_path / "file", state), "test:net", rules) == ()
    short = _saved(tmp_path / "short", {"nest.weight": torch.ones(1), **state})
    assert load_weights(model, short, "test:net", rules) == ("nest.weight",)


def test_a_network_that_renames_keys_while_it_loads_keeps_what_they_begin_with(
    tmp_path: Path,
) -> None:
    def normalised() -> nn.Module:
        layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2, bias=False))
        return nn.ModuleDict({"net": nn.ModuleDict({"0": layer})})

    model, older = normalised(), {}
    for name, tensor in normalised().state_dict().items():
        renamed = {"original0": "weight_g", "original1": "weight_v"}[name.rpartition(".")[2]]
        older[f"net.0.{renamed}"] = tensor
    load_weights(model, _saved(tmp_path / "file", older), "test:net")
    assert torch.equal(
        model.state_dict()["net.0.parametrizations.weight.original1"], older["net.0.weight_v"]
    )


def test_a_lazy_place_takes_no_tensor_that_only_claims_its_size(tmp_path: Path) -> None:
    state = {"weight": torch.zeros(1).expand(2, 10**9), "bias": torch.zeros(2)}
    with pytest.raises(CheckpointError):
        load_weights(nn.LazyLinear(2), _saved(tmp_path / "file", state), "test:net")


@pytest.mark.parametrize("wrappers", ["net.", "module.", "module.net.", "net.module."])
def test_a_wrapper_called_as_the_network_calls_its_part_is_stripped(
    tmp_path: Path, wrappers: str
) -> None:
    model = nn.ModuleDict({"net": nn.ModuleDict({"net": nn.Linear(2, 2)})})
    expected = {key: torch.randn_like(t) for key, t in model.state_dict().items()}
    wrapped = {f"{wrappers}{key}": t for key, t in expected.items()}
    for state in (expected, wrapped):
        load_weights(model, _saved(tmp_path / "file", state), "test:net")
        assert all(torch.equal(t, expected[key]) for key, t in model.state_dict().items())


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("torchvision:resnet50", "torchvision:resnet18"),
        ("torchvision:resnet50", "torchvision:wide_resnet50_2"),
        ("small:cifar_resnet20", "small:cifar_resnet32"),
    ],
)
def test_a_misfit_names_the_architecture_that_fits(tmp_path: Path, asked: str, given: str) -> None:
    (wanted,), (other,) = find(asked), find(given)
    model = wanted.build()
    with torch.device("meta"):
        state = other.build().state_dict()
    tiny = {f"module.{key}": torch.ones(()).expand(t.shape) for key, t in state.items()}
    path = _saved(tmp_path / "file", tiny)
    with pytest.raises(CheckpointError, match="does not fit") as caught:
        load_weights(model, path, asked)
    assert given in str(caught.value.hint)
    features = {key: tiny[key] for key in list(tiny)[:-2]}
    path = _saved(tmp_path / "features", features)
    with pytest.raises(CheckpointError, match="does not fit") as caught:
        load_weights(model, path, asked)
    assert given in str(caught.value.hint)


def test_a_misfit_without_another_architecture_claims_none(tmp_path: Path) -> None:
    state = _network().state_dict()
    files = {
        "two": {f"{name}.{key}": t for name in "ab" for key, t in state.items()},
        "short": {key: t for key, t in state.items() if key != "fc.bias"},
        "wide": {**state, "fc.bias": torch.ones(9)},
    }
    for name, saved in files.items():
        with pytest.raises(CheckpointError, match="does not fit") as caught:
            load_weights(_network(), _saved(tmp_path / name, saved), "test:net")
        hint = str(caught.value.hint)
        assert "fits a different architecture" not in hint
        assert ("networks" in hint) == ("networks" in caught.value.message) == (name == "two")


# Classifiers.


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("torchvision:resnet18", "fc"),
        ("torchvision:vit_b_32", "heads.head"),
        ("torchvision:mobilenet_v3_small", "classifier.3"),
        ("torchvision:densenet121", "classifier"),
    ],
)
def test_the_classifier_is_the_last_linear_layer(name: str, key: str) -> None:
    (architecture,) = find(name)
    with torch.device("meta"):
        model = architecture.build()
    kept = {k for k in model.state_dict() if not k.startswith(f"{key}.")}
    assert len(kept) == len(model.state_dict()) - 2
    assert without_classifier(model) is model
    assert set(model.state_dict()) == kept
    assert isinstance(model.get_submodule(key), nn.Identity)


def test_a_classifier_that_is_not_plain_is_refused() -> None:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 5)
            self.head_dist = nn.Linear(3, 5)

    for model, words in [
        (TwoHeads(), "head, head_dist"),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), r"1 \(ReLU\)"),
        (nn.ReLU(), r"\(ReLU\)"),
    ]:
        with pytest.raises(CheckpointError, match=words):
            without_classifier(model)
    ends_idle = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Linear(2, 2), nn.Dropout(), nn.Identity())
    assert isinstance(without_classifier(ends_idle).get_submodule("1"), nn.Identity)
    assert isinstance(without_classifier(nn.Linear(2, 2)), nn.Identity)
