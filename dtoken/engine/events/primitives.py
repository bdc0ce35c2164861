"""What numba lacks for several threads on one array: ordered loads and stores, and a pause between looks."""

import platform
from typing import Any

from numba import types
from numba.core import cgutils

from dtoken.compiled import intrinsic
from dtoken.problem.prefetch import item_pointer


@intrinsic
def load_acquire(typing_context: Any, array: Any, index: Any) -> Any:
    """array[index] of int64; what the storing thread wrote before is visible afterwards."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = item_pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def store_release(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index] = value of int64; what this thread wrote before becomes visible with it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = item_pointer(context, builder, signature.args[0], arguments[0], arguments[1])
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
