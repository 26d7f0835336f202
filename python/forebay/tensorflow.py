"""forebay for TensorFlow: data sets of ``tf.data`` over forebay's own memory.

>>> ds = forebay.tensorflow.dataset("train/*.h5", fields=["image"], label="label", batch_size=64, shuffle="full", as_supervised=True)
>>> model.fit(ds, epochs=3)

Batches are made ahead by forebay's threads. Each crosses by one call of Python, and its memory is TensorFlow's until that lets go of it.
"""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from ._dataset.dataset import Dataset
from ._dataset.opening import open as open_set
from ._loader.loader import Loader
from ._store.store import Store
from ._dataset.subset import Subset

# Before TensorFlow itself: where that is not installed, it says what to do.
from ._tensorflow.fields import as_written, tf
from ._tensorflow.feed import ENDLESS, TensorFeed
from ._tf_formats import ADIOS2, GNCF, HDF5, NC, NetCDF, Silo, Source, Zarr, from_slices
from ._tensorflow.state import State

if TYPE_CHECKING:
    from ._tensorflow.callback import StateCallback

__all__ = [
    "ADIOS2",
    "GNCF",
    "HDF5",
    "NC",
    "NetCDF",
    "Silo",
    "Source",
    "State",
    "StateCallback",
    "Zarr",
    "dataset",
    "from_slices",
]

POSITION, INDICES = "position", "indices"
"""The names under which a batch carries its position, and the numbers of its samples."""


