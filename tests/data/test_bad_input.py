"""Whatever is wrong with the input: one sentence, the right exit status, and nothing that looks like a store."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtoken.cli.data import main
from dtoken.data import svmlight
from dtoken.data.svmlight import Svmlight
from dtoken.errors import InputError

GOOD = b"1 1:0.5 3:2\n-1 2:1\n1 1:1\n"


def left_behind(root: Path) -> list[str]:
    """Everything below ``root`` but lock files."""
    return [str(file) for file in root.rglob("*") if file.is_file() and file.parent.name != ".locks"]


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Ingest, and return what was said on standard error."""

    def run(source: Path | str, *arguments: str, status: int = 2, root: Path = tmp_path / "stores") -> str:
        assert main(["ingest", str(source), "--nodes", "2", "--store", str(root), *arguments]) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert left_behind(root) == []
        return captured.err

    return run


LINES = {
    b"x 1:1": "label 'x' is not a finite number",
    b"nan 1:1": "label 'nan' is not a finite number",
    b"inf 1:1": "label 'inf' is not a finite number",
    b"1e999 1:1": "label '1e999' is not a finite number",
    b"1,2 1:1": "label '1,2' is not a finite number; a table with commas is read by pandas, from Python: "
    "data=(frame, LABEL)",
    b"1:1 2:1": "label '1:1' is not a finite number",
    b"1 3:1 2:1": "index 2 follows index 3; indices of a row must increase",
    b"1 3:1 3:1": "index 3 appears twice in a row",
    b"1 -3:1": "index -3 is negative",
    b"1 3": "'3' is not of the form index:value",
    b"1 abc": "'abc' is not of the form index:value",
    b"1 :5": "':5' does not begin with an index",
    b"1 1.5:2": "'1.5:2' does not begin with an index",
    b"1 x:2": "'x:2' does not begin with an index",
    b"1 99999999999999999999:2": "index 99999999999999999999 is larger than 2147483646",
    b"1 2147483647:2": "index 2147483647 is larger than 2147483646",
    b"1 3:": "the value in '3:' is not a finite number",
    b"1 3:x": "the value in '3:x' is not a finite number",
    b"1 3:1:2": "the value in '3:1:2' is not a finite number",
    b"1 3:nan": "the value in '3:nan' is not a finite number",
    b"1 3:-inf": "the value in '3:-inf' is not a finite number",
    b"1 3:1e999": "the value in '3:1e999' is not a finite number",
    b"1 3:1e999 2:1": "the value in '3:1e999' is not a finite number",  # the first fault counts
    b"1 3:0x10": "the value in '3:0x10' is not a finite number",
    b"1 3:1_0": "the value in '3:1_0' is not a finite number",
    b"\x00\xff\x07 1:1": r"label '\x00\xff\x07' is not a finite number",
    b"1 \x8b\x00": r"'\x8b\x00' is not of the form index:value",
    b"1 " + b"z" * 60: f"'{'z' * 40}'... is not of the form index:value",
}


@pytest.mark.parametrize(("line", "fault"), LINES.items(), ids=map(repr, LINES))
def test_malformed_lines(tmp_path: Path, refused: Callable[..., str], line: bytes, fault: str) -> None:
    file = tmp_path / "x.svm"
    file.write_bytes(GOOD + b"# comment\n\n" + line + b"\n" + GOOD)
    assert refused(file) == f"{file}, line 6: {fault}. Nothing was written.\n"


@pytest.mark.parametrize("piece", [1, 5, 40, 1000])
def test_line_numbers_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(svmlight, "PIECE_BYTES", piece)
    file = tmp_path / "x.svm"
    file.write_bytes(b"1 1:1\r\n# c\n" * 300 + b"1 2:1 1:1")
    with pytest.raises(InputError, match=r"x\.svm, line 601: index 1 follows index 2"):
        list(Svmlight(file).blocks())


def test_zero_where_indices_begin_with_one(tmp_path: Path, refused: Callable[..., str]) -> None:
    file = tmp_path / "x.svm"
    file.write_text("1 1:1\n-1 0:1\n")
    said = refused(file, "index_base=1")
    fault = "index 0, but the first index was said to be 1; use index_base=0"
    assert said == f"{file}, line 2: {fault}. Nothing was written.\n"


