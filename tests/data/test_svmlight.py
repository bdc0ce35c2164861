"""svmlight text, against scikit-learn's reader."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from dtoken.data import svmlight
from dtoken.data.rows import concatenate
from dtoken.data.svmlight import Svmlight


def read(path: Path, features: int, **options: Any) -> tuple[sp.csr_matrix, np.ndarray]:
    block = concatenate(list(Svmlight(path, **options).blocks()))
    matrix = sp.csr_matrix((block.data, block.indices, block.indptr), shape=(block.rows, features))
    return matrix, block.y


def assert_same(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> None:
    """The same bits, explicit zeros included."""
    assert ours[0].data.tobytes() == theirs[0].data.astype(np.float64).tobytes()
    assert ours[0].indices.tolist() == theirs[0].indices.tolist()
    assert ours[0].indptr.tolist() == theirs[0].indptr.tolist()
    assert ours[1].tobytes() == theirs[1].astype(np.float64).tobytes()


def assert_reads_like_sklearn(path: Path, text: bytes, **options: Any) -> None:
    theirs = load_svmlight_file(io.BytesIO(text), zero_based=True)
    assert_same(read(path, theirs[0].shape[1], **options), theirs)


GRAMMAR = {
    "plain": b"1 1:0.5 3:2\n-1 2:1\n",
    "no last newline": b"1 1:0.5 3:2\n-1 2:1",
    "crlf": b"1 1:0.5 3:2\r\n-1 2:1\r\n",
    "tabs and many blanks": b"1\t1:0.5   3:2\t\n  -1 \t 2:1\n",
    "trailing blanks": b"1 1:0.5 3:2   \n-1 2:1 \n",
    "blank lines": b"\n\n1 1:0.5\n   \n\r\n-1 2:1\n\n",
    "comment lines": b"# head 1:2\n1 1:0.5\n#\n-1 2:1\n# tail",
    "comments behind rows": b"1 1:0.5 # 7:7 x\n-1 2:1#8:8\n1# nothing\n",
    "qid": b"1 qid:3 1:0.5\n-1 qid:4 2:1\n",
    "scientific": b"1e0 1:5e-1 3:2.5E+3\n-1.0 2:1e-300\n",
    "signs": b"+1 1:+0.5 3:-2\n-1 2:-.5\n",
    "points": b"1. 1:.5 3:2.\n-1 2:00.50\n",
    "empty rows": b"1\n-1 2:1\n1 \n-1\n",
    "only empty rows": b"1\n-1\n",
    "explicit zeros": b"1 1:0 2:0.0 3:-0.0\n-1 2:1\n",
    "subnormal and long": b"1 1:5e-324 3:0.30000000000000000000000000000000000001\n-1 2:2e-310\n",
    "leading zeros in indices": b"1 001:0.5 03:2\n-1 2:1\n",
    "long labels": b"12345.678901234567 1:1\n-0.00000000000000012345678901234567890123 1:1\n",
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", GRAMMAR.values(), ids=GRAMMAR)
def test_grammar_at_every_piece_boundary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, threads: int
) -> None:
    file = tmp_path / "x.svm"
    file.write_bytes(text)
    for piece in range(1, len(text) + 2):
        monkeypatch.setattr(svmlight, "PIECE_BYTES", piece)
        assert_reads_like_sklearn(file, text, threads=threads)


values = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-99, 99).map(str),
    st.decimals(-1, 1, places=25).map(str),
)
blanks = st.sampled_from([b" ", b"  ", b"\t", b" \t "])


@st.composite
def lines(draw: Any) -> bytes:
    indices = sorted(draw(st.sets(st.integers(0, 300), max_size=6)))
    words = [draw(values).encode()]
    words += [b"qid:7"] if draw(st.booleans()) else []
    words += [b"%d:%s" % (index, draw(values).encode()) for index in indices]
    ends = [b"\n", b"\r\n", b" \n", b"# 1:1 x\n", b"\n\n", b"\n# c\n"]
    return draw(blanks).join(words) + draw(st.sampled_from(ends))


@given(st.lists(lines(), min_size=1, max_size=8), st.integers(1, 60))
def test_random_files(tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], piece: int) -> None:
    text = b"".join(rows)
    file = tmp_path_factory.mktemp("random") / "x.svm"
    file.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svmlight, "PIECE_BYTES", piece)
        assert_reads_like_sklearn(file, text)


TEXT = b"".join(b"%d %d:%r %d:1\n" % (i % 2, i % 7 + 1, i / 3, i % 7 + 9) for i in range(500))


@pytest.mark.parametrize(
    ("name", "compress"),
    [("x.gz", gzip.compress), ("x.bz2", bz2.compress), ("x.xz", lzma.compress), ("x", gzip.compress)],
)
@pytest.mark.parametrize("members", [1, 3])
def test_compressed_files(tmp_path: Path, name: str, compress: Callable[[bytes], bytes], members: int) -> None:
    file = tmp_path / name
    step = -(-len(TEXT) // members)  # members end in the middle of lines
    file.write_bytes(b"".join(compress(TEXT[start : start + step]) for start in range(0, len(TEXT), step)))
    assert_reads_like_sklearn(file, TEXT)


def test_progress_ends_at_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "PIECE_BYTES", 1000)
    for name, content in (("x.svm", TEXT), ("x.gz", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(content)
        seen: list[float] = []
        list(Svmlight(tmp_path / name).blocks(advance=seen.append))
        assert seen == sorted(seen)
        assert len(seen) > 5
        assert 0 < seen[0] <= seen[-1] == 1.0


def test_blocks_do_not_depend_on_the_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "PIECE_BYTES", 333)
    file = tmp_path / "x.svm"
    file.write_bytes(TEXT)
    one, many = (list(Svmlight(file, threads=threads).blocks()) for threads in (1, 5))
    assert len(one) == len(many) > 10
    for a, b in zip(one, many, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("text", "option", "base", "features"),
    [
        ("1 1:1 3:1\n-1 2:1\n", None, 1, 3),
        ("1 1:1 3:1\n-1 0:1\n", None, 0, 4),
        ("1 1:1 3:1\n-1 2:1\n", 0, 0, 4),
        ("1 1:1 3:1\n-1 2:1\n", 1, 1, 3),
        ("1\n-1\n", None, 1, 1),
    ],
)
def test_first_index(
    tmp_path: Path, make_store: Callable[..., Any], text: str, option: Any, base: int, features: int
) -> None:
    file = tmp_path / "x.svm"
    file.write_text(text)
    store = make_store(Svmlight(file, index_base=option), nodes=1)
    assert (store.meta.index_base, store.d) == (base, features)
    theirs, _ = load_svmlight_file(file, n_features=features, zero_based=base == 0)
    ours = store.shard(0)
    assert ours.indices.tolist() == theirs.indices.tolist()


def test_features_may_be_more_than_those_that_occur(tmp_path: Path, make_store: Callable[..., Any]) -> None:
    file = tmp_path / "x.svm"
    file.write_text("1 1:1 3:1\n-1 2:1\n")
    assert make_store(Svmlight(file, features=10), nodes=1).d == 10


@pytest.mark.parametrize(
    ("labels", "stored", "label_map"),
    [
        (("-1", "1", "1"), [-1, 1, 1], {"-1": -1.0, "1": 1.0}),
        (("0", "1", "0"), [-1, 1, -1], {"0": -1.0, "1": 1.0}),
        (("2", "1", "+2"), [1, -1, 1], {"1": -1.0, "2": 1.0}),
        (("7.5", "-3", "7.5"), [1, -1, 1], {"-3": -1.0, "7.5": 1.0}),
        (("1.0000001", "1.0000002", "1.0000001"), [-1, 1, -1], {"1.0000001": -1.0, "1.0000002": 1.0}),
        (("0", "-0.0", "5"), [-1, -1, 1], {"0": -1.0, "5": 1.0}),
        (("1", "2", "3"), [1, 2, 3], {}),
        (("0.5", "-2.25", "1e-3"), [0.5, -2.25, 1e-3], {}),
    ],
)
def test_labels(
    tmp_path: Path,
    make_store: Callable[..., Any],
    labels: tuple[str, ...],
    stored: list[float],
    label_map: dict[str, float],
) -> None:
    file = tmp_path / "x.svm"
    file.write_text("".join(f"{label} 1:1\n" for label in labels))
    store = make_store(Svmlight(file), nodes=1)
    assert store.shard(0).y.tolist() == stored
    assert store.meta.label_map == label_map
    assert store.classes == bool(label_map)


def test_two_values_can_stay_real_numbers(tmp_path: Path, make_store: Callable[..., Any]) -> None:
    file = tmp_path / "x.svm"
    file.write_text("3 1:1\n5 1:1\n")
    store = make_store(Svmlight(file), nodes=1, labels="real")
    assert store.shard(0).y.tolist() == [3.0, 5.0]
    assert not store.classes


def test_many_numbers_that_only_python_decides(tmp_path: Path) -> None:
    file = tmp_path / "x.svm"
    text = b"".join(b"%de-323 %d:%de-320 300:1\n" % (i, i, 7 * i + 1) for i in range(1, 200))
    file.write_bytes(text)
    assert_reads_like_sklearn(file, text)
