"""Tiers: copies on nearer places, which change nothing but the time it takes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import COUNT, FILES, FREE, image_of, images, in_fork, plain

import forebay
from forebay import BlockFacts, Ragged

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.usefixtures("no_tiers"),
]


@pytest.fixture(params=["memory", "disk", "both"])
def tiers(request: pytest.FixtureRequest, disk: dict[str, Any]) -> Any:
    return {"memory": "memory:64MiB", "disk": disk, "both": ["memory:1MiB", disk]}[request.param]


def settle(user: Any, timeout: float = 120) -> dict[str, Any]:
    """Waits until nothing is left to be placed."""
    until = time.monotonic() + timeout
    while (stats := user.stats()["tiers"])["backlog"] or stats["waiting"]:
        assert time.monotonic() < until, stats
        time.sleep(0.01)
    return stats  # type: ignore[no-any-return]


def held_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.bytes"))


SETS: dict[str, Callable[..., forebay.Dataset]] = {
    "plain": plain,
    "packed": lambda origin, **options: forebay.open(origin / "packed.h5", ["x"], "y", **options),
    "ragged": lambda origin, **options: forebay.open(
        origin / "ragged.h5", ["x"], samples=Ragged(offsets="ptr"), **options
    ),
}


def everything(ds: forebay.Dataset, shuffle: str) -> list[bytes]:
    """The bytes of two epochs and of some samples, in order."""
    found = []
    loader = ds.loader(batch_size=16, shuffle=shuffle, seed=3, read_threads=2)
    for _ in range(2):
        for batch in loader:
            found += [batch.indices.tobytes(), *(batch[name].tobytes() for name in batch)]
    for index in (5, -1, slice(3, 40, 7), [9, 2, 2]):
        found += [np.ascontiguousarray(value).tobytes() for value in ds[index].values()]
    return found


@pytest.mark.parametrize("shuffle", ["full", "block", "none"])
@pytest.mark.parametrize("name", SETS)
def test_values_are_the_same_with_and_without_tiers(origin: Path, tiers: Any, name: str, shuffle: str) -> None:
    without, through = SETS[name](origin, tiers=[]), SETS[name](origin, tiers=tiers)
    assert through.fingerprint == without.fingerprint and len(through) == len(without)
    assert everything(through, shuffle) == everything(without, shuffle)
    assert settle(through)["placed"] > 0 and without.stats()["tiers"] is None


def test_the_second_epoch_reads_nothing_from_the_origin(origin: Path, tiers: Any) -> None:
    loader = plain(origin, tiers=tiers).loader(batch_size=32, shuffle="full")
    for _ in loader:
        pass
    settle(loader)
    for _ in loader:
        pass
    stats = loader.stats()["tiers"]
    first, second = stats["epochs"]
    assert (first["epoch"], second["epoch"]) == (0, 1) and stats["origin"]["bytes"] > 0
    assert second["origin"]["reads"] == 0 and second["hit_ratio"] == 1 and second["saved"] > 0
    assert {"reads", "bytes", "ns", "used", "quota", "evicted", "faults"} <= second["tiers"][0].keys()


@pytest.mark.parametrize("policy", ["first-fit", "lru", "auto"])
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_quota_is_never_exceeded(origin: Path, disk: dict[str, Any], kind: str, policy: str) -> None:
    quota = 2 << 20
    tier = f"memory:{quota}" if kind == "memory" else {**disk, "quota": quota}
    ds = plain(origin, tiers=tier, policy=policy, tier_block="256KiB")
    loader = ds.loader(batch_size=32, shuffle="full")
    for _ in range(2):
        for batch in loader:
            assert (batch["x"] == image_of(batch.indices)).all()
        (told,) = settle(loader)["tiers"]
        assert 0 < told["used"] <= told["quota"] == quota
        if kind == "disk":
            assert held_bytes(disk["path"]) <= quota


@pytest.mark.parametrize("policy", ["lru", "lfu", "fifo", "lifo"])
def test_what_left_a_disk_and_came_back_is_never_read_where_it_is_not(
    origin: Path, disk: dict[str, Any], policy: str
) -> None:
    evicted = 0
    for seed in range(4):
        ds = plain(origin, tiers={**disk, "quota": "2MiB"}, policy=policy, tier_block="256KiB")
        loader = ds.loader(batch_size=32, shuffle="full", seed=seed)
        for _ in range(3):
            for batch in loader:
                assert (batch["x"] == image_of(batch.indices)).all()
        evicted += settle(ds)["tiers"][0]["evicted"]
    assert evicted > 0


@pytest.mark.parametrize("policy", ["auto", "first-fit", "lru", "lfu", "fifo", "lifo"])
def test_a_disk_below_a_full_memory_tier_is_used(origin: Path, disk: dict[str, Any], policy: str) -> None:
    ds = plain(origin, tiers=["memory:1MiB", disk], policy=policy, tier_block="256KiB")
    size = sum(path.stat().st_size for path in origin.glob("plain*.h5"))
    loader = ds.loader(batch_size=8, shuffle="full", seed=5)
    for _ in range(2):
        for batch in loader:
            assert (batch["x"] == image_of(batch.indices)).all()
        settle(loader)
    stats = loader.stats()["tiers"]
    assert stats["tiers"][1]["used"] > 0 and stats["tiers"][1]["quota"] > size
    assert stats["origin"]["bytes"] <= size, "each byte once"
    assert stats["epochs"][1]["origin"]["bytes"] == 0


def test_copies_that_the_command_made_are_found_here_and_the_other_way_round(origin: Path, tmp_path: Path) -> None:
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    assert program, "set FOREBAY_BIN to the forebay command"
    cache = tmp_path / "cache"
    (tmp_path / "link").symlink_to(origin)
    table = tmp_path / "forebay.toml"
    table.write_text(f'[[tier]]\npath = "{cache}"\nquota = "64MiB"\nfree = 0\nkeep = true\n')
    warm = [program, "tier", "warm", "plain0.h5", "plain1.h5", "--config", str(table)]
    subprocess.run(warm, cwd=origin, check=True, capture_output=True)
    for folder in (origin, tmp_path / "link"):
        with forebay.open(folder / "plain[01].h5", ["x"], config=table) as ds:
            assert (ds[:]["x"] == image_of(np.arange(2 * COUNT))).all()
            assert settle(ds)["origin"]["bytes"] == 0
            assert ds.files == [str(origin / "plain0.h5"), str(origin / "plain1.h5")]
    assert len(list(cache.rglob("*.bytes"))) == 2


def test_a_switch_is_true_or_false(origin: Path) -> None:
    for wrong in ("false", 2, []):
        with pytest.raises(TypeError, match="give True or False"):
            forebay.open(origin / "plain0.h5", ["x"], tiers="memory:1MiB", whole_file=wrong)  # type: ignore[arg-type]


def test_a_path_may_begin_with_the_home_or_a_variable(origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_TEST_DATA", str(origin))
    monkeypatch.setenv("HOME", str(origin))
    for spelled in ("$FOREBAY_TEST_DATA/plain0.h5", "${FOREBAY_TEST_DATA}/plain[0].h5", "~/plain0.h5"):
        assert forebay.open(spelled, ["x"]).files == [str(origin / "plain0.h5")]
    assert forebay.read("$FOREBAY_TEST_DATA/plain0.h5", "x").shape == (COUNT, *image_of(np.arange(1)).shape[1:])
    with pytest.raises(forebay.NotFoundError, match="the variable FOREBAY_NO_SUCH"):
        forebay.open("$FOREBAY_NO_SUCH/a.h5", ["x"])


def test_a_tier_that_is_of_no_use_is_told_and_ends_nothing(origin: Path, tmp_path: Path) -> None:
    with pytest.warns(forebay.ForebayWarning, match="a tier is left out: disk tier '/proc/forebay-no-such'") as seen:
        ds = plain(origin, tiers=["/proc/forebay-no-such:1GiB", "memory:64MiB"])
    assert {warned.message.kind for warned in seen} == {"tier"}  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="a tier is left out")
        plain(origin, tiers=["/proc/forebay-no-such:1GiB", "memory:64MiB"])  # the same is not told twice
    left_out, memory = ds.stats()["tiers"]["tiers"]
    assert "/proc/forebay-no-such" in left_out["left_out"] and memory["left_out"] is None
    assert (ds[3]["x"] == image_of(np.arange(3, 4))[0]).all() and settle(ds)["placed"] > 0
    with pytest.warns(UserWarning, match="the files lie on its own device"):
        plain(origin, tiers={"path": origin / "cache", "quota": "1MiB", **FREE})
    with pytest.raises(forebay.InvalidError, match="is not a folder"):
        plain(origin, tiers={"path": origin / "plain0.h5"})


USE = """
    import json, sys, forebay
    ds = forebay.open(sys.argv[1] + "/plain*.h5", ["x"], tiers=json.loads(sys.argv[2]))
