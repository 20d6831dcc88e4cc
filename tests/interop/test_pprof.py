"""pprof in and out, judged by pprof's own library (tests/interop/pprof, a Go module): nothing is lost on the way to OTLP and back."""
import gzip
import json
import pathlib
import shutil
import struct
import subprocess

import peers
import pytest
from handmade import field, varint
from programs import BUILD, DATA, PATIENCE, Gateway, running

FOREIGN = pathlib.Path(__file__).resolve().parents[3] / "shared/data/foreign/pprof"


def convert(*arguments, stdin=None):
    return subprocess.run([BUILD / "profgate", "convert", *arguments], input=stdin, capture_output=True, timeout=PATIENCE)


def go_around(files, folder, way="otlp"):
    """pprof → OTLP → pprof of each, and what the judge says of the pairs."""
    pairs = []
    for file in files:
        otlp, back = folder / f"{file.name}.{way}", folder / f"{file.name}.pprof"
        for done in (convert(file, otlp), convert(otlp, back)):
            assert done.returncode == 0 and not done.stderr, (file.name, done.stderr)
        pairs += [file, back]
    judged = subprocess.run([peers.pprof_judge(), "compare", *pairs], capture_output=True, text=True, timeout=PATIENCE)
    assert judged.returncode == 0, judged.stdout
    return len(files)


@pytest.mark.parametrize("way", ["otlp", "json"])
def test_what_profilers_wrote_comes_back(tmp_path, way):
    assert go_around(sorted((DATA / "pprof").glob("*.pb.gz")), tmp_path, way) >= 7


@pytest.mark.parametrize("way", ["otlp", "json"])
def test_what_profilers_seldom_write_comes_back(tmp_path, way):
    (tmp_path / "made").mkdir()
    subprocess.run([peers.pprof_judge(), "make", tmp_path / "made"], check=True, timeout=PATIENCE)
    assert go_around(sorted((tmp_path / "made").iterdir()), tmp_path, way) > 50
    for file in tmp_path.glob(f"times*.{way}"):
        done = subprocess.run([BUILD / "profgate", "check", file], capture_output=True, text=True, timeout=PATIENCE)
        assert "time-overflow" not in done.stdout, done.stdout


def read_older(files, folder):
    pairs = []
    for file in files:
        done = convert("--to", "pprof", file, folder / f"{file.name}.pprof")
        assert done.returncode == 0 and not done.stderr, (file.name, done.stderr)
        pairs += [file, folder / f"{file.name}.pprof"]
    judged = subprocess.run([peers.pprof_judge(), "compare-older", *pairs], capture_output=True, text=True, timeout=PATIENCE)
    assert judged.returncode == 0, judged.stdout


def test_the_data_of_pprof_itself_comes_back(tmp_path):
    """Of its own test data two files are protobuf; the others are older formats."""
    files = [FOREIGN / "internal_driver_testdata_cppbench.cpu_no_samples_type", FOREIGN / "internal_driver_testdata_go.nomappings.crash"]
    if not all(file.exists() for file in files):
        pytest.skip("google/pprof's test data is not beside the repository")
    go_around(files, tmp_path)
    older = sorted(FOREIGN.iterdir())
    assert len(older) > 18 and sum("java" in file.name for file in older) == 3
    read_older(older, tmp_path)


JAVA_LOCATIONS = """
 0x00000003 com.example.Shop.buy (Shop.java:103)
 0x4 com.example.Shop.buy (Shop.java:-1)
 0x5 com.example.<init> (a (b).java:7)

 0x6 zlib_deflate (/usr/lib/../lib/libz.so.1)
 0x0007 slash (/)
 0x8 trailing (/a/b/)
 0x9 nothing ()
 0xa some generated stub/JIT code
 0xb GC
 0xc two  blanks  (X.java:99999999999999999999)
 0xd no line (X.java:)
 0xe (all.java:1)
 0xff nobody has it (X.java:1)
not a location
 0x3 com.example.Shop.sell (Sale.java:4)
"""


