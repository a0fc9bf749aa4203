"""Below the folder that was given no link is followed, and nothing but a file is read."""

import os

import pytest

from trainables.worker.files import Folder, NotAFolder, NotARecord


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "given").mkdir()
    return Folder(str(tmp_path / "given")).child("sweep").child("trial")


OPERATIONS = {
    "write": lambda folder: folder.write("f", b"new"),
    "claim": lambda folder: folder.claim("g", "a"),
    "read": lambda folder: folder.read("f"),
    "exists": lambda folder: folder.exists("f"),
    "names": lambda folder: folder.names(),
    "delete": lambda folder: folder.delete("f"),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("link", ["given/sweep", "given/sweep/trial"])
def test_a_folder_of_ours_that_is_a_link_is_not_followed(folder, tmp_path, link, operation):
    folder.write("f", b"old")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / link).rename(elsewhere)
    (tmp_path / link).symlink_to(elsewhere)
    before = sorted(path.name for path in elsewhere.rglob("*"))
    with pytest.raises(NotAFolder, match=r"a link or a file, expected a folder of our own\. It is not followed"):
        operation(folder)
    assert sorted(path.name for path in elsewhere.rglob("*")) == before
    (kept,) = elsewhere.rglob("f")
    assert kept.read_bytes() == b"old"


def test_the_folder_that_was_given_may_be_a_link(tmp_path):
    (tmp_path / "large disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "large disk")
    Folder(str(tmp_path / "root")).child("sweep").write("f", b"1")
    assert (tmp_path / "large disk" / "sweep" / "f").read_bytes() == b"1"


def test_what_is_no_file_is_neither_read_nor_waited_for(folder, tmp_path):
    folder.write("f", b"content")
    here = tmp_path / "given" / "sweep" / "trial"
    os.mkfifo(here / "pipe")
    (here / "folder").mkdir()
    (here / "link").symlink_to("f")
    (here / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "link", "endless"):
        with pytest.raises(NotARecord):
            folder.read(name)
        assert not folder.exists(name)
    with pytest.raises(NotARecord, match="7 bytes, expected at most 6"):
        folder.read("f", limit=6)
    assert folder.read("f", limit=7) == b"content"


def test_a_link_in_the_place_of_a_file_is_replaced_and_what_it_leads_to_stays(folder, tmp_path):
    folder.write("f", b"")
    outside = tmp_path / "outside"
    outside.write_bytes(b"somebody else's")
    here = tmp_path / "given" / "sweep" / "trial"
    (here / "horizon.json").symlink_to(outside)
    folder.write("horizon.json", b"ours")
    assert (outside.read_bytes(), folder.read("horizon.json")) == (b"somebody else's", b"ours")
    (here / "claim").symlink_to(tmp_path / "nowhere")
    assert not folder.claim("claim", "a")
    assert not (tmp_path / "nowhere").exists()
