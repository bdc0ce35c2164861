"""Stores with right checksums over wrong contents: what another program, or an attacker, could write."""

import hashlib
import json
from typing import Any

import numpy as np

from dtoken.data.chunks import ARRAYS
from dtoken.data.meta import CHECKSUMS
from dtoken.data.store import ShardStore
from dtoken.data.writer import encoded, group, write_chunk, write_metadata


def rewrite(store: ShardStore, node: int, name: str, number: int, values: dict[int, Any]) -> None:
    """Change elements of a chunk, with the checksum that belongs to them."""
    array = store.array(node, name)
    content = np.frombuffer(array.chunk_path(number).read_bytes()[:-4], array.dtype).copy()
    for place, value in values.items():
        content[place] = value
    write_chunk(array.chunk_path(number), content)


def seal(store: ShardStore, **attributes: Any) -> None:
    """List the checksums of the chunks as they are, with the digest that belongs to them and to changed attributes."""
    listed = [
        int.from_bytes(store.array(node, name).chunk_path(number).read_bytes()[-4:], "little")
        for node in range(store.n)
        for name in ARRAYS
        for number in range(store.array(node, name).chunks)
    ]
    checksums = np.array(listed, np.uint32)
    write_chunk(store.path / CHECKSUMS / "c" / "0", checksums)
    content = json.loads(encoded(group(store.meta.attributes(checksums))))
    named = content["attributes"] | attributes
    named.pop("digest")
    write_metadata(store.path, group(named | {"digest": _digest(named, checksums)}))


def _digest(named: dict[str, Any], checksums: Any) -> str:
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode() + checksums.astype("<u4").tobytes()).hexdigest()
