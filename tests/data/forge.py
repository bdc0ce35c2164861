"""Stores with right checksums over wrong contents: what another program, or an attacker, could write."""

import hashlib
import json
from typing import Any

import numpy as np

from dtoken.data.chunks import ARRAYS
from dtoken.data.meta import CHECKSUMS
from dtoken.data.store import ShardStore
from dtoken.data.writer import encoded, group, write_chunk, write_metadata


def rewrite(store: ShardStore, pack: int, name: str, number: int, values: dict[int, Any]) -> None:
    """Change elements of a chunk, with the checksum that belongs to them."""
    array = store.array(pack, name)
    content = np.frombuffer(array.chunk_path(number).read_bytes()[:-4], array.dtype).copy()
    for place, value in values.items():
        content[place] = value
    write_chunk(array.chunk_path(number), content)


def seal(store: ShardStore, **changed: Any) -> None:
    """List the checksums of the chunks as they are, with the digest that belongs to them and to what is changed.

    Lists of the root are changed by their names, all else are attributes.
    """
    listed = [
        int.from_bytes(store.array(pack, name).chunk_path(number).read_bytes()[-4:], "little")
        for pack in range(store.meta.packs)
        for name in ARRAYS
        for number in range(store.array(pack, name).chunks)
    ]
    checksums = np.array(listed, np.uint32)
    lists = {name: np.array(changed.pop(name, values), np.int64) for name, values in store.meta.index().items()}
    for name, values in {CHECKSUMS: checksums, **lists}.items():
        write_chunk(store.path / name / "c" / "0", values)
    content = json.loads(encoded(group(store.meta.attributes(checksums))))
    named = content["attributes"] | changed
    named.pop("digest")
    covered = [
        json.dumps(named, sort_keys=True).encode(),
        checksums.tobytes(),
        *(each.tobytes() for each in lists.values()),
    ]
    write_metadata(store.path, group(named | {"digest": hashlib.sha256(b"".join(covered)).hexdigest()}))
