"""Lightning: fit, validate, and go on from a checkpoint taken after any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import forebay
import forebay.torch

lightning = pytest.importorskip("lightning", exc_type=ImportError)

COUNT, BATCH = 60, 8
STEPS = -(-COUNT // BATCH)
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(COUNT * 4, dtype="f4").reshape(COUNT, 4))
    return tmp_path / "x.npy"


class Model(lightning.LightningModule):  # type: ignore[name-defined, misc]
    """Remembers the samples it was given, by epoch."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.seen: dict[int, list[int]] = {}
        self.validated: list[int] = []
        self.folder = folder

    def training_step(self, batch: Any, _: int) -> Any:
        self.seen.setdefault(self.current_epoch, []).extend(batch.indices.tolist())
        assert len(batch["data"]) == batch.size
        return self.layer(batch["data"]).mean()

    def validation_step(self, batch: Any, _: int) -> None:
        self.validated += batch.indices.tolist()

    def on_train_end(self) -> None:
        if self.folder is not None:
            (self.folder / f"{self.global_rank}.txt").write_text(repr((self.seen, self.validated)))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-3)


class Stop(lightning.Callback):  # type: ignore[name-defined, misc]
    """Saves a checkpoint after some batch, and ends the run."""

    def __init__(self, step: int, path: Path) -> None:
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)
            raise RuntimeError("killed")


def loader(path: Path, **options: Any) -> forebay.torch.Loader:
    options = {"batch_size": BATCH, "shuffle": "full", "seed": 3, **options}
    return forebay.torch.Loader(forebay.open(path, ["data"]), **options)


def trainer(epochs: int = 2, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    return lightning.Trainer(max_epochs=epochs, accelerator="cpu", **quiet, **options)


def test_fit_and_validate_give_every_sample_once_an_epoch(path: Path) -> None:
    model = Model()
    trainer(num_sanity_val_steps=0).fit(model, loader(path), loader(path, shuffle="none", batch_size=7))
    assert {epoch: sorted(seen) for epoch, seen in model.seen.items()} == {0: [*range(COUNT)], 1: [*range(COUNT)]}
    assert model.seen[0] != model.seen[1] and model.validated == [*range(COUNT)] * 2
    checked = Model()
    trainer().validate(checked, loader(path, shuffle="none"), verbose=False)
    assert checked.validated == [*range(COUNT)]


@pytest.mark.parametrize("shuffle", ["full", "block"])
def test_a_run_stopped_after_any_batch_goes_on_without_losing_or_repeating_samples(path: Path, shuffle: str) -> None:
    whole = Model()
    trainer().fit(whole, loader(path, shuffle=shuffle))
    for step in range(1, 2 * STEPS):
        checkpoint = path.parent / f"{step}.ckpt"
        first, second = Model(), Model()
        with pytest.raises(RuntimeError, match="killed"):
            trainer(callbacks=[Stop(step, checkpoint)]).fit(first, loader(path, shuffle=shuffle))
        resumed = loader(path, shuffle=shuffle)
        trainer().fit(second, resumed, ckpt_path=checkpoint, weights_only=False)
        assert len(resumed) == STEPS
        for epoch in (0, 1):
            seen = first.seen.get(epoch, []) + second.seen.get(epoch, [])
            assert seen == whole.seen[epoch], (step, epoch)


@pytest.mark.parametrize("strategy", ["ddp_fork", pytest.param("ddp_spawn", marks=pytest.mark.slow)])
def test_ranks_of_a_trainer_share_loaders_that_were_made_before_it(path: Path, strategy: str) -> None:
    model = Model(path.parent)
    training = loader(path, batch_size=5, shuffle="block")
    validation = loader(path, batch_size=5, shuffle="none")
    several = trainer(1, strategy=strategy, devices=2, num_sanity_val_steps=0)
    several.fit(model, training, validation)
    told = [eval((path.parent / f"{rank}.txt").read_text()) for rank in (0, 1)]
    assert sorted(told[0][0][0] + told[1][0][0]) == list(range(COUNT))
    assert sorted(told[0][1] + told[1][1]) == list(range(COUNT))