@pytest.mark.parametrize("head, samples", [
    ("--- heapz 1 ---\nformat = java\nresolution = bytes\n", "  7048     1 @ 0x3 0x4 0x5\n 4752  9 @ 0x6 0x7 0x8 0x9 0xa\n\n 10 3 @ 0xb 0xc 0xd 0xe 0x3\n 7 7 @ 0x123456789abcdef0 0x3\n"),
    ("--- heapz 1 ---\nresolution = words\nformat = java\n\n", "1048576 2 @ 0x3\n"),
    ("--- contentionz 1 ---\nformat = java\nresolution = microseconds\nsampling period = 100\nms since reset = 6019923\n", " 1 1 @ 0x3 0x4\n14 2 @ 0xd 0xe 0xf\n"),
    ("--- contentionz 1 ---\nsampling period = 7\nresolution = microseconds\n", "3 5 @ 0xa\n"),
    ("--- contentionz 1 ---\nformat = java\nresolution = microseconds\n", "3 5 @ 0xa\n"),
])
def test_the_texts_of_java_are_read(tmp_path, head, samples):
    (tmp_path / "java").write_text(head + samples + JAVA_LOCATIONS)
    read_older([tmp_path / "java"], tmp_path)


@pytest.mark.parametrize("word, order", [("I", "<"), ("I", ">"), ("Q", "<"), ("Q", ">")])
def test_cpu_profiles_of_java_are_read(tmp_path, word, order):
    words = [0, 3, 1, 10000, 0, 5, 2, 3, 4, 1, 3, 3, 3, 9, 2, 1, 0x77, 0, 1, 0]
    (tmp_path / "cpu").write_bytes(struct.pack(f"{order}{len(words)}{word}", *words) + JAVA_LOCATIONS.encode())
    read_older([tmp_path / "cpu"], tmp_path)


def test_what_go_writes_as_text_is_read(tmp_path):
    (tmp_path / "texts").mkdir()
    subprocess.run([peers.pprof_judge(), "debug", tmp_path / "texts"], check=True, timeout=PATIENCE)
    files = sorted((tmp_path / "texts").iterdir())
    assert {"goroutine", "heap", "allocs", "threadcreate", "block", "mutex"} <= {file.name for file in files}
    read_older(files, tmp_path)


@pytest.mark.parametrize("word, order", [("I", "<"), ("I", ">"), ("Q", "<"), ("Q", ">")])
def test_cpu_profiles_of_gperftools_are_read(tmp_path, word, order):
    """Of either size and order: a handler's frame in all samples, a double leaf, and a map with names in it."""
    words = [0, 3, 0, 10000, 0]
    for i in range(40):
        words += [i + 1, 4, 0x401000 + i, 0x500000, 0x401000 + i + (1 if i % 2 else 9), 0x402000]
    words += [0, 1, 0]
    text = b"build=/opt/x\n  00400000-00410000 r-xp 00000000 08:01 12 $build/prog\n00410000-00420000: /lib/libc.so.6 (@1000) abc1\n"
    (tmp_path / "cpu").write_bytes(struct.pack(f"{order}{len(words)}{word}", *words) + text)
    read_older([tmp_path / "cpu"], tmp_path)


def test_every_format_by_name_by_flag_and_through_pipes(tmp_path):
    cpu = DATA / "pprof/go-cpu.pb.gz"
    for name, begins in (("a.json", b'{"resourceProfiles"'), ("a.folded", b""), ("a.otlp", b"\n")):
        assert convert(cpu, tmp_path / name).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(begins)
    lines = (tmp_path / "a.folded").read_text().splitlines()
    assert all(line.rpartition(" ")[2].isdigit() for line in lines) and any(line.startswith("main.main.func1;") for line in lines)
    piped = convert("--to", "otlp", "-", "-", stdin=cpu.read_bytes())
    assert piped.returncode == 0 and piped.stdout == (tmp_path / "a.otlp").read_bytes()
    (tmp_path / "b.otlp").write_bytes(convert("--to", "otlp", tmp_path / "a.json", "-").stdout)
    assert convert("--to", "json", tmp_path / "b.otlp", "-").stdout == (tmp_path / "a.json").read_bytes()
    assert gzip.decompress(convert("--to", "pprof", "-", "-", stdin=piped.stdout).stdout)


def test_what_windows_and_zstd_put_around_it_is_passed_over(tmp_path):
    """A byte order mark before text, and the ends of its lines; a whole file packed by zstd."""
    folded, json_ = b"main;a 1\nmain;b 2\n", convert("--to", "json", DATA / "pprof/go-heap.pb.gz", "-").stdout
    for plain in (folded, json_):
        for stdin in (b"\xef\xbb\xbf" + plain, plain.replace(b"\n", b"\r\n")):
            assert convert("--to", "folded", "-", "-", stdin=stdin).stdout == convert("--to", "folded", "-", "-", stdin=plain).stdout != b""
    packed = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(folded)) + struct.pack("<I", len(folded) << 3 | 1)[:3] + folded
    for to in ("folded", "otlp"):
        assert convert("--to", to, "-", "-", stdin=packed).stdout == convert("--to", to, "-", "-", stdin=folded).stdout != b""
    assert b"corrupt zstd" in convert("--to", "json", "-", "-", stdin=packed[:-9]).stderr


