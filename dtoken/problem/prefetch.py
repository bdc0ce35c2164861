"""A hint to the processor: bring memory closer that will be needed soon. It has no effect on results."""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array

from dtoken.compiled import compiled, intrinsic

LINE = 64  # bytes
AHEAD = 2  # rows from the one that is fetched to the one that is used, in a loop over rows


def item_pointer(context: Any, builder: Any, array_type: Any, array: Any, *indices: Any) -> Any:
    """Where an entry of an array lies, for an intrinsic."""
    view = make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, indices, wraparound=False)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to bring the cache line of array[index] closer; no effect on results."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _fetch(builder, item_pointer(context, builder, signature.args[0], *arguments))
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def prefetch_entry(typing_context: Any, array: Any, i: Any, s: Any) -> Any:
    """The same for array[i, s]; an array with one axis is left alone."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.args[0].ndim > 1:
            _fetch(builder, item_pointer(context, builder, signature.args[0], *arguments))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


@intrinsic
def prefetch_each(typing_context: Any, arrays: Any, length: Any, index: Any) -> Any:
    """The same for array[index] of each of a tuple of arrays that has this length."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, wanted, place = arguments
        for position, kind in enumerate(signature.args[0].types):
            array = builder.extract_value(values, position)
            shape = make_array(kind)(context, builder, array).shape
            found = builder.icmp_signed("==", builder.extract_value(shape, 0), wanted)
            with builder.if_then(found):
                _fetch(builder, item_pointer(context, builder, kind, array, place))
        return context.get_dummy_value()

    return types.void(arrays, types.intp, types.intp), codegen


def _fetch(builder: Any, pointer: Any) -> None:
    byte, integer = cgutils.voidptr_t, cgutils.int32_t
    kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [byte, integer, integer, integer])
    function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
    read, high_locality, data_cache = integer(0), integer(3), integer(1)
    builder.call(function, [builder.bitcast(pointer, byte), read, high_locality, data_cache])


@compiled
def fetch_row_state(rows: Any, nodes: Any, r: int) -> None:
    """Ask for the numbers that there are for each row, if r is a row."""
    if r >= 0:
        prefetch(rows.start, r)
        prefetch(rows.y, r)
        prefetch(rows.q, r)
        prefetch_each(nodes, len(rows.y), r)


@compiled
def fetch_row(rows: Any, r: int) -> None:
    """Ask for row r, if it is a row."""
    if r >= 0:
        for entry in range(rows.start[r], rows.stop[r], LINE // 8):
            prefetch(rows.data, entry)
        for entry in range(rows.start[r], rows.stop[r], LINE // 4):
            prefetch(rows.indices, entry)
