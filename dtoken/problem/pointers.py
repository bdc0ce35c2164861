"""Calls of compiled functions by their addresses: how kernels reach a loss that they were not compiled with.

A function that is passed as an argument would defeat numba's disk cache. A number does not: the code of such a loss is
the address of a table with the addresses of its functions, which belongs to this process and is told to no other one.
"""

from typing import Any

from llvmlite import ir
from numba import types

from dtoken.compiled import intrinsic


@intrinsic
def call_pointer(typing_context: Any, table: Any, place: Any, t: Any, y: Any) -> Any:
    """What the function at ``place`` of the table at the address ``table`` returns for two numbers."""
    signature = types.float64(types.int64, types.int64, types.float64, types.float64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, place, t, y = arguments
        number = ir.DoubleType()
        function = ir.FunctionType(number, [number, number]).as_pointer()
        entries = builder.inttoptr(table, function.as_pointer())
        return builder.call(builder.load(builder.gep(entries, [place])), [t, y])

    return signature, generate
