"""Stopping and going on while ``tf.data`` reads ahead: each sample once."""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from package_fixtures import Make

import forebay
import forebay.tensorflow
from forebay.tensorflow import State, StateCallback

COUNT = 50
STEPS = 10


@pytest.fixture
def path(make: Make) -> Path:
    return make(x=np.arange(COUNT * 4, dtype="<f4").reshape(COUNT, 4), y=np.arange(COUNT))


def batches(path: Path, state: State, **options: Any) -> Any:
    return forebay.tensorflow.dataset(path, fields=["x"], label="y", batch_size=5, shuffle="full", seed=9, state=state, **options)


def numbers(batch: Any) -> list[int]:
    return [int(one) for one in batch["y"]]


def epoch_of(ds: Any, state: State) -> list[int]:
    seen = []
    for batch in ds.prefetch(8):
        seen += numbers(batch)
        state.commit()
    return seen


@pytest.mark.parametrize("stop", range(STEPS + 1))
def test_stopped_at_any_step_under_prefetch_each_sample_comes_once(path: Path, stop: int) -> None:
    state = State()
    seen = []
    for batch in batches(path, state).prefetch(8).take(stop):
        seen += numbers(batch)
        state.commit()
    saved = json.loads(json.dumps(state.state_dict()))
    assert saved["epoch"] == (1 if stop == STEPS else 0)
    resumed = State(saved)
    rest = batches(path, resumed)
    assert rest.cardinality() == (STEPS if stop in (0, STEPS) else tf.data.UNKNOWN_CARDINALITY)
    following = epoch_of(rest, resumed)
    if stop < STEPS:
        assert sorted(seen + following) == list(range(COUNT))
    # The epoch after is whole, and what it would have been without a stop.
    whole = epoch_of(rest, resumed) if stop < STEPS else following
    straight = forebay.open(path, ["x"], label="y").loader(batch_size=5, shuffle="full", seed=9)
    straight.set_epoch(1)
    assert whole == [int(one) for batch in straight for one in batch["y"]]


def test_the_state_is_where_training_is_not_where_tf_data_is(path: Path) -> None:
    state = State()
    taken = iter(batches(path, state).prefetch(8))
    for _ in range(3):
        next(taken)
    assert state.state_dict()["position"] == 0 and "batches ahead" in repr(state)
    state.commit(count=2)
    assert state.state_dict()["position"] == 10 and state.epoch == 0


def of_rank(path: Path, rank: int, world: int, state: State) -> Any:
    """Batches of a rank under ``prefetch``, with the numbers of their samples; the last ones may be padded."""
    return batches(path, state, rank=rank, world=world, tail="pad", indices=True).prefetch(8)


def trained(ds: Any, state: State) -> list[int]:
    """The samples of each batch, which are committed; padding is none."""
    seen: list[int] = []
    for batch in ds:
        real = batch["indices"].numpy() >= 0
        assert batch["y"].numpy()[real].tolist() == batch["indices"].numpy()[real].tolist()
        seen += batch["y"].numpy()[real].tolist()
        state.commit()
    return seen


