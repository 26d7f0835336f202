"""Types and shapes in words, for the manifest's readers."""

from h5py import h5s, h5t

ORDER = {h5t.ORDER_LE: "<", h5t.ORDER_BE: ">", h5t.ORDER_NONE: "|"}
PADDING = {h5t.STR_NULLTERM: "nullterm", h5t.STR_NULLPAD: "nullpad", h5t.STR_SPACEPAD: "spacepad"}


def _number(kind, letter):
    size = kind.get_size()
    order = "|" if size == 1 else ORDER.get(kind.get_order(), "?")
    text = f"{order}{letter}{size}"
    if letter == "f":
        fields = kind.get_fields()
        if fields not in ((15, 10, 5, 0, 10), (31, 23, 8, 0, 23), (63, 52, 11, 0, 52)):
            text += f"(e{fields[2]}m{fields[4]})"
    elif letter != "b" and kind.get_precision() != 8 * size:
        text += f"({kind.get_precision()}@{kind.get_offset()})"
    return text


def type_name(kind):
    """Such as `>i4`, `<i4(20@5)`, `enum(|i1)`, `S8:spacepad`, `vlen(<f4)`, `{a:<i4,b:[3,2]>f8}`."""
    form = kind.get_class()
    if form == h5t.INTEGER:
        return _number(kind, "i" if kind.get_sign() == h5t.SGN_2 else "u")
    if form == h5t.BITFIELD:
        return _number(kind, "b")
    if form == h5t.FLOAT:
        return _number(kind, "f")
    if form == h5t.ENUM:
        return f"enum({type_name(kind.get_super())})"
    if form == h5t.COMPLEX:
        return f"complex({type_name(kind.get_super())})"
    if form == h5t.STRING:
        return "str" if kind.is_variable_str() else f"S{kind.get_size()}:{PADDING[kind.get_strpad()]}"
    if form == h5t.OPAQUE:
        return f"opaque{kind.get_size()}"
    if form == h5t.VLEN:
        return f"vlen({type_name(kind.get_super())})"
    if form == h5t.ARRAY:
        return f"[{','.join(map(str, kind.get_array_dims()))}]{type_name(kind.get_super())}"
    if form == h5t.COMPOUND:
        fields = (
            f"{kind.get_member_name(i).decode('utf-8', 'replace')}:{type_name(kind.get_member_type(i))}"
            for i in range(kind.get_nmembers())
        )
        return "{" + ",".join(fields) + "}"
    return {h5t.REFERENCE: "reference", h5t.TIME: "time"}.get(form, "?")


def shape_name(space):
    """Such as `13x11`; `scalar` and `null` for those."""
    form = space.get_simple_extent_type()
    if form == h5s.NULL:
        return "null"
    if form == h5s.SCALAR:
        return "scalar"
    return "x".join(map(str, space.get_simple_extent_dims()))