def test_many_files_go_into_a_folder_and_one_bad_one_stops_none(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "bad.pb.gz").write_bytes(b"no profile")
    done = convert(DATA / "pprof/go-cpu.pb.gz", tmp_path / "bad.pb.gz", DATA / "pprof/go-heap.pb.gz", tmp_path / "out")
    assert done.returncode == 1 and b"bad.pb.gz" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["go-cpu.otlp", "go-heap.otlp"]
    done = convert(DATA / "pprof/go-cpu.pb.gz", DATA / "pprof/go-heap.pb.gz", tmp_path / "nowhere")
    assert done.returncode == 2 and b"is no folder" in done.stderr
    (tmp_path / "go-cpu.pb.gz").write_bytes((DATA / "pprof/go-heap.pb.gz").read_bytes())
    done = convert(DATA / "pprof/go-cpu.pb.gz", tmp_path / "go-cpu.pb.gz", tmp_path / "out")
    assert done.returncode == 1 and b"written already" in done.stderr


@pytest.mark.parametrize("content, says", [
    (b"", b"is empty"),
    (b"heap profile: 1: 2 [3: 4] @ heap/524288\n1: 2 [3: 4] @ 0x1\nx\n", b"line 3: no"),
    (b"heap profile: 1: 2 [3: 4] @ trees\n", b"line 1: an unknown kind"),
    (struct.pack("<8Q", 0, 3, 0, 1, 0, 1, 9, 1), b"cut off"),
    (b"\x32\x00", b"sample_type: none"),
])
def test_what_is_no_profile_is_said_to_be_none(tmp_path, content, says):
    (tmp_path / "in").write_bytes(content)
    done = convert("--to", "pprof", tmp_path / "in", tmp_path / "out.pprof")
    assert done.returncode == 1 and (says in done.stderr or b"no profile" in done.stderr), done.stderr


def test_what_people_take_for_a_profile_is_named():
    for content, says in ((b"FLR\0\0\2\0\0", b"Flight Recorder"), (b"PERFILE2" + bytes(96), b"`perf script` makes"),
                          ("main;a 1\n".encode("utf-16"), b"UTF-16"), (gzip.compress(gzip.compress(b"x")), b"packed twice"),
                          (b'{"shared":{"frames":[]}}', b"as resourceProfiles has"), (b"heap_v2/4096\n  t*: 1: 2 [3: 4]\n", b"`jeprof --collapsed"),
                          (b"goroutine 1 [running]:\nmain.main()\n", b"debug=0"), (b'[{"ph": "B"},\n', b"Chrome")):
        done = convert("--to", "otlp", "-", "-", stdin=content)
        assert done.returncode == 1 and says in done.stderr, done.stderr
    done = convert("--to", "folded", "-", "-", stdin=b"goroutine 1;main.main 3\n")
    assert done.stdout == b"goroutine 1;main.main 3\n", done.stderr


def test_a_few_bytes_do_not_become_a_gigabyte():
    """Comments and labels are written out where pprof has a number; what would be gigabytes is refused at once."""
    profile = b"\x0a\x04\x08\x01\x10\x01\x32\x00\x32\x01x"
    comments = b"\x6a" + varint(30_000_000) + b"\x01" * 30_000_000
    long = b"\x0a\x04\x08\x01\x10\x01\x32\x00\x32" + varint(1 << 20) + b"x" * (1 << 20)
    labels = b"\x1a\x04\x08\x01\x10\x01" * 10_000
    sample = b"\x12" + varint(len(labels) + 2) + b"\x10\x01" + labels
    gateway = Gateway()
    with running(gateway):
        before = gateway.rss_kib("VmRSS")
        for body, status in ((comments + profile, 400), (long + sample, 413)):
            packed = gzip.compress(gzip.compress(body, 9), 9)
            got = gateway.post(packed, {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}, path="/v1/pprof")
            assert got[0] == status, got
        assert gateway.rss_kib() - before < 200 << 10