@pytest.mark.parametrize(("after", "stops"), [(2, range(COUNT // 10)), (1, [2]), (3, [1, 4])])
def test_ranks_that_are_stopped_at_any_step_go_on_with_any_number_of_ranks(path: Path, after: int, stops: Sequence[int]) -> None:
    for stop in stops:
        states = [State(), State()]
        seen = [one for rank, state in enumerate(states) for one in trained(of_rank(path, rank, 2, state).take(stop), state)]
        # All ranks are at one place of the order: the state of any of them is that of all.
        saved = states[0].state_dict()
        assert saved == states[1].state_dict() and saved["position"] == 10 * stop
        resumed = [State(saved) for _ in range(after)]
        rest = [one for rank, state in enumerate(resumed) for one in trained(of_rank(path, rank, after, state), state)]
        assert sorted(seen + rest) == list(range(COUNT))
        assert {(state.epoch, state.state_dict()["position"]) for state in resumed} == {(1, 0)}


def test_a_state_brings_its_order_whatever_the_dataset_says(path: Path) -> None:
    state = State()
    seen = trained(batches(path, state, indices=True).take(3), state)
    other = forebay.tensorflow.dataset(path, fields=["x"], label="y", batch_size=5, seed=1, state=State(state.state_dict()))
    rest = [one for batch in other for one in numbers(batch)]
    assert seen + rest == [int(one) for batch in batches(path, State()) for one in batch["y"]]


def test_over_the_end_of_an_epoch_under_prefetch(path: Path) -> None:
    state = State()
    seen = []
    for batch in batches(path, state, epochs=3).prefetch(8).take(14):
        seen += numbers(batch)
        state.commit()
    assert state.epoch == 1 and state.state_dict()["position"] == 20
    following = [one for batch in batches(path, State(state.state_dict())) for one in numbers(batch)]
    assert sorted(seen[COUNT:] + following) == sorted(seen[:COUNT]) == list(range(COUNT))


def test_the_rest_of_an_epoch_is_the_first_of_those_that_are_joined(path: Path) -> None:
    state = State()
    seen = epoch_of(batches(path, state).take(3), state)
    resumed = State(state.state_dict())
    joined = epoch_of(batches(path, resumed, epochs=2), resumed)
    assert len(joined) == 2 * COUNT - 15 and sorted(seen + joined[: COUNT - 15]) == sorted(joined[COUNT - 15 :]) == list(range(COUNT))
    assert (resumed.epoch, resumed.state_dict()["position"]) == (2, 0)


def test_a_repeated_epoch_under_prefetch_names_what_to_do(path: Path) -> None:
    state = State()
    with pytest.raises(tf.errors.OpError, match=r"give epochs= to dataset\(\) in place of repeat\(\)"):
        for _ in batches(path, state).repeat(2).prefetch(8):
            pass


def test_batches_carry_their_positions_and_may_be_committed_in_any_order(path: Path) -> None:
    state = State()
    taken = list(batches(path, state, position=True).take(4))
    positions = [batch["position"] for batch in taken]
    assert [one.numpy().tolist() for one in positions] == [[0, 5], [0, 10], [0, 15], [0, 20]]
    for number, reached in [(1, 0), (3, 0), (0, 10), (2, 20)]:
        state.commit(positions[number])
        assert state.state_dict()["position"] == reached
    with pytest.warns(forebay.ForebayWarning, match="does not count"):
        state.commit(positions[0])


def test_positions_go_through_shuffle_and_batch(path: Path) -> None:
    state = State()
    seen = []
    for number, batch in enumerate(batches(path, state, position=True).shuffle(4, seed=1).batch(2).prefetch(2)):
        seen += np.ravel(batch["y"]).tolist()
        state.commit(batch["position"])
        if number == 2:
            break
    again = [one for batch in batches(path, State(state.state_dict())) for one in numbers(batch)]
    # What was trained on out of order comes again; nothing is left out.
    assert set(seen) | set(again) == set(range(COUNT)) and len(again) >= COUNT - 30


def test_batches_that_a_filter_drops_are_counted_by_the_next_that_comes(path: Path) -> None:
    state = State()
    ds = batches(path, state, position=True)
    kept = lambda: ds.filter(lambda batch: tf.reduce_min(batch["y"]) > 3).prefetch(8)
    for batch in kept():
        state.commit(batch["position"], through=True)
        assert state.state_dict()["position"] in (int(batch["position"][1]), 0)
    # Whether the last one was dropped only the end tells.
    state.commit(through=True)
    assert (state.epoch, state.state_dict()["position"], state.is_behind) == (1, 0, False)
    seen = sum(1 for _ in kept())
    assert 0 < seen < STEPS and state.is_behind
    with pytest.raises(tf.errors.UnknownError, match=r"commit\(through=True\)"):
        list(kept())
    with pytest.warns(forebay.ForebayWarning, match="does not count"):
        state.commit([[7, 7]], through=True)
    assert state.epoch == 1


def test_an_iterator_that_was_left_goes_on_from_what_was_trained_on(path: Path) -> None:
    state = State()
    ds = batches(path, state)
    first = numbers(next(iter(ds)))
    # Nothing was trained on: the epoch is begun again.
    seen = []
    for batch in ds.prefetch(2).take(4):
        seen += numbers(batch)
        state.commit()
    assert seen[:5] == first
    with pytest.raises(tf.errors.OpError, match=r"make another with State\(state.state_dict\(\)\)"):
        next(iter(ds))
    rest = [one for batch in batches(path, State(state.state_dict())) for one in numbers(batch)]
    assert sorted(seen + rest) == list(range(COUNT))


def test_a_state_belongs_to_one_dataset(path: Path) -> None:
    state = State()
    with pytest.raises(ValueError, match="belongs to no dataset"):
        state.state_dict()
    batches(path, state)
    with pytest.raises(ValueError, match="a State of its own"):
        batches(path, state)
    with pytest.raises(ValueError, match="made with this State already"):
        state.load_state_dict(state.state_dict())
    with pytest.raises(forebay.InvalidError):
        batches(path, State({**state.state_dict(), "samples": 7}))


def model() -> Any:
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])


class StopAfter(keras.callbacks.Callback):
    """Ends the training after so many batches in all."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.count -= 1
        self.model.stop_training = self.count == 0


class Noting(keras.Model):
    """A model that notes what it is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen: list[int] = []

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
        self.seen += [int(one) for one in data[1]]
        return super().train_step(data)


@pytest.mark.parametrize("stop", [*range(1, STEPS + 1), STEPS + 3])
def test_keras_stops_and_goes_on_with_each_sample_once(path: Path, tmp_path: Path, stop: int) -> None:
    def fit(state: State, epochs: int, *callbacks: Any) -> list[int]:
        net = Noting()
        net.compile("sgd", "mse", run_eagerly=True)
        net.optimizer.learning_rate = 0.0
        ds = batches(path, state, as_supervised=True).prefetch(8)
        net.fit(ds, epochs=epochs, verbose=0, callbacks=[StateCallback(state, tmp_path / "state.json", every=3), *callbacks])
        return net.seen

    seen = fit(State(), 2, StopAfter(stop))
    assert len(seen) == 5 * stop
    state = State(json.loads((tmp_path / "state.json").read_text()))
    assert state.epoch == stop // STEPS
    rest = fit(state, 1)
    whole = seen[stop // STEPS * COUNT :] + rest
    assert sorted(whole) == list(range(COUNT))


def test_keras_knows_how_many_steps_there_are_and_its_loss_falls(make: Make) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(640, 8)).astype("<f4")
    path = make("learn.h5", x=(x, {"chunks": (32, 8), "compression": "gzip"}), y=(x @ np.arange(8)).astype("<f4"))
    ds = forebay.tensorflow.dataset(path, fields=["x"], label="y", batch_size=32, shuffle="full", as_supervised=True)
    net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.05), "mse")
    steps = []
    counting = keras.callbacks.LambdaCallback(on_train_begin=lambda _: steps.append(counting.params["steps"]))
    history = net.fit(ds.prefetch(2), epochs=3, verbose=0, callbacks=[counting], validation_data=ds.take(2))
    assert steps == [20]
    losses = history.history["loss"]
    assert losses[2] < losses[1] < losses[0] / 2


