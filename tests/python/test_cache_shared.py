"""The shared tier: a directory, what fsspec reaches, and a local S3 server."""

import threading
from pathlib import Path

import pytest
from test_cache import PROGRAM, REPORT, entries, run

from torchtpu import _shared_store


@pytest.fixture
def shared(tmp_path) -> Path:
    return tmp_path / "shared"


def test_a_directory_serves_another_host(tmp_path, shared):
    one = run(tmp_path / "one", TORCHTPU_CACHE_URL=str(shared))
    assert one["stored"] == 2 * one["compilations"]
    two = run(tmp_path / "two", TORCHTPU_CACHE_URL=f"file://{shared}")
    assert two["compilations"] == 0
    assert two["shared_hits"] == one["compilations"] == two["stored"]
    assert two["total"] == one["total"]
    again = run(tmp_path / "two", TORCHTPU_CACHE_URL=str(shared))
    assert again["host_hits"] == one["compilations"]


def test_one_that_others_can_write_needs_to_be_named(tmp_path, shared):
    shared.mkdir()
    shared.chmod(0o1777)
    refused = run(tmp_path / "one", TORCHTPU_CACHE_URL=str(shared))
    assert f"TORCHTPU_CACHE_TRUST={shared} allows it" in refused["notices"]
    assert not entries(shared)
    named = {"TORCHTPU_CACHE_URL": str(shared), "TORCHTPU_CACHE_TRUST": f"/elsewhere,{shared}"}
    allowed = run(tmp_path / "two", **named)
    assert not allowed["notices"]
    assert len(entries(shared)) == allowed["compilations"] > 0
    assert run(tmp_path / "three", **named)["shared_hits"] == allowed["compilations"]


def test_fsspec_reads_and_writes():
    store = _shared_store.open_store("memory://torchtpu-test/cache")
    assert store.read("0123456789") is None
    assert store.write("0123456789", b"bytes\0")
    assert store.read("0123456789") == b"bytes\0"
    store.remove("0123456789")
    assert store.read("0123456789") is None


def test_a_program_through_fsspec(tmp_path):
    """The memory file system lives in one process: what the first leaves there is put into the second's."""
    dump = "import fsspec\nm = fsspec.filesystem('memory')\n"
    leave = f"""
torchtpu.cache.wait()
import pickle
with open({str(tmp_path / "all")!r}, "wb") as file:
    pickle.dump({{p: m.cat_file(p) for p in m.find("/cache")}}, file)
"""
    one = run(tmp_path / "one", dump + PROGRAM + leave + REPORT, TORCHTPU_CACHE_URL="memory://cache")
    assert one["stored"] == 2 * one["compilations"]
    fill = f"import pickle\nfor p, b in pickle.load(open({str(tmp_path / 'all')!r}, 'rb')).items(): m.pipe_file(p, b)\n"
    two = run(tmp_path / "two", dump + fill + PROGRAM + REPORT, TORCHTPU_CACHE_URL="memory://cache")
    assert two["compilations"] == 0
    assert two["shared_hits"] == one["compilations"]
    assert two["total"] == one["total"]


@pytest.mark.parametrize("url", ["nosuchscheme://x", "http://localhost:1/x", "s3://"])
def test_a_url_that_does_not_work_is_said_once(tmp_path, url):
    result = run(tmp_path / "one", TORCHTPU_CACHE_URL=url)
    assert result["compilations"] == result["stored"] > 0
    assert 1 <= result["notices"].count("compile cache") <= 2


def test_a_store_that_hangs_is_left_behind(monkeypatch):
    never = threading.Event()

    class Slow:
        def cat_file(self, path: str) -> bytes:
            never.wait()
            return b""

    monkeypatch.setattr(_shared_store, "TIMEOUT_SECONDS", 0.01)
    store = _shared_store.SharedStore(Slow(), "slow://x")
    with pytest.raises(TimeoutError, match="expected an answer within"):
        store.read("abcdef")
    assert store.read("abcdef") is None  # not asked again
    assert not store.write("abcdef", b"")
    never.set()


def test_s3(tmp_path):
    server_module = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    import boto3

    server = server_module.ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "FSSPEC_S3_ENDPOINT_URL": f"http://{host}:{port}",
            "TORCHTPU_CACHE_URL": "s3://programs/team",
        }
        s3 = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        s3.create_bucket(Bucket="programs")
        one = run(tmp_path / "one", **environment)
        assert one["stored"] == 2 * one["compilations"], one["notices"]
        kept = s3.list_objects_v2(Bucket="programs", Prefix="team/")["Contents"]
        assert len(kept) == one["compilations"]
        two = run(tmp_path / "two", **environment)
        assert two["compilations"] == 0
        assert two["shared_hits"] == one["compilations"]
        assert two["total"] == one["total"]
    finally:
        server.stop()
    three = run(tmp_path / "three", **environment)
    assert three["total"] == one["total"]
    assert three["compilations"] == one["compilations"]
