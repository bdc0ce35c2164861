"""How the C library deals with memory: it keeps what a run frees, and returns it to the system between runs.

Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``. With that, vectors of more than 128 kB are mapped anew
each time one is made, and steps that make some spend most of their time on page faults. What is set here overrides it,
whoever started the process, and is the same everywhere: times of runs can be compared. Only GNU's library knows this.
"""

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of mallopt
LARGE = 32 * 1024**2  # bytes from which a block is mapped on its own; the most that the library allows


def keep_memory() -> None:
    """Let freed blocks be used again; of unused memory at the end of the heap, twice a large block may stay."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, LARGE)
        mallopt(TRIM_THRESHOLD, 2 * LARGE)


def give_back() -> None:
    """Return to the system what the library keeps of memory that was freed."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
