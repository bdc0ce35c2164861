"""What a run will take, as far as that is known before its data are read."""

import math
from typing import NamedTuple

from dtoken.config.settings import Settings
from dtoken.data.ingest import default_store_root, store_key
from dtoken.data.store import ShardStore
from dtoken.errors import InputError, RunError

ENTRY_BYTES = 12  # a value and its column


class Estimate(NamedTuple):
    """Memory of the state and the data, in bytes, and gradients until the run stops at the latest."""

    memory: float | None  # None: nobody knows before the data are read
    gradients: float | None


def estimate(settings: Settings) -> Estimate:
    """What one run takes.

    Examples
    --------
    >>> from dtoken.config.settings import make_settings
    >>> estimate(make_settings(data={"kind": "synthetic", "rows": 1000}, stop={"passes": 30})).gradients
    30000.0
    """
    sizes = _sizes(settings)
    if sizes is None:
        return Estimate(None, None)
    rows, features, nonzeros = sizes
    n = settings.partition.nodes
    tokens = len(settings.method.token_start(n))
    models = 8 * features * 2 * (n + tokens)  # each has a model and an accumulated gradient or dual variable
    stop = settings.stop
    gradients = None if stop.passes is None else math.ceil(stop.passes * rows)
    return Estimate(models + 8 * rows + ENTRY_BYTES * nonzeros, None if gradients is None else float(gradients))


def _sizes(settings: Settings) -> tuple[int, int, int] | None:
    """Rows, features and non-zeros: of the store, if it was made already, else of a source that knows them."""
    place = (settings.store or default_store_root()) / store_key(settings.source, settings.partition, settings.labels)
    if place.exists():
        try:
            meta = ShardStore.open(place).meta
        except (InputError, RunError):
            return None  # the run will say what is wrong with it
        return meta.rows, meta.d, meta.nonzeros
    rows, features = getattr(settings.source, "rows", None), settings.source.features
    return None if rows is None or features is None else (rows, features, 0)