def test_a_line_without_end(tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "PIECE_BYTES", 1 << 16)
    monkeypatch.setattr(svmlight, "LONGEST_LINE", 1 << 20)
    file = tmp_path / "x.svm"
    file.write_bytes(GOOD + b"7" * (3 << 20))
    assert refused(file) == (f"{file}, line 4: longer than 1 MB; this is not an svmlight file. Nothing was written.\n")


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_truncated_and_damaged_compressed_files(
    tmp_path: Path, refused: Callable[..., str], suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    text = b"".join(b"%d %d:%r\n" % (i % 2, i % 50 + 1, i / 7) for i in range(3000))
    content = compress(text)
    file = tmp_path / f"x.svm.{suffix}"
    for kept in (len(content) - 1, len(content) - 5, len(content) // 2, 12):
        file.write_bytes(content[:kept])
        said = refused(file)
        assert said == (f"{file} ends in the middle of its compressed data; it was cut short. Nothing was written.\n")
    for place in (len(content) // 3, len(content) // 2, len(content) - 14):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        damaged[place + 1] ^= 0xAA
        file.write_bytes(damaged)
        said = refused(file)
        assert said.startswith((f"{file} holds damaged .{suffix} data (", f"{file} ends in", f"{file}, line "))
        assert said.endswith(". Nothing was written.\n")
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("x.svm", b"", "{file} is empty"),
        ("x.svm.gz", gzip.compress(b""), "x.svm.gz has no rows"),
        ("x.svm", b"# only\n\n   \n# comments\n", "x.svm has no rows"),
        (
            "x.svm.zst",
            b"\x28\xb5\x2f\xfdabc",
            "{file}: compression zstd is not supported; unpack it, or use .gz, .bz2 or .xz",
        ),
        (
            "x.svm",
            b"PK\x03\x04abc",
            "{file}: compression zip is not supported; unpack it, or use .gz, .bz2 or .xz",
        ),
        (
            "x.lz4",
            b"whatever",
            "{file}: compression .lz4 is not supported; unpack it, or use .gz, .bz2 or .xz",
        ),
        ("x.svm.gz", GOOD, "{file} is named .gz but holds no .gz data"),
        ("x.xz", gzip.compress(GOOD), "{file} is named .xz but holds no .xz data"),
        (
            "x.svm",
            b"1 1:1\n1 2:1\n",
            "x.svm has only one class (every label is 1), a classification loss needs two; "
            "use labels=real to keep the labels as numbers for the squared loss",
        ),
        ("x.svm", b"1 1:1\n", "nodes=2 but the dataset has only 1 rows; use nodes<=1"),
    ],
    ids=["empty", "empty_gz", "comments", "zst", "zip", "lz4", "not_gz", "gz_named_xz", "one_class", "one_row"],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, refused: Callable[..., str], name: str, content: bytes, fault: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    options = ["--labels", "real"] if "nodes=2" in fault else []
    assert refused(file, *options) == f"{fault.format(file=file)}. Nothing was written.\n"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--nodes", "4"], "nodes=4 but the dataset has only 3 rows; use nodes<=3. Nothing was written."),
        (["--nodes", "0"], "nodes=0, but there must be at least one; use nodes>=1."),
        (
            ["--partition", "random"],
            "partition.kind=random is not known; use one of contiguous, shuffled, dirichlet, given.",
        ),
        (["--sizes", "odd"], "partition.sizes=odd is not known; use one of keep, equal, unequal."),
        (["--alpha", "0"], "partition.alpha=0.0 must be a positive number."),
        (["--alpha", "nan"], "partition.alpha=nan must be a positive number."),
        (["--seed", "-1"], "partition.seed=-1 must be an integer from 0 to 2**64 - 1."),
        (["--labels", "both"], "labels=both is not known; use one of auto, classes, real. Nothing was written."),
        (["features=2"], "features=2, but x.svm has index 3; use features>=3. Nothing was written."),
        (
            ["--partition", "dirichlet", "--labels", "real"],
            "partition.kind=dirichlet needs two classes, but the labels are real numbers; use shuffled. "
            "Nothing was written.",
        ),
    ],
)
def test_settings_that_do_not_fit(
    tmp_path: Path, refused: Callable[..., str], arguments: list[str], fault: str
) -> None:
    file = tmp_path / "x.svm"
    file.write_bytes(GOOD)
    assert refused(file, *arguments) == fault + "\n"


def test_classes_are_wanted_but_there_are_more(tmp_path: Path, refused: Callable[..., str]) -> None:
    file = tmp_path / "x.svm"
    file.write_text("1 1:1\n2 1:1\n3 1:1\n")
    said = refused(file, "--labels", "classes")
    fault = "labels=classes, but x.svm has more than two different labels; use labels=real"
    assert said == f"{fault}. Nothing was written.\n"


