"""file/NAME of raw profiles: rotation by size and age, compression, and disks that do not take what is written."""
import gzip
import os
import re
import shutil
import subprocess
import time

import pytest
from programs import Gateway, captures, running, wait_for
from test_forward import counted

FILES = captures("ebpf-*.pb")
ROTATED = re.compile(r"raw-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}\.json")


def config(path, more):
    return f"profiles: {{ exporters: [file/x] }}\nexporters: {{ file/x: {{ path: {path}, {more} }} }}\n"


def rotated(folder):
    return sorted(p for p in folder.iterdir() if ROTATED.fullmatch(p.name))


def test_full_files_are_renamed_and_nothing_is_missing(tmp_path):
    out = tmp_path / "raw.json"
    with running(Gateway(config=config(out, "rotation: { max_megabytes: 1 }"))) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        assert gateway.stop() == 0
    files = rotated(tmp_path)
    assert len(files) >= 2 and all(p.stat().st_size <= 1 << 20 for p in [*files, out])
    assert counted(*files, out) == counted(*FILES)


def test_an_old_file_is_renamed_though_nothing_comes(tmp_path):
    out = tmp_path / "raw.json"
    with running(Gateway(config=config(out, "rotation: { max_age: 500ms }"))) as gateway:
        for path in FILES[:2]:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: gateway.total("profgate_export_requests_total", outcome="sent") == 2, "them to be written")
        wait_for(lambda: rotated(tmp_path) and out.exists() and out.stat().st_size == 0, "the rotated file")
        files = wait_for(lambda: rotated(tmp_path), "the files")
        time.sleep(1.5)  # an empty one stays as it is
        assert len(rotated(tmp_path)) == len(files) and counted(*files) == counted(*FILES[:2])


def test_so_many_are_kept_and_others_are_left_alone(tmp_path):
    out, foreign = tmp_path / "raw.json", ["raw-2001-01-01T00-00-00.000.txt", "raw-old.json", "draw-2001-01-01T00-00-00.000.json"]
    for name in [*foreign, "raw-2001-01-01T00-00-00.000.json"]:
        (tmp_path / name).touch()
    with running(Gateway(config=config(out, "rotation: { max_age: 1ms, max_backups: 2 }"))) as gateway:
        for i, path in enumerate(FILES[:5]):
            assert gateway.post(path.read_bytes())[0] == 200
            wait_for(lambda: gateway.total("profgate_export_requests_total", outcome="sent") == i + 1, "it to be written")
        assert gateway.stop() == 0
    files = rotated(tmp_path)
    assert len(files) == 2 and not files[0].name.startswith("raw-2001") and all((tmp_path / name).exists() for name in foreign)


def test_days_are_kept(tmp_path):
    out = tmp_path / "raw.json"
    names = ["raw-2001-01-01T00-00-00.000.json", time.strftime("raw-%Y-%m-%dT%H-%M-%S.000.json", time.gmtime(time.time() - 3600))]
    for name in names:
        (tmp_path / name).touch()
    with running(Gateway(config=config(out, "rotation: { max_age: 1ms, max_days: 1 }"))) as gateway:
        assert gateway.post(FILES[0].read_bytes())[0] == 200
        wait_for(lambda: not (tmp_path / names[0]).exists(), "the old one to go")
        assert (tmp_path / names[1]).exists()


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("format", ["json", "proto"])
def test_compressed_files_are_read_by_the_usual_tools(coding, format, tmp_path):
    if coding == "zstd" and not shutil.which("zstd"):
        pytest.skip("no zstd here")
    out, plain = tmp_path / "raw.json", tmp_path / "plain"
    with running(Gateway(config=config(out, f"format: {format}, compression: {coding}"))) as gateway:
        for path in FILES[:4]:
            assert gateway.post(path.read_bytes())[0] == 200
        assert gateway.stop() == 0
    plain.write_bytes(gzip.decompress(out.read_bytes()) if coding == "gzip" else
                      subprocess.run(["zstd", "-dc"], input=out.read_bytes(), capture_output=True, check=True).stdout)
    assert coding == "zstd" or counted(out) == counted(plain)
    assert counted(plain) == counted(*FILES[:4]) and out.stat().st_size < plain.stat().st_size / 2


def test_a_disk_that_fills_loses_nothing_that_can_be_written_later(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk]).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with running(Gateway(config=config(disk / "raw.json", "rotation: { max_megabytes: 1 }"))) as gateway:
            for path in FILES * 3:
                assert gateway.post(path.read_bytes())[0] == 200
            wait_for(lambda: "No space left on device" in gateway.log(), "a full disk")
            away = tmp_path / "away"
            away.mkdir()

            def is_all():
                """As a tool that syncs would: takes what is rotated."""
                for path in rotated(disk):
                    shutil.move(path, away / path.name)
                return gateway.total("profgate_export_requests_total", outcome="sent") == 3 * len(FILES)
            wait_for(is_all, "everything to be written")
            assert gateway.total("profgate_forward_dropped_samples_total") == 0
            assert gateway.stop() == 0
        assert counted(*rotated(away), *rotated(disk), disk / "raw.json") == counted(*FILES * 3)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_file_that_cannot_be_renamed_grows_on(tmp_path):
    out = tmp_path / ("x" * 240)
    with running(Gateway(config=config(out, "rotation: { max_age: 1ms }"))) as gateway:
        for i, path in enumerate(FILES[:3]):
            assert gateway.post(path.read_bytes())[0] == 200
            wait_for(lambda: gateway.total("profgate_export_requests_total", outcome="sent") == i + 1, "it to be written")
        assert gateway.stop() == 0
    assert counted(out) == counted(*FILES[:3])