def test_captured_requests_become_pprof_that_pprof_reads(tmp_path):
    """Timestamps and what else has no place there is told, and the samples add up."""
    for file in sorted((DATA / "connector").glob("ebpf-*.pb"))[:4]:
        done = convert(file, tmp_path / f"{file.name}.pprof")
        assert done.returncode == 0 and b"timestamps" in done.stderr
        out = tmp_path / f"{file.name}.pprof"
        judged = subprocess.run([peers.pprof_judge(), "compare", out, out], capture_output=True, text=True, timeout=PATIENCE)
        assert judged.returncode == 0, judged.stdout


@pytest.mark.parametrize("types, named", [
    ([("lock", "count"), ("lock", "nanoseconds")], ["lock_count/count[dflt]", "lock/nanoseconds"]),
    ([("wall", "nanoseconds"), ("x", "count"), ("wall", "count"), ("wall", "microseconds")],
     ["wall/nanoseconds[dflt]", "x/count", "wall_count/count", "wall_microseconds/microseconds"]),
    ([("cpu", "count"), ("alloc", "bytes")], ["cpu/count[dflt]", "alloc/bytes"]),
])
def test_types_of_one_name_are_told_apart_by_their_units(tmp_path, types, named):
    """pprof's tool knows types by name, and refuses a profile, or leaves those out, of which two have one name."""
    messages = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    go = shutil.which("go") or pytest.skip("no go, whose tool reads it")
    request = messages.ExportProfilesServiceRequest()
    d = request.dictionary
    for table in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
        table.add()
    d.string_table.extend(("", "f", *(text for type in types for text in type)))
    d.function_table.add(name_strindex=1)
    d.location_table.add().lines.add(function_index=1)
    d.stack_table.add().location_indices.append(1)
    scope = request.resource_profiles.add().scope_profiles.add()
    for i in range(len(types)):
        profile = scope.profiles.add(time_unix_nano=10**18)
        profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 2 + 2 * i, 3 + 2 * i
        profile.samples.add(stack_index=1, values=[i + 1])
    (tmp_path / "in.otlp").write_bytes(request.SerializeToString())
    assert convert(tmp_path / "in.otlp", tmp_path / "out.pb.gz").returncode == 0
    raw = subprocess.run([go, "tool", "pprof", "-symbolize=none", "-raw", tmp_path / "out.pb.gz"], capture_output=True, text=True, timeout=PATIENCE)
    lines = raw.stdout.splitlines()
    at = lines.index("Samples:") if "Samples:" in lines else pytest.fail(raw.stderr)
    assert lines[at + 1].split() == named and lines[at + 2].split()[:len(types)] == [f"{i + 1}" + ":" * (i + 1 == len(types)) for i in range(len(types))]


def test_requests_come_back_as_they_were_from_an_exact_pprof(tmp_path):
    """What pprof has no place for goes along, in a field that pprof's own library passes over."""
    own, others = (sorted((folder / "connector").glob("*.pb")) for folder in (DATA, FOREIGN.parent))
    assert len(own) >= 20 and (others or not FOREIGN.parent.exists())
    for file in own + others:
        otlp, pprof, plain, back = (tmp_path / f"{file.name}.{end}" for end in ("otlp", "pb.gz", "plain.pb.gz", "back"))
        for arguments in (("--to", "otlp", file, otlp), ("--to", "pprof-exact", file, pprof), ("--to", "pprof", file, plain), ("--to", "otlp", pprof, back)):
            done = convert(*arguments)
            assert done.returncode == 0, (arguments, done.stderr)
        assert back.read_bytes() == otlp.read_bytes(), file
        judged = subprocess.run([peers.pprof_judge(), "compare", plain, pprof], capture_output=True, text=True, timeout=PATIENCE)
        assert judged.returncode == 0, judged.stdout


def test_an_exact_pprof_that_was_changed_says_what_it_says_itself(tmp_path):
    file = sorted((DATA / "connector").glob("ebpf-go*.pb"))[0]
    exact = gzip.decompress(convert("--to", "pprof-exact", file, "-").stdout)
    plain = gzip.decompress(convert("--to", "pprof", file, "-").stdout)
    assert exact.startswith(plain)
    expected = convert("--to", "otlp", "-", "-", stdin=plain).stdout
    otlp = file.read_bytes()
    assert convert("--to", "otlp", "-", "-", stdin=exact).stdout == otlp != expected
    more = b"\x6a\x01\x01" # a comment
    with_more = convert("--to", "otlp", "-", "-", stdin=more + plain).stdout
    for changed, same in ((more + exact, with_more), (exact + more, with_more), (exact[:-1] + b"\x01", expected), (exact[:-9] + b"?" + exact[-8:], expected)):
        done = convert("--to", "otlp", "-", "-", stdin=changed)
        assert done.returncode == 0 and done.stdout == same
    # What was put there by somebody else is no more than any other request.
    spoiled = exact.replace(otlp, b"\x0a\xff\x7f" + otlp[3:])
    done = convert("--to", "otlp", "-", "-", stdin=spoiled)
    assert done.returncode == 1 and not done.stdout


