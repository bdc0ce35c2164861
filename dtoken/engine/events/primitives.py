"""What numba lacks for several threads on one array: ordered loads and stores, and a hint to fetch memory early."""

import platform
from typing import Any

from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array

from dtoken.compiled import intrinsic


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, *indices: Any) -> Any:
    view = make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, indices, wraparound=False)


@intrinsic
def load_acquire(typing_context: Any, array: Any, index: Any) -> Any:
    """array[index] of int64; what the storing thread wrote before is visible afterwards."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def store_release(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index] = value of int64; what this thread wrote before becomes visible with it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store_atomic(arguments[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def fence(typing_context: Any) -> Any:
    """What this thread stored before is visible to others before it loads anything after this."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def pause(typing_context: Any) -> Any:
    """Tell the processor, where it can be told, that this thread only looks for something."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() == "x86_64":
            kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to bring the cache line of array[index] closer; no effect on results."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _fetch(builder, _pointer(context, builder, signature.args[0], *arguments))
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def prefetch_entry(typing_context: Any, array: Any, i: Any, s: Any) -> Any:
    """The same for array[i, s]; an array with one axis is left alone."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.args[0].ndim > 1:
            _fetch(builder, _pointer(context, builder, signature.args[0], *arguments))
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
                _fetch(builder, _pointer(context, builder, kind, array, place))
        return context.get_dummy_value()

    return types.void(arrays, types.intp, types.intp), codegen


def _fetch(builder: Any, pointer: Any) -> None:
    byte, integer = cgutils.voidptr_t, cgutils.int32_t
    kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [byte, integer, integer, integer])
    function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
    read, high_locality, data_cache = integer(0), integer(3), integer(1)
    builder.call(function, [builder.bitcast(pointer, byte), read, high_locality, data_cache])