"""


def as_json(tier: dict[str, Any], **more: Any) -> str:
    import json

    return json.dumps({**tier, **more}, default=str)


def test_a_kept_tier_serves_the_next_process(origin: Path, disk: dict[str, Any], program: Any) -> None:
    kept = as_json(disk, keep=True)
    program(USE + "    warmed = ds.warm(); assert warmed['refused_bytes'] == warmed['passed_over'] == 0", origin, kept)
    ds = plain(origin, tiers={**disk, "keep": True})
    assert (ds[:]["x"] == image_of(np.arange(FILES * COUNT))).all()
    stats = ds.stats()["tiers"]
    assert stats["origin"]["reads"] == 0 and stats["hit_ratio"] == 1


@pytest.mark.parametrize(
    "use",
    [
        "ds[:]",
        "loader = ds.loader(batch_size=8, shuffle='full'); run = iter(loader); next(run)",
        "handle = ds.warm(background=True)",
        "class Holds: pass\n    Holds.ds = ds; Holds.me = Holds; ds.warm(); import gc; gc.disable()",
        "ds[:]; raise SystemExit(0)",
        "import multiprocessing; child = multiprocessing.get_context('fork').Process(target=lambda: ds[:]); "
        "child.start(); child.join(); ds[:]",
        "ds = ds.loader(policy=lambda block: -block.uses); list(ds)",
    ],
)
def test_a_tier_that_is_not_kept_is_gone_when_the_program_ends(
    origin: Path, disk: dict[str, Any], program: Any, use: str
) -> None:
    program(
        USE + "    import os; assert any(os.scandir(json.loads(sys.argv[2])['path']))\n    " + use,
        origin,
        as_json(disk),
    )
    assert not [path for path in disk["path"].rglob("*") if path.name.startswith("job-") or path.is_file()]


@pytest.mark.long
def test_a_tier_is_left_when_the_last_who_uses_it_is_closed_or_dropped(origin: Path, disk: dict[str, Any]) -> None:
    def jobs() -> list[Path]:
        return [path for path in disk["path"].rglob("job-*")]

    # More than once: a thread that looks ahead may be at it when all is dropped.
    for _ in range(20 if os.environ.get("FOREBAY_SLOW") else 5):
        with plain(origin, tiers=disk) as ds:
            loader = ds.loader(batch_size=8)
            next(iter(loader))
            assert jobs()
        with pytest.raises(forebay.InvalidError, match="this data set was closed"):
            ds[0]
        ds.close()
        assert jobs() and sum(batch.size for batch in loader) == FILES * COUNT
        del loader, ds
        gc.collect()
        assert not jobs()


def first_block(block: BlockFacts) -> float:
    """Keeps what comes early in a file."""
    return -(block.block or 0)


def test_a_callable_policy_is_asked_and_obeyed(origin: Path) -> None:
    asked = []

    class Late:
        """Lets go of what comes early in a file."""

        def rank(self, block: BlockFacts) -> float:
            asked.append(block)
            return float(block.block or 0)

    ds = forebay.open(
        origin / "plain0.h5", ["x"], tiers="memory:256KiB", tier_block="64KiB", whole_file=False, policy=Late()
    )
    for number in (240, 200, 160, 0, 40, 80, 120, 20, 60):
        assert (ds[number]["x"] == image_of(number)).all()
        settle(ds)
    block = asked[0]
    assert block.locator == str(origin / "plain0.h5") and block.length == 64 << 10 and block.uses >= 0
    assert block.placed <= block.used and block.next_use is None and "plain0.h5" in repr(block)
    before = ds.stats()["tiers"]["origin"]["reads"]
    assert all((ds[number]["x"] == image_of(number)).all() for number in (240, 200, 160))
    assert ds.stats()["tiers"]["origin"]["reads"] == before, "what is worth most has left"
    assert (ds[80]["x"] == image_of(80)).all()
    assert ds.stats()["tiers"]["origin"]["reads"] > before, "what is worth least has stayed"


@pytest.mark.parametrize("compete", [False, True])
def test_newcomers_are_let_in_unless_the_policy_says_that_they_compete(origin: Path, compete: bool) -> None:
    def early(block: BlockFacts) -> float:
        return -float(block.block or 0)

    early.newcomers_compete = compete  # type: ignore[attr-defined]
    ds = forebay.open(origin / "plain0.h5", ["x"], tiers="memory:128KiB", tier_block="64KiB", whole_file=False, policy=early)
    for number in (0, 40, 80, 120, 250):
        ds[number]
        settle(ds)
    before = ds.stats()["tiers"]
    ds[250]
    after = ds.stats()["tiers"]
    assert (after["origin"]["reads"] == before["origin"]["reads"]) is not compete
    assert (after["tiers"][0]["evicted"] > 0) is not compete


def test_an_error_of_a_policy_is_told_once_and_costs_no_value(origin: Path) -> None:
    def broken(block: BlockFacts) -> float:
        raise ZeroDivisionError("too many")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ds = plain(origin, tiers="memory:1MiB", tier_block="64KiB", policy=broken)
        for batch in ds.loader(batch_size=32, shuffle="full"):
            assert (batch["x"] == image_of(batch.indices)).all()
        settle(ds)
    told = [one for one in told if "policy" in str(one.message)]
    assert len(told) == 1 and "ZeroDivisionError: too many" in str(told[0].message)
    assert all(issubclass(told[0].category, kind) for kind in (RuntimeWarning, forebay.ForebayWarning))


def test_stats_may_be_asked_while_a_policy_works(origin: Path) -> None:
    def slowly(block: BlockFacts) -> float:
        time.sleep(0.0005)
        return float(block.used)

    ds = plain(origin, tiers="memory:1MiB", tier_block="64KiB", policy=slowly)
    for batch in ds.loader(batch_size=64, shuffle="full", read_threads=2):
        assert ds.stats()["tiers"]["tiers"][0]["used"] <= 1 << 20
    run = iter(ds.loader(batch_size=64, shuffle="full", read_threads=2))
    next(run)
    del run, ds
    gc.collect()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tiers": "memroy:4GiB"}, "did you mean 'memory'"),
        ({"tiers": ["disk:nvme"]}, "not an absolute path"),
        ({"tiers": [{"kind": "memory", "quotta": 5}]}, "unknown key 'quotta'; did you mean 'quota'"),
        ({"tiers": {"kind": "dsik", "path": "/x"}}, "did you mean 'disk'"),
        ({"tiers": {"kind": "disk"}}, "a disk tier needs a path"),
        ({"tiers": {"quota": 5}}, "a tier needs a kind"),
        ({"tiers": {"path": "/x", "keep": "no"}}, "keep: is neither true nor false"),
        ({"tiers": {"path": "/x/$NOT_SET_AT_ALL"}}, "NOT_SET_AT_ALL"),
        ({"tiers": "memory", "policy": "lur"}, "policy: unknown policy 'lur'.*(lru|lfu)"),
        ({"tiers": "memory", "tier_block": 1000}, "^tier_block: blocks of 1000 bytes; a block is a power of two"),
        ({"tiers": "memory", "placement_threads": 0}, "^placement_threads: 0 threads; from 1 to 1024"),
        ({"config": "/nowhere/forebay.toml"}, "^config: .*nowhere"),
    ],
)
def test_wrong_words_are_refused_with_a_remedy(origin: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(forebay.ForebayError, match=told):
        plain(origin, **wrong)
    if "config" not in wrong:
        with pytest.raises(forebay.ForebayError, match=told):
            plain(origin, tiers=[]).loader(**wrong)


def test_what_is_no_tier_and_no_policy_is_a_type_error(origin: Path) -> None:
    with pytest.raises(TypeError, match="5 is no tier"):
        plain(origin, tiers=[5])
    with pytest.raises(TypeError, match="policy=5"):
        plain(origin, policy=5)


def test_tiers_come_from_the_configuration_unless_they_are_given(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", str(tmp_path))
    config = tmp_path / "forebay.toml"
    config.write_text('[[tier]]\nkind = "memory"\nquota = "8MiB"\n[placement]\npolicy = "lru"\n')
    config.chmod(0o600)
    assert plain(origin).tiers == [{"kind": "memory", "quota": "8MiB"}]
    assert (
        plain(origin, tiers=[]).tiers == plain(origin, config="none").tiers == plain(origin, tiers="none").tiers == []
    )
    monkeypatch.setenv("FOREBAY_TIERS", "memory:1MiB,$PLACE/a:2MiB")
    kinds = [(tier["kind"], tier["quota"]) for tier in plain(origin).tiers]
    assert kinds == [("memory", "1MiB"), ("disk", "2MiB")]
    ds = plain(origin, tiers=[tmp_path / "b$c", "disk:$PLACE/d:3MiB:keep", {"path": "${PLACE}/e", **FREE}])
    assert [tier["path"] for tier in ds.tiers] == [str(tmp_path / name) for name in ("b$$c", "d", "e")]
    assert [tier["keep"] for tier in ds.tiers] == [False, True, False]
    assert plain(origin, tiers=ds.tiers).tiers == ds.tiers
    named = tmp_path / "other.toml"
    named.write_text('[[tier]]\nkind = "memory"\nquota = "9MiB"\n')
    monkeypatch.delenv("FOREBAY_TIERS")
    assert plain(origin, config=named).tiers == [{"kind": "memory", "quota": "9MiB"}]


def test_a_loader_may_have_tiers_of_its_own(origin: Path, disk: dict[str, Any]) -> None:
    ds = plain(origin, tiers="memory:2MiB", tier_block="128KiB")
    same, other = ds.loader(batch_size=8), ds.loader(batch_size=8, tiers=disk, shuffle="full")
    assert same.dataset is ds and [tier["kind"] for tier in other.dataset.tiers] == ["disk"]
    assert other.dataset.fingerprint == ds.fingerprint and other.dataset._through.config["placement"]["block"] == 131072
    assert ds.loader(policy="lru").dataset.tiers == ds.tiers
    assert ds.loader(tiers=[]).stats()["tiers"] is None
    other.load_state_dict(ds.loader(batch_size=8, shuffle="full").state_dict())
    assert sum(batch.size for batch in other) == FILES * COUNT
    assert other.stats()["tiers"]["placed"] > 0
    assert [tier["name"] for tier in other.stats()["tiers"]["tiers"]] != [
        tier["name"] for tier in ds.stats()["tiers"]["tiers"]
    ]


def test_a_tier_folder_that_is_removed_costs_time_and_never_values(origin: Path, disk: dict[str, Any]) -> None:
    ds = plain(origin, tiers=disk)
    loader = ds.loader(batch_size=16, shuffle="full", prefetch=1)
    for step, batch in enumerate(loader):
        assert (batch["x"] == image_of(batch.indices)).all()
        if step == 5:
            # A thread of the tier may add a file to a folder that was just emptied.
            for _ in range(1000):
                shutil.rmtree(disk["path"], ignore_errors=True)
                if not disk["path"].exists():
                    break
            assert not disk["path"].exists()
    for batch in loader:
        assert (batch["x"] == image_of(batch.indices)).all()


def read(ds: forebay.Dataset, seed: int = 0) -> None:
    """Reads samples and an epoch; all must be right."""
    numbers = np.random.default_rng(seed).permutation(len(ds))[:100]
    assert (ds[numbers]["x"] == image_of(numbers)).all()
    for batch in ds.loader(batch_size=64, shuffle="full", seed=seed, read_threads=2):
        assert (batch["x"] == image_of(batch.indices)).all()


def test_a_forked_child_that_drops_a_loader_makes_no_tiers_of_its_own(origin: Path, disk: dict[str, Any]) -> None:
    ds = plain(origin, tiers=["memory:1MiB", disk])
    loader = ds.loader(batch_size=8, shuffle="full")
    run = iter(loader)
    next(run)

    def work() -> None:
        nonlocal ds, loader, run
        del ds, loader, run
        gc.collect()
        assert len(os.listdir("/proc/self/task")) == 1

    in_fork(work)


def test_a_forked_child_reads_through_the_tiers_and_leaves_them_to_its_parent(
    origin: Path, tiers: Any, disk: Any
) -> None:
    ds = plain(origin, tiers=tiers)
    read(ds)

    def work() -> None:
        read(ds, 1)
        assert ds.stats()["tiers"]["tiers"][0]["quota"] > 0
        in_fork(lambda: read(ds, 2))
        # As when its interpreter ends.
        forebay._tiers.tiers._leave_all()

    in_fork(work)
    in_fork(lambda: forebay._tiers.tiers._leave_all())
    before = settle(ds)["origin"]["reads"]
    read(ds, 3)
    if tiers != "memory:64MiB":
        assert list(disk["path"].rglob("*.bytes"))
    assert ds.stats()["tiers"]["origin"]["reads"] == before


def test_a_pickled_set_opens_the_same_tiers(origin: Path, disk: dict[str, Any]) -> None:
    ds = plain(origin, tiers=["memory:1MiB", disk], policy=first_block, tier_block="128KiB")
    other = pickle.loads(pickle.dumps(ds))
    assert other.tiers == ds.tiers and other._through.policy is first_block
    read(other)
    loader = pickle.loads(pickle.dumps(ds.loader(batch_size=8, policy="lfu")))
    assert loader.dataset.tiers == ds.tiers and loader.dataset._through.policy == "lfu"
    with pytest.raises(pickle.PicklingError, match="policy .* cannot be pickled.*top level"):
        pickle.dumps(plain(origin, tiers="memory:1MiB", policy=lambda block: block.uses))
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=read, args=(ds,))
    child.start()
    child.join(60)
    assert child.exitcode == 0


# Six spawned workers import PyTorch.
@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_pytorch_share_the_tier_of_their_node(origin: Path, disk: dict[str, Any], context: str) -> None:
    torch = pytest.importorskip("torch")
    ds = plain(origin, tiers=disk)
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": context, "timeout": 60}
    for data, size in (
        (forebay.torch.Dataset(ds), 32),
        (forebay.torch.IterableDataset(ds, batch_size=32, shuffle="full"), None),
        (forebay.torch.HDF5([(str(path), "x") for path in ds.files], tiers=disk, policy="lru"), 32),
    ):
        seen = 0
        for batch in torch.utils.data.DataLoader(data, batch_size=size, **options):
            values = batch if isinstance(batch, torch.Tensor) else batch["x"]
            assert (values == values[:, :1]).all()
            seen += len(values)
        assert seen == FILES * COUNT
    loader = forebay.torch.Loader(ds, batch_size=32, tiers="memory:16MiB")
    for batch in loader:
        assert (batch["x"].numpy() == image_of(batch.indices.numpy())).all()
    assert loader.stats()["tiers"]["tiers"][0]["name"].startswith("memory")


def test_the_examples_of_the_guide_run(origin: Path, tmp_path: Path, program: Any) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "tiers.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) >= 4
    source = "\n".join(["import os, sys; os.chdir(sys.argv[1]); os.environ['NVME'] = sys.argv[2]", *blocks])
    work = Path(tempfile.mkdtemp(dir=origin))
    (work / "train").mkdir()
    for number in range(2):
        with h5py.File(work / "train" / f"{number}.h5", "w") as file:
            file["image"], file["label"] = images(64), np.arange(64)
    time.sleep(2.2)
    program(source, work, tmp_path / "nvme")


@pytest.mark.parametrize(("old", "new"), [("block", "tier_block"), ("ahead", "tier_ahead")])
def test_an_argument_by_its_old_name_is_an_error_that_says_the_new_one(origin: Path, old: str, new: str) -> None:
    with pytest.raises(TypeError, match=f"{old}= is called {new}= now"):
        plain(origin, tiers="memory:1MiB", **{old: "64KiB"})
    with plain(origin, tiers="memory:1MiB", **{new: "64KiB"}) as ds:
        with pytest.raises(TypeError, match=f"{old}= is called {new}= now"):
            ds.loader(**{old: "64KiB"})
        ds.loader(**{new: "128KiB"}).close()
    with pytest.raises(ValueError, match="'some' is no size"):
        plain(origin, tiers="memory:1MiB", **{new: "some"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'blocks'"):
        plain(origin, blocks="64KiB")


SHARDED = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np, zarr, forebay

values = np.arange(192 * 32 * 64, dtype="f4").reshape(192, 32, 64)
array = zarr.open_group(sys.argv[1], mode="w", zarr_format=3).create_array(
    "x", shape=values.shape, chunks=(24, 8, 16), shards=(24, 32, 32), dtype="f4"
)
array[:] = values
windows = forebay.Windows({0: 4, 1: 16, 2: 16}, stride={0: 2})
with forebay.open(sys.argv[1], ["x"], samples=windows, tiers=["memory:64MiB"]) as ds:
    for batch in ds.loader(batch_size=32, shuffle="full", seed=1):
        first = batch.indices[0]
        assert (batch["x"][0] == ds[int(first)]["x"]).all()
"""


def test_threads_that_fetch_for_tiers_never_wait_for_the_indexes_of_shards(tmp_path: Path) -> None:
    script = tmp_path / "sharded.py"
    script.write_text(SHARDED)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, tmp_path / "data.zarr"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