def test_time_alone_is_counted_as_samples(tmp_path):
    """Of a profile of CPU time alone the period says how many samples they were."""
    cpu = field(1, field(1, 1) + field(2, 2)) + field(2, field(1, b"\x01") + field(2, varint(70_000_000))) + field(4, field(1, 1) + field(3, 16))
    cpu += b"".join(field(6, text) for text in (b"", b"cpu", b"nanoseconds"))
    for period, counted in ((b"", 1), (field(11, field(1, 1) + field(2, 2)) + field(12, 10_000_000), 7)):
        (tmp_path / "cpu").write_bytes(cpu + period)
        done = subprocess.run([BUILD / "profgate", "count", tmp_path / "cpu"], capture_output=True, text=True, timeout=PATIENCE)
        lines = [line for line in done.stdout.splitlines() if line.startswith("profile.quality.samples")]
        assert sum(float(line.split("} ")[1].split()[0]) for line in lines) == counted, lines


def test_code_at_an_address_of_a_mapped_file_is_native(tmp_path):
    """As gperftools and unsymbolized profiles have it, and functions of C++ without their files: not what code made at run time has."""
    strings = ("", "cpu", "nanoseconds", "/usr/lib/libc.so.6", "/tmp/perf-1.map", "[vdso]", "[heap]", "f")
    made = field(1, field(1, 1) + field(2, 2)) + field(5, field(1, 1) + field(2, 7))
    for i, mapped in enumerate((3, 4, 5, 6), 1):
        made += field(3, field(1, i) + field(2, 4096) + field(3, 8192) + field(5, mapped))
        made += field(4, field(1, i) + field(2, i) + field(3, 5000)) + field(2, field(1, varint(i)) + field(2, varint(1_000_000 * i)))
    made += field(4, field(1, 5) + field(2, 1) + field(4, field(1, 1))) + field(2, field(1, b"\x05") + field(2, varint(5_000_000)))
    made += field(4, field(1, 6) + field(2, 1) + field(3, 5000) + field(4, field(1, 1))) + field(2, field(1, b"\x06") + field(2, varint(6_000_000)))
    (tmp_path / "cpu").write_bytes(made + b"".join(field(6, text.encode()) for text in strings))
    done = subprocess.run([BUILD / "profgate", "count", "--builtin", "cpu", tmp_path / "cpu"], capture_output=True, text=True, timeout=PATIENCE)
    counted = [line for line in done.stdout.splitlines() if line.startswith("profile.cpu.time ")]
    assert sorted(counted) == ['profile.cpu.time {mode="user", runtime="native"} 0.01 s', 'profile.cpu.time {runtime="unknown"} 0.011 s'], done


def test_pprof_is_counted_as_what_it_was_made_of_is():
    cpu = (DATA / "pprof/go-cpu.pb.gz").read_bytes()
    type = {"Content-Type": "application/octet-stream"}
    gateway = Gateway()
    with running(gateway):
        for body, headers in ((cpu, type), (gzip.decompress(cpu), type), (gzip.compress(cpu), {**type, "Content-Encoding": "gzip"})):
            status, _, answer = gateway.post(body, headers, path="/v1/pprof")
            assert (status, answer) == (200, b"{}")
        for body, says in ((b"no pprof", "no pprof"), (cpu[:1000], "gzip")):
            status, _, answer = gateway.post(body, type, path="/v1/pprof")
            assert status == 400 and says in json.loads(answer)["message"]
        counted = gateway.total("profile_cpu_time_seconds_total")
    done = subprocess.run([BUILD / "profgate", "count", DATA / "pprof/go-cpu.pb.gz"], capture_output=True, text=True, timeout=PATIENCE)
    alone = sum(float(line.split("} ")[1].split()[0]) for line in done.stdout.splitlines() if line.startswith("profile.cpu.time "))
    assert alone > 1 and abs(counted - 3 * alone) < 1e-6