@as_written
def dataset(
    source: Any,
    *,
    state: State | None = None,
    position: bool = False,
    indices: bool = False,
    as_supervised: bool = False,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> Any:
    """Batches of a set of samples as a ``tf.data.Dataset``: dicts of tensors by field, or tuples.

    Each iteration is an epoch, with an order of its own, or as many as ``epochs`` says. Specs are exact; the length is known wherever
    iterations have one. Samples of different lengths are ``RaggedTensor``, texts ``tf.string``.

    Args:
        source: a :class:`forebay.Dataset`, a :class:`forebay.Store` or a subset, or what :func:`forebay.open` takes: a path, a pattern,
            a list. Of paths, ``fields``, ``label``, ``samples`` and whatever else says what samples are goes to :func:`forebay.open`.
        state: a :class:`State` that knows what was trained on, to stop and go on. One that was loaded in the middle of an epoch makes
            the first iteration the rest of it; the length of iterations is then unknown.
        position: batches carry their position, two integers by which :meth:`State.commit` takes them in any order (the epoch, and the
            place in its order, that training goes on from after this batch): as ``batch["position"]``, or last in a tuple.
        indices: batches carry the numbers of their samples, -1 for padding and for what could not be read: as ``batch["indices"]``, or
            in a tuple after the fields.
        as_supervised: batches are pairs ``(features, label)`` for Keras: the features are the tensor of the only other field, or a dict.
        rank, world: which of how many processes this is.
        options: what :class:`forebay.Loader` takes, but for ``map``, ``sample_map``, ``collate`` and ``refresh``.
    """
    opened = _opened(source, options)
    as_tuple = bool(options.pop("as_tuple", False))
    if as_supervised and as_tuple:
        raise ValueError("as_supervised=True and as_tuple=True: both say what a batch is; give one of them")
    feed = TensorFeed(opened, state, position, indices, rank=rank, world=world, **options)
    names = [field.name for field in feed.fields]
    for is_carried, name in ((position, POSITION), (indices, INDICES)):
        if is_carried and name in names:
            raise ValueError(f"{name}=True, and a field is called {name!r}: open the set with another name for it")
    label = getattr(getattr(opened, "_base", opened), "label", None)
    if as_supervised and (label not in names or len(names) < 2):
        raise ValueError("as_supervised=True needs a label and another field: forebay.open(..., label=)")
    batch, fields = feed.static_batch, feed.fields

    def shaped(*flat: Any) -> Any:
        rest = iter(flat)
        place = next(rest) if position else None
        if place is not None:
            place.set_shape((2,))
        numbers = next(rest) if indices else None
        if numbers is not None:
            numbers.set_shape((batch,))
        tensors = {field.name: field.tensor(rest, batch) for field in fields}
        carried = {name: one for name, one in ((INDICES, numbers), (POSITION, place)) if one is not None}
        return _element(tensors, carried, as_tuple, label if as_supervised else None)

    return _sized(_pipeline(feed, shaped), feed)


def _pipeline(feed: TensorFeed, shaped: Any) -> Any:
    """The batches of ``feed``, each as ``shaped`` makes it of what crossed."""
    types, may_be_shorter = feed.types, feed.may_be_shorter
    begin_call, take_call = feed.calls()

    @as_written
    def begin(_: Any) -> Any:
        key, count = tf.numpy_function(begin_call, [], [tf.int64, tf.int64])
        key.set_shape(())
        count.set_shape(())
        return key, count

    @as_written
    def batches(key: Any, count: Any) -> Any:
        take = lambda _: tuple(tf.numpy_function(take_call, [key], types))
        steps = tf.data.Dataset.range(count)
        if not may_be_shorter:
            return steps.map(as_written(lambda number: shaped(*take(number))))
        taken = steps.map(as_written(take)).take_while(as_written(lambda is_there, *_: is_there))
        return taken.map(as_written(lambda _, *flat: shaped(*flat)))

    source = tf.data.Dataset.from_tensors(0)
    # Whatever is made of a dataset holds on to it, and so to the feed.
    source._forebay_feed = feed
    return source.map(begin).flat_map(batches)


def _sized(made: Any, feed: TensorFeed) -> Any:
    """``made``, which says how many batches it has, where that is known."""
    options = tf.data.Options()
    if feed.world > 1:
        # Ranks have their own samples already.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    made = made.with_options(options)
    if feed.length is None:
        return made
    length = tf.data.INFINITE_CARDINALITY if feed.length >= ENDLESS else feed.length
    return made.apply(tf.data.experimental.assert_cardinality(length))


def _element(tensors: dict[str, Any], carried: dict[str, Any], as_tuple: bool, label: str | None) -> Any:
    if label is not None:
        target = tensors.pop(label)
        features = next(iter(tensors.values())) if len(tensors) == 1 else tensors
        return (features, target, *carried.values())
    if as_tuple:
        return (*tensors.values(), *carried.values())
    return {**tensors, **carried}


def _opened(source: Any, options: dict[str, Any]) -> Any:
    """The set that ``source`` is or names; what says how paths are opened is taken out of ``options``."""
    if isinstance(source, (Dataset, Store, Subset)):
        known = inspect.signature(Loader.__init__).parameters
        if unknown := [name for name in options if name in inspect.signature(open_set).parameters and name not in known]:
            raise ValueError(f"{', '.join(unknown)} with a set that is open already: say it where the set is opened")
        return source
    if tf.is_tensor(source):
        raise TypeError(
            "a path that is a tensor, as inside interleave(): give dataset() all paths at once (shuffle='block' takes them in turns), or "
            "interleave forebay.tensorflow.from_slices(files) by forebay.tensorflow.HDF5 or another format"
        )
    if not isinstance(source, (str, os.PathLike, list, tuple)):
        raise TypeError(f"a forebay.Dataset is needed, as forebay.open gives it, a Store or paths, not {type(source).__name__}")
    # What both take says how epochs are read, and goes to the loader; but for fields, which paths have none of yet.
    of_loader = set(inspect.signature(Loader.__init__).parameters) - {"fields"}
    named = [name for name in inspect.signature(open_set).parameters if name not in of_loader]
    return open_set(source, **{name: options.pop(name) for name in named if name in options})


def __getattr__(name: str) -> Any:
    # Keras takes a second to import, and not every program trains with it.
    if name == "StateCallback":
        from ._tensorflow.callback import StateCallback

        return StateCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

