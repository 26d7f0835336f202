"""Batches of JAX arrays: contents, order, resume, memory, and what JAX does with them."""

from __future__ import annotations

import ctypes
import os
import pickle
import runpy
import sys
from pathlib import Path
from typing import Any

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from package_fixtures import Make, images, same

import forebay
import forebay.jax
from forebay._jax import placement as _jax_placement

COUNT = 60
NARROW = {"int64": np.int32, "uint64": np.uint32, "float64": np.float32, "complex128": np.complex64}


@pytest.fixture
def path(make: Make) -> Path:
    image = images(COUNT).astype("<f4")
    return make(image=(image, {"chunks": (7, 6, 5, 3), "compression": "gzip"}), label=np.arange(COUNT, dtype="<i4"))


@pytest.fixture
def ds(path: Path) -> Any:
    return forebay.open(path, ["image"], label="label")


@pytest.mark.parametrize("shuffle", ["none", "block", "full"])
def test_batches_are_those_of_the_loader_bit_for_bit(ds: Any, shuffle: str) -> None:
    loader = forebay.jax.Loader(ds, batch_size=8, shuffle=shuffle, seed=3)
    ours = ds.loader(batch_size=8, shuffle=shuffle, seed=3)
    for _ in range(2):
        seen = []
        for batch, expected in zip(loader, ours, strict=True):
            assert isinstance(batch, dict) and all(isinstance(one, jax.Array) for one in batch.values())
            for name, values in expected.items():
                same(np.asarray(batch[name]), values)
            assert (batch.indices == expected.indices).all() and (batch.seeds == expected.seeds).all()
            seen += batch["label"].tolist()
        assert sorted(seen) == list(range(COUNT))


def test_memory_is_taken_over_and_used_again(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[int] = []
    quick = _jax_placement.quick_from_dlpack()

    assert quick is not None

    def noting(capsule: Any, *rest: Any) -> Any:
        # What a capsule holds begins with the address of the values.
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        handed.append(ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_void_p))[0])
        return quick.convert(capsule, *rest)

    monkeypatch.setattr(_jax_placement, "quick_from_dlpack", lambda: _jax_placement.QuickConversion(noting, quick.rest))
    loader = forebay.jax.Loader(ds, batch_size=4, prefetch=1, read_threads=1, epochs=6)
    found = []
    for batch in loader:
        found.append(batch["image"].unsafe_buffer_pointer())
        del batch
    assert len(found) == 90 and found == handed[::2] and all(one % 64 == 0 for one in found)
    # Batches that are gone leave their memory to others.
    assert len(set(found)) <= 8
    counts = loader.stats()["hand_over"]
    assert counts["shared"] == 180 and sum(counts[name] for name in ("copied", "refused", "narrowed", "placed")) == 0
    kept = [batch["image"] for batch in forebay.jax.Loader(ds, batch_size=4)]
    same(np.concatenate(kept), images(COUNT).astype("<f4"))


