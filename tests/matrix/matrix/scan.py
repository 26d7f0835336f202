"""Reads every file again and writes down what libhdf5 gives: manifest.csv and attributes.csv."""

import csv
import os

import h5py
from h5py import h5o, h5t

from . import canonical, names

MANIFEST = ["file", "variable", "kind", "dtype", "shape", "sha256", "note"]
ATTRIBUTES = ["file", "object", "attribute", "kind", "dtype", "shape", "sha256"]
SIMPLE = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.STRING, h5t.COMPOUND, h5t.COMPLEX)


class Walk:
    """One file's data sets, by hard links, groups entered once; soft and external links to data sets as well."""

    def __init__(self, file):
        self.file = file
        self.entered = set()
        self.found = []
        self.groups = []
        self._enter(file["/"], "", "")

    def _enter(self, group, path, note):
        info = h5o.get_info(group.id)
        if (info.fileno, info.addr) in self.entered:
            return
        self.entered.add((info.fileno, info.addr))
        self.groups.append((path or "/", group))
        if path and info.rc > 1:
            note = "by-name"
        for name in sorted(group.id, key=bytes):
            self._link(group, name, path, note)

    def _link(self, group, name, path, note):
        try:
            text = name.decode("utf-8")
        except UnicodeDecodeError:
            return
        where = f"{path}/{text}"
        link = group.get(text, getlink=True)
        hard = isinstance(link, h5py.HardLink)
        try:
            item = group[text]
        except (KeyError, OSError, RuntimeError):
            return  # dangling, or round in circles
        if isinstance(item, h5py.Dataset):
            self.found.append((where, item, note if hard else "by-name"))
        elif isinstance(item, h5py.Group) and hard:
            self._enter(item, where, note)
        elif isinstance(item, h5py.Datatype):
            self.groups.append((where, item))


def _simple(kind):
    form = kind.get_class()
    if form == h5t.COMPOUND:
        return all(_simple(kind.get_member_type(i)) for i in range(kind.get_nmembers()))
    if form == h5t.STRING:
        return not kind.is_variable_str()
    if form == h5t.COMPLEX and kind.get_size() == 4:
        return False  # numpy has no pair of half floats
    if form == h5t.FLOAT and canonical.is_bfloat16(kind):
        return False  # h5py widens it
    return form in SIMPLE and (form != h5t.INTEGER or kind.get_size() in (1, 2, 4, 8))


def _agree(dataset, ours):
    """h5py's array, packed by numpy, must be what was read by way of the memory type."""
    if dataset.shape is None or dataset.size > 10000 or not _simple(dataset.id.get_type()):
        return
    if canonical.packed(dataset[...]) != ours:
        raise AssertionError(f"{dataset.file.filename}: {dataset.name}: two ways of reading disagree")


def _row(file, where, dataset, remark, note):
    kind = remark["kind"]
    sha = ""
    if kind == "value":
        ours = canonical.canonical_bytes(dataset.id)
        _agree(dataset, ours)
        sha = canonical.hashlib.sha256(ours).hexdigest()
    notes = ";".join(n for n in [*remark["note"], note] if n)
    thing = dataset.id
    return [file, where, kind, names.type_name(thing.get_type()), names.shape_name(thing.get_space()), sha, notes]


def _attribute_rows(file, where, item):
    for name in sorted(item.attrs.keys()):
        thing = item.attrs.get_id(name)
        kind, sha = "value", ""
        try:
            sha = canonical.sha256(thing)
        except canonical.Refused as refused:
            kind = f"refuse:{refused}"
        shape = names.shape_name(thing.get_space())
        yield [file, where, name, kind, names.type_name(thing.get_type()), shape, sha]


def scan_file(name, matrix):
    """The manifest rows and the attribute rows of one file."""
    rows, attributes = [], []
    nothing = {"kind": "value", "note": []}
    with h5py.File(name, "r") as file:
        walk = Walk(file)
        extra = [(path, file[path], f"by-name;{note}") for at, path, note in matrix.extra if at == name]
        for where, dataset, note in walk.found + extra:
            remark = matrix.remarks.get((name, where), nothing)
            try:
                rows.append(_row(name, where, dataset, remark, note))
            except canonical.Refused as refused:
                remark = {"kind": f"refuse:{refused}", "note": remark["note"]}
                rows.append(_row(name, where, dataset, remark, note))
            except OSError as error:
                raise AssertionError(f"{name}: {where}: libhdf5 cannot read it: {error}") from error
            if note != "by-name":
                attributes.extend(_attribute_rows(name, where, dataset))
        for where, group in walk.groups:
            attributes.extend(_attribute_rows(name, where, group))
    return rows, attributes


def write_csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def scan(matrix, folder="."):
    """Writes both tables; returns the manifest's rows."""
    rows, attributes = [], []
    for name in sorted(set(matrix.files)):
        more, described = scan_file(name, matrix)
        rows += more
        attributes += described
    write_csv(os.path.join(folder, "manifest.csv"), MANIFEST, rows)
    write_csv(os.path.join(folder, "attributes.csv"), ATTRIBUTES, attributes)
    return rows