def test_paths_that_are_no_files(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "file").write_bytes(GOOD)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, fault in {
        "absent.svm": "does not exist",
        "file/x": "does not exist",
        "pipe": "is a device or pipe, not a file",
        "loop": "cannot be read: too many levels of symbolic links",
        "y" * 300: "cannot be read: file name too long",
    }.items():
        assert refused(tmp_path / name) == f"{tmp_path / name} {fault}.\n"
    said = refused(tmp_path / "folder")
    assert said == f"{tmp_path / 'folder'} is not a zarr group. Nothing was written.\n"
    assert refused("syntetic") == "syntetic does not exist; did you mean synthetic?\n"


def test_a_store_folder_that_is_a_file(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "x.svm").write_bytes(GOOD)
    (tmp_path / "root").write_text("")
    said = refused(tmp_path / "x.svm", root=tmp_path / "root" / "stores")
    assert said == (
        f"{tmp_path / 'root' / 'stores'} cannot hold stores: not a directory; choose another folder. "
        "Nothing was written.\n"
    )


UNPRIVILEGED = """
import os, sys
import dtoken.data.ingest, dtoken.data.sources  # Python itself may lie where nobody else can read
from dtoken.cli.data import main
if os.getuid() == 0:
    os.setgroups([])
    os.setuid(65534)
sys.stderr = open(said, "w")
status = main(["ingest", source, "--nodes", "2", "--store", root])
sys.stderr.close()
os._exit(status)
"""


@pytest.mark.parametrize("what", ["file", "folder of the file", "store folder"])
def test_no_permission(open_folder: Path, run_child: Callable[..., int], what: str) -> None:
    said, folder, root = open_folder / "said", open_folder / "data", open_folder / "stores"
    said.touch()
    said.chmod(0o666)
    folder.mkdir()
    root.mkdir()
    file = folder / "x.svm"
    file.write_bytes(GOOD)
    for path in (folder, root):
        path.chmod(0o777)
    closed = {"file": file, "folder of the file": folder, "store folder": root}[what]
    closed.chmod(0o000 if closed != root else 0o555)
    try:
        assert run_child(UNPRIVILEGED, said=str(said), source=str(file), root=str(root)) == 2
    finally:
        closed.chmod(0o755)
    sentence = said.read_text()
    if closed == root:
        assert sentence == (
            f"{root} cannot hold stores: permission denied; choose another folder. Nothing was written.\n"
        )
    else:
        assert sentence == f"{file} cannot be read: permission denied.\n"
    assert left_behind(root) == []


FULL_DISK = """
import os, resource, sys
sys.stderr = open(said, "w")
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from dtoken.cli.data import main
status = main(["ingest", "synthetic", "rows=2000", "--nodes", "1", "--store", root])
sys.stderr.close()
os._exit(status)
"""


def test_full_disk(tmp_path: Path, run_child: Callable[..., int]) -> None:
    said, root = tmp_path / "said", tmp_path / "stores"
    # The spool of 2000 rows of 20 values takes 512,016 bytes, the largest chunk 320,004.
    for limit in (1000, 400_000):
        assert run_child(FULL_DISK, said=str(said), root=str(root), limit=limit) == 1
        assert said.read_text() == f"{root} cannot be written: file too large.\n"
        assert left_behind(root) == []
    assert run_child(FULL_DISK, said=str(said), root=str(root), limit=600_000) == 0
    assert said.read_text() == ""


def test_full_disk_where_the_output_goes(run_child: Callable[..., int], tmp_path: Path) -> None:
    code = """
import os, sys
sys.stdout, sys.stderr = open("/dev/full", "w"), open(said, "w")
from dtoken.cli.data import main
status = main(["ingest", "synthetic", "--nodes", "1", "--store", root])
sys.stderr.close()
os._exit(status)
"""
    assert run_child(code, said=str(tmp_path / "said"), root=str(tmp_path)) == 1
    assert (tmp_path / "said").read_text() == "[Errno 28] No space left on device.\n"


def test_a_source_that_changes_while_it_is_read(tmp_path: Path, refused: Callable[..., str]) -> None:
    file = tmp_path / "x.svm"
    file.write_bytes(GOOD)
    blocks = Svmlight.blocks

    def blocks_and_change(self: Svmlight, **options: object) -> Iterator[object]:
        yield from blocks(self, **options)
        file.write_bytes(GOOD + GOOD)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Svmlight, "blocks", blocks_and_change)
        said = refused(file)
    assert said == "x.svm changed while it was read; try again when it is complete. Nothing was written.\n"


def test_a_fault_of_the_disk_under_the_source(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError(5, "Input/output error")

        def close(self) -> None:
            pass

    file = tmp_path / "x.svm"
    file.write_bytes(GOOD)
    monkeypatch.setattr("dtoken.data.files.TextStream._open", lambda self: Broken())
    assert refused(file, status=1) == f"{file} cannot be read: input/output error.\n"