def test_several_steps_of_one_execution_are_committed_together(path: Path) -> None:
    state = State()
    net = model()
    net.compile("sgd", "mse", steps_per_execution=3)
    ds = batches(path, state, as_supervised=True, epochs=None).prefetch(4)
    net.fit(ds, steps_per_epoch=6, epochs=2, verbose=0, callbacks=[StateCallback(state)])
    assert (state.epoch, state.state_dict()["position"]) == (1, 10)


@pytest.mark.filterwarnings("error::forebay.ForebayWarning")
def test_a_last_execution_of_fewer_steps_counts_those(path: Path) -> None:
    state = State()
    net = model()
    net.compile("sgd", "mse", steps_per_execution=4)
    net.fit(batches(path, state, as_supervised=True), epochs=1, verbose=0, callbacks=[StateCallback(state)])
    assert (state.epoch, state.state_dict()["position"], state.is_behind) == (1, 0, False)


def test_what_is_no_state_is_refused(path: Path) -> None:
    with pytest.raises(TypeError, match="is no forebay.tensorflow.State"):
        forebay.tensorflow.dataset(path, fields=["x"], state="saved.json")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is no forebay.tensorflow.State"):
        StateCallback({})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every=0"):
        StateCallback(State(), every=0)


def test_the_example_learns_and_goes_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    example = Path(__file__).parents[2] / "examples" / "tensorflow_images.py"
    monkeypatch.setattr("sys.argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    said = capsys.readouterr().out
    losses = [float(line.split()[-1]) for line in said.splitlines() if "loss" in line]
    assert len(losses) == 3 and losses[-1] < losses[0] / 2 and "going on in epoch 1 at sample 320" in said
