"""A write is whole or not there, a claim is one caller's, and what the disk refuses is a damaged record."""

from __future__ import annotations

import pytest

from trainables.worker.files import Damaged, Folder


def test_a_write_is_whole_and_leaves_nothing_beside_it(tmp_path):
    folder = Folder(str(tmp_path)).child("sweep").child("trial")
    folder.write("f", b"old")
    folder.write("f", b"new")
    assert (folder.read("f"), folder.read("g"), folder.exists("f"), folder.exists("g")) == (b"new", None, True, False)
    assert folder.names() == ["f"]
    assert folder.sizes() == {"f": 3}
    with pytest.raises(TypeError):
        folder.write("f", None)
    assert (folder.names(), folder.read("f")) == (["f"], b"new")
    folder.delete("f")
    folder.delete("f")
    assert folder.names() == []


def test_a_claim_is_one_callers(tmp_path):
    folder = Folder(str(tmp_path)).child("trial")
    assert folder.claim("claim", "a")
    assert not folder.claim("claim", "b")
    assert folder.holds("claim", "a")
    assert not folder.holds("claim", "b")


def test_what_is_no_file_is_damaged_and_a_name_is_one_component(tmp_path):
    folder = Folder(str(tmp_path))
    (tmp_path / "place").mkdir()
    with pytest.raises(Damaged):
        folder.read("place")
    for name in ("", "..", "a/b", "a\\b"):
        with pytest.raises(ValueError, match="one file or folder name"):
            folder.read(name)