def test_dlpack_that_is_refused_is_counted_and_costs_a_copy(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        raise BufferError("not today")

    monkeypatch.setattr(jax.dlpack, "from_dlpack", refuse)
    monkeypatch.setattr(_jax_placement, "quick_from_dlpack", lambda: None)
    loader = forebay.jax.Loader(ds, batch_size=10)
    same(np.concatenate([batch["image"] for batch in loader]), images(COUNT).astype("<f4"))
    counts = loader.stats()["hand_over"]
    assert counts["refused"] == 12 and counts["why_refused"] == "BufferError: not today"


def test_without_the_quick_conversion_memory_is_taken_over_too(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _jax_placement.quick_from_dlpack() is not None
    monkeypatch.setattr(_jax_placement, "quick_from_dlpack", lambda: None)
    loader = forebay.jax.Loader(ds, batch_size=10)
    same(np.concatenate([batch["image"] for batch in loader]), images(COUNT).astype("<f4"))
    assert loader.stats()["hand_over"]["shared"] == 12


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_types_stay_what_they_are_but_for_64_bits(make: Make, dtype: str) -> None:
    values = np.random.default_rng(1).integers(0, 2, (6, 3)).astype(dtype)
    loader = forebay.jax.Loader(forebay.open(make(x=values), ["x"]), batch_size=6)
    (batch,) = loader
    narrow = NARROW.get(values.dtype.name)
    same(np.asarray(batch["x"]), values if narrow is None else values.astype(narrow))
    assert loader.stats()["hand_over"]["narrowed"] == (narrow is not None)


def test_a_state_goes_on_whether_or_not_numbers_were_narrowed(make: Make) -> None:
    ds = forebay.open(make(x=np.arange(20), y=np.arange(20.0)), ["x", "y"])
    plain = ds.loader(batch_size=5, shuffle="full", seed=1)
    first = next(iter(plain))["x"].tolist()
    narrowed = forebay.jax.Loader(ds, batch_size=5, shuffle="full", seed=1)
    narrowed.load_state_dict(plain.state_dict())
    rest = [number for batch in narrowed for number in batch["x"].tolist()]
    assert sorted(first + rest) == list(range(20)) and narrowed.stats()["hand_over"]["narrowed"] == 6


def test_numbers_of_64_bits_stay_where_jax_keeps_them(make: Make, program: Any) -> None:
    done = program(
        """
        import sys, jax, forebay, forebay.jax
        jax.config.update("jax_enable_x64", True)
        loader = forebay.jax.Loader(forebay.open(sys.argv[1], ["x"]), batch_size=4)
        (batch,) = loader
        print(batch["x"].dtype, loader.stats()["hand_over"]["shared"])
        """,
        make(x=np.arange(4)),
    )
    assert done.stdout.split() == ["int64", "1"]


def test_bfloat16_stays_bfloat16(make: Make) -> None:
    values = np.arange(12, dtype="f4").reshape(4, 3)
    loader = forebay.jax.Loader(
        forebay.open(make(x=values), ["x"]), batch_size=4, transforms={"x": [forebay.transforms.Cast("bfloat16")]}
    )
    (batch,) = loader
    assert batch["x"].dtype == jnp.bfloat16 and (batch["x"].astype("f4") == values).all()


def test_a_batch_is_a_pytree(ds: Any) -> None:
    batch = next(iter(forebay.jax.Loader(ds, batch_size=5)))
    mean = jax.jit(lambda batch: batch["image"].mean() + batch["label"].sum())(batch)
    assert jnp.isclose(mean, images(COUNT)[:5].astype("f4").mean() + 10)
    doubled = jax.tree.map(lambda one: 2 * one, batch)
    assert isinstance(doubled, forebay.jax.Batch) and (doubled["label"] == 2 * batch["label"]).all()
    assert [str(path[0]) for path, _ in jax.tree_util.tree_leaves_with_path(batch)] == ["['image']", "['label']"]


@pytest.mark.parametrize(("is_committed", "compiled"), [(False, 2), (True, 1)])
def test_a_state_that_is_committed_as_batches_are_has_its_step_compiled_once(ds: Any, is_committed: bool, compiled: int) -> None:
    step = jax.jit(lambda total, batch: total + batch["image"].mean())
    total = jax.device_put(jnp.zeros(()), jax.devices()[0] if is_committed else None)
    for batch in forebay.jax.Loader(ds, batch_size=20):
        assert batch["image"].committed and batch["label"].committed
        total = step(total, batch)
    assert step._cache_size() == compiled


def test_samples_of_different_lengths_have_offsets(make: Make) -> None:
    ptr = np.array([0, 3, 3, 10, 11, 20])
    x, edge = np.arange(40, dtype="<f4").reshape(20, 2), np.arange(40, dtype="<i4").reshape(2, 20)
    ds = forebay.open(
        make(x=x, edge=edge, ptr=ptr, y=np.arange(5, dtype="<i4")),
        ["x", "edge"],
        label="y",
        samples=forebay.Ragged(offsets={"x": "ptr", "edge": "ptr"}, axis={"edge": 1}),
    )
    first, second, _ = forebay.jax.Loader(ds, batch_size=2)
    assert first.offsets["x"].tolist() == [0, 3, 3] and second.offsets["x"].tolist() == [0, 7, 8]
    assert isinstance(first.offsets["x"], jax.Array)
    same(np.asarray(second["edge"]), edge[:, 3:11])
    padded, mask = second.padded("x", -1, multiple_of=4), second.mask("x", multiple_of=4)
    assert padded.shape == (2, 8, 2) and mask.shape == (2, 8) and isinstance(padded, jax.Array)
    same(np.asarray(padded[mask]), x[3:11])
    same(np.asarray(second.parts("edge")[1]), edge[:, 10:11])
    with pytest.raises(TypeError, match="padded"):
        second.nested("x")


def test_what_jax_has_no_type_for_is_refused_by_name(tmp_path: Path, make: Make) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("name", data=["a", "bc"], dtype=h5py.string_dtype())
        file["code"] = np.array(["a", "b"], "S4")
        file["x"] = np.arange(2, dtype="<i4")
        file["when"] = np.arange(2)
        file["when"].attrs["units"] = "hours since 1900-01-01"
    for name, stored in (("name", "text"), ("code", ".*"), ("when", ".*")):
        ds = forebay.open(tmp_path / "t.h5", [name, "x"], cf=name == "when")
        with pytest.raises(ValueError, match=rf"field '{name}': JAX has no type for {stored}.*fields="):
            forebay.jax.Loader(ds, batch_size=2)
        (batch,) = forebay.jax.Loader(ds, batch_size=2, fields=["x"])
        assert batch["x"].tolist() == [0, 1]


@pytest.mark.parametrize("stop", [0, 1, 5, 12])
@pytest.mark.parametrize("device", [None, 1])
def test_stopped_anywhere_each_sample_comes_once(ds: Any, stop: int, device: int | None) -> None:
    where = None if device is None else jax.devices()[device]
    loader = forebay.jax.Loader(ds, batch_size=5, shuffle="full", seed=2, device=where)
    seen = [label for _, batch in zip(range(stop), loader) for label in batch["label"].tolist()]
    other = forebay.jax.Loader(ds, batch_size=5, shuffle="full", seed=2, device=where)
    other.load_state_dict(loader.state_dict())
    rest = [label for batch in other for label in batch["label"].tolist()]
    assert sorted(seen + rest if stop < 12 else rest) == list(range(COUNT))
    loader.close()


@pytest.mark.parametrize("device", [None, 1])
def test_a_loop_that_another_loop_ended_is_an_error(ds: Any, device: int | None) -> None:
    loader = forebay.jax.Loader(ds, batch_size=8, device=None if device is None else jax.devices()[device])
    received = 0
    with pytest.raises(forebay.InvalidError, match="ended by another"):
        for _ in loader:
            received += 1
            if received == 3:
                assert len(list(loader)) == len(loader) == 8
    assert received == 3


@pytest.mark.parametrize("device", [None, 1])
def test_a_state_counts_what_the_loop_got_wherever_a_signal_comes(ds: Any, device: int | None) -> None:
    package = os.path.dirname(forebay.__file__)
    left = 0

    def interrupt(frame: Any, event: str, _: Any) -> None:
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(package):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    at, is_over = 0, False
    while not is_over:
        left = at = at + 3
        loader = forebay.jax.Loader(ds, batch_size=20, device=None if device is None else jax.devices()[device])
        received = 0
        sys.setprofile(interrupt)
        try:
            for _ in loader:
                received += 1
            is_over = left > 0
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == divmod(20 * received, COUNT), at
    assert received == 3 and at > 20


def test_batches_go_to_another_device_ahead_of_the_consumer(ds: Any) -> None:
    device = jax.devices()[2]
    loader = forebay.jax.Loader(ds, batch_size=10, device=device)
    labels = []
    for batch in loader:
        assert batch["image"].devices() == batch["label"].devices() == {device}
        labels += batch["label"].tolist()
    assert labels == list(range(COUNT)) and loader.stats()["hand_over"]["placed"] == 12
    with pytest.raises(ValueError, match="a sharding names the devices"):
        forebay.jax.Loader(ds, device=device, sharding=jax.sharding.SingleDeviceSharding(device))


def test_batches_for_a_cuda_device_lie_in_memory_that_is_registered_for_it(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # There is no such device here, and no CUDA runtime: the memory is that of a runtime that registers nothing, and it says so.
    monkeypatch.setattr(_jax_placement, "is_cuda", lambda device: True)
    monkeypatch.setattr(_jax_placement, "cuda_runtime", lambda: None)
    device = jax.devices()[2]
    with forebay.jax.Loader(ds, batch_size=10, device=device, shuffle="full") as loader:
        with pytest.warns(forebay.ForebayWarning, match="from pageable memory.*no CUDA runtime"):
            batches = list(loader)
        pinned = loader.stats()["pinned"]
    assert pinned["pageable_bytes"] > 0 == pinned["pinned_bytes"]
    for batch, host in zip(batches, forebay.Loader(ds, batch_size=10, shuffle="full"), strict=True):
        assert batch["image"].devices() == {device}
        same(np.asarray(batch["image"]), host["image"])


def test_a_program_that_is_far_ahead_of_a_cuda_device_waits_for_it(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jax_placement, "is_cuda", lambda device: True)
    monkeypatch.setattr(_jax_placement, "QUEUED_COPIES", 0)
    waited: list[int] = []
    ready = jax.block_until_ready
    monkeypatch.setattr(jax, "block_until_ready", lambda arrays: (waited.append(len(arrays)), ready(arrays))[1])
    with pytest.warns(forebay.ForebayWarning, match="pageable"):
        labels = [label for batch in forebay.jax.Loader(ds, batch_size=10, device=jax.devices()[2]) for label in batch["label"].tolist()]
    assert labels == list(range(COUNT)) and set(waited) == {2}


def test_an_error_comes_in_its_batchs_place(make: Make) -> None:
    path = make(x=(images(COUNT), {"chunks": (10, 6, 5, 3), "compression": "gzip"}), y=np.arange(COUNT, dtype="<i4"))
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(3)
    with open(path, "r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * chunk.size)
    loader = forebay.jax.Loader(forebay.open(path, ["x", "y"]), batch_size=10, device=jax.devices()[1], device_prefetch=4)
    seen = []
    with pytest.raises(forebay.CorruptError, match="variable 'x': chunk"):
        for batch in loader:
            seen += batch["y"].tolist()
    assert seen == list(range(30))


def test_what_a_callable_makes_is_placed(ds: Any) -> None:
    loader = forebay.jax.Loader(ds, batch_size=10, map=lambda batch: {"x": batch["image"] / 255, "name": "n"}, map_threads=2)
    for batch in loader:
        assert isinstance(batch["x"], jax.Array) and batch["name"] == "n"
    pairs = forebay.jax.Loader(ds, batch_size=10, as_tuple=True)
    assert all(isinstance(image, jax.Array) and label.shape == (10,) for image, label in pairs)


def test_a_loader_is_not_pickled_and_its_set_is(ds: Any) -> None:
    with pytest.raises(TypeError, match="pickle its data set"):
        pickle.dumps(forebay.jax.Loader(ds))
    assert len(pickle.loads(pickle.dumps(ds))) == COUNT


def test_the_example_learns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    example = Path(__file__).parents[2] / "examples" / "jax_images.py"
    monkeypatch.setattr("sys.argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert len(losses) >= 2 and losses[-1] < losses[0] / 2


def test_the_benchmark_of_a_gpu_is_right_in_its_dry_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Path(__file__).parents[2] / "benches" / "jax_feed.py"
    monkeypatch.setattr("sys.argv", [str(bench), "--cpu", "--check", "--cases", "mlp", "gzip"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(bench), run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.count("0 wrong") == 2


def test_a_program_that_ends_in_the_middle_of_an_epoch_ends(path: Path, program: Any) -> None:
    done = program(
        """
        import sys, jax, forebay, forebay.jax
        loader = forebay.jax.Loader(forebay.open(sys.argv[1], ["image"]), batch_size=1, epochs=None, device=jax.devices()[-1])
        for number, batch in enumerate(loader):
            if number == 20:
                break
        print("done", flush=True)
        """,
        path,
    )
    assert "done" in done.stdout
