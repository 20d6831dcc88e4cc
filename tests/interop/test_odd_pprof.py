"""Odd files as pprof: what google/pprof's own library reads is taken, what it refuses is refused, and nothing ends the gateway."""
import gzip
import struct
import subprocess

import peers
from handmade import field, varint
from programs import BUILD, DATA, PATIENCE, Gateway, running

TYPE = field(1, field(1, 1) + field(2, 2))
STRINGS = field(6, b"") + field(6, b"x") + field(6, b"y")
CPU = (DATA / "pprof/go-cpu.pb.gz").read_bytes()
PLAIN = gzip.decompress(CPU)
BIG = (1 << 64) - 1


def profile(*parts):
    return TYPE + b"".join(parts) + STRINGS


def sample(stack=b"", value=b"\x07", more=b""):
    return field(2, (field(1, stack) if stack else b"") + field(2, value) + more)


ODD = {
    "empty": b"",
    "nul": b"\0",
    "nuls": bytes(100),
    "newline": b"\n",
    "gzip-empty": gzip.compress(b""),
    "gzip-twice": gzip.compress(CPU),
    "gzip-members": gzip.compress(PLAIN[:1000]) + gzip.compress(PLAIN[1000:]),
    "gzip-member-empty": gzip.compress(PLAIN) + gzip.compress(b""),
    "gzip-tail": CPU + b"tail",
    "gzip-zeros": CPU + bytes(100),
    "gzip-cut": CPU[:-5],
    "gzip-head": CPU[:12],
    "gzip-crc": CPU[:-8] + b"\0\0\0\0" + CPU[-4:],
    "two-profiles": PLAIN + PLAIN,
    "two-notime": profile(sample()) + profile(sample()),
    "types-only": TYPE + STRINGS,
    "no-strings": TYPE + sample(),
    "sample-no-value": TYPE + field(2, b"") + STRINGS,
    "values-many": profile(sample(value=b"\1" * 70)),
    "types-64": field(1, field(1, 1)) * 64 + field(2, field(2, b"\1" * 64)) + STRINGS,
    "types-65": field(1, field(1, 1)) * 65 + field(2, field(2, b"\1" * 65)) + STRINGS,
    "neg-value": profile(sample(value=varint(-1))),
    "min-value": profile(sample(value=varint(-(1 << 63)))),
    "two-samples-overflow": profile(sample(value=varint((1 << 63) - 1)) * 2),
    "id-32bit": profile(field(4, field(1, 1 << 32) + field(3, 16)), sample(varint(1 << 32))),
    "id-max": profile(field(4, field(1, BIG) + field(3, 16)), sample(varint(BIG))),
    "id-neg": profile(field(4, field(1, -5) + field(3, 16)), sample(varint(-5))),
    "id-max-1": profile(field(4, field(1, BIG - 1)), sample(varint(BIG - 1))),
    "id-zero": profile(field(4, field(1, 0) + field(3, 16)), sample(b"\0")),
    "id-twice": profile(field(4, field(1, 1)) * 2),
    "loc-missing": profile(sample(b"\5")),
    "mapping-missing": profile(field(4, field(1, 1) + field(2, 99) + field(3, 16)), sample(b"\1")),
    "function-missing": profile(field(4, field(1, 1) + field(4, field(1, 9)))),
    "line-neg": profile(field(5, field(1, 1) + field(2, 1)), field(4, field(1, 1) + field(4, field(1, 1) + field(2, -1) + field(3, -2))), sample(b"\1")),
    "string-neg": profile(field(5, field(1, 1) + field(2, -1))),
    "string-far": profile(field(5, field(1, 1) + field(2, 1 << 33))),
    "string-first": TYPE + field(6, b"a") + sample(),
    "name-nul": profile(field(5, field(1, 1) + field(2, 3)), field(4, field(1, 1) + field(4, field(1, 1))), sample(b"\1")) + field(6, b"a\0b;c\nd\te"),
    "name-bad-utf8": profile(field(5, field(1, 1) + field(2, 3)), field(4, field(1, 1) + field(4, field(1, 1))), sample(b"\1")) + field(6, b"\xff\xfe\xc3"),
    "name-surrogate": profile(field(5, field(1, 1) + field(2, 3))) + field(6, b"\xed\xa0\x80"),
    "name-long": profile(field(5, field(1, 1) + field(2, 3)), field(4, field(1, 1) + field(4, field(1, 1))), sample(b"\1")) + field(6, b"n" * 3_000_000),
    "names-escaped-long": profile(field(5, field(1, 1) + field(2, 3))) + field(6, b"\xff" * 400_000),
    "label-key-none": profile(sample(more=field(3, field(2, 1)))),
    "label-nothing": profile(sample(more=field(3, b""))),
    "labels-5000": profile(sample(more=field(3, field(1, 1) + field(3, 7)) * 5000)),
    "label-both": profile(sample(more=field(3, field(1, 1) + field(2, 2) + field(3, 5) + field(4, 1)))),
    "deep": profile(field(4, field(1, 1) + field(3, 16)), sample(b"\1" * 70000)),
    "deep-inlined": profile(field(5, field(1, 1) + field(2, 1)), field(4, field(1, 1) + field(4, field(1, 1)) * 70000), sample(b"\1")),
    "group": TYPE + b"\x7b\x08\x01\x7c" + sample() + STRINGS,
    "group-open": TYPE + b"\x7b\x08\x01",
    "field-0": b"\x00\x01",
    "wire-7": b"\x0f",
    "len-huge": b"\x12" + varint(1 << 40),
    "tag-huge": varint(BIG) + b"\1",
    "varint-11": b"\x48" + b"\xff" * 11,
    "time-max": profile(field(9, (1 << 63) - 1), field(10, (1 << 63) - 1)),
    "time-neg": profile(field(9, -1), field(10, -(1 << 63))),
    "period-min": profile(field(12, -(1 << 63))),
    "comments": profile(field(13, b"\1\2\1\0")),
    "comment-far": profile(field(13, 77)),
    "default-none": profile(field(14, 2)),
    "unknown-fields": profile(field(99, b"abc"), field(4317, b"x" * 40), sample()),
    "heap-huge": b"heap profile: 9223372036854775807: 9223372036854775807 [1: 1] @ heap/1\n9223372036854775807: 9223372036854775807 [9223372036854775807: -9223372036854775807] @ 0x1\n",
    "heap-minus": b"heap profile: -1: -5 [-1: -9223372036854775808] @ heap/0\n-1: -5 [0: 0] @\n",
    "heap-crlf": b"heap profile: 1: 2 [3: 4] @ heapprofile\r\n1: 2 [3: 4] @ 0x1 0xffffffffffffffff\r\n",
    "heap-nul": b"heap profile: 1: 2 [3: 4] @ heap/2\n1: 2 [3: 4] @ 0x1\0\n",
    "goroutine-huge": b"goroutine profile: total 99999999999999999999\n1 @ 0x1\n",
    "goroutine-utf8": b"\xff\xfe profile: total 1\n1 @ 0x1\n",
    "threads": b"--- threadz 1 ---\n\n--- Thread 1 (name: a/1) stack: ---\n  PC: 0x1\n",
    "threads-open": b"--- threadz 1 ---\n",
    "contention-hz": b"--- contention:\ncycles/second=-1\nsampling period=9223372036854775807\n9223372036854775807 9223372036854775807 @ 0x1\n",
    "java-heap": b"--- heapz 1 ---\nformat = java\nresolution = bytes\n-9223372036854775808 -1 @ 0x1\n0x1 a (b:1)\n",
    "java-many": b"--- heapz 1 ---\nresolution = x\n" + b"1 1 @ " + b"0x1 " * 50000 + b"\n" + b"0x1 ((((( (:1)\n" * 1000,
    "java-none": b"--- contentionz 1 ---\nformat = java\nsampling period = -3\nresolution = us\n1 2 @ 0x7\n",
    "cpu-64be": struct.pack(">13Q", 0, 3, 0, 1 << 62, 0, 1 << 63, 2, BIG, 0, 0, 1, 0, 0),
    "cpu-cut": struct.pack("<7Q", 0, 3, 0, 1, 0, 1, 1 << 61),
    "cpu-java": struct.pack("<12I", 0, 3, 1, 7, 0, 3, 1, 5, 0, 1, 0, 0) + b"\n0x5 x\n0x5 y (z)\n",
}

# Bounds of ours, and texts of which we take more: sums that pass 63 bits, threads of which none has a stack.
TAKES_LESS = {"types-65", "names-escaped-long", "goroutine-huge", "deep", "deep-inlined"}
TAKES_MORE = {"heap-huge", "threads", "threads-open", "java-none"}


def test_it_takes_what_pprof_takes(tmp_path):
    for name, content in ODD.items():
        (tmp_path / name).write_bytes(content)
    judged = subprocess.run([peers.pprof_judge(), "accepts", *(tmp_path / name for name in ODD)], capture_output=True, text=True, timeout=PATIENCE)
    theirs = dict(zip(ODD, (line == "true" for line in judged.stdout.split()), strict=True))
    assert 30 < sum(theirs.values()) < len(theirs) - 25
    with running(Gateway()) as gateway:
        for name, content in ODD.items():
            status, _, answer = gateway.post(content, {"Content-Type": "application/octet-stream"}, path="/v1/pprof")
            assert status == 200 or (status in (400, 413) and b"message" in answer), (name, status, answer)
            taken = theirs[name] and name not in TAKES_LESS or name in TAKES_MORE
            assert (status == 200) == taken, (name, status, answer)
            for to in ("pprof-exact", "json", "folded"):
                got = gateway.post(content, {"Content-Type": "application/octet-stream"}, path=f"/v1/convert?to={to}")[0]
                assert (got == 200) == taken, (name, to, got)
        assert gateway.alive() and gateway.stop() == 0


def test_what_is_taken_comes_back_from_either_pprof(tmp_path):
    """The command, through pipes: OTLP of it, the two pprofs of that, and OTLP of these."""
    def convert(to, content):
        return subprocess.run([BUILD / "profgate", "convert", "--to", to, "-", "-"], input=content, capture_output=True, timeout=PATIENCE)
    for name in ("neg-value", "id-max", "name-nul", "name-bad-utf8", "label-both", "line-neg", "time-neg", "java-heap", "gzip-members"):
        otlp = convert("otlp", ODD[name])
        assert otlp.returncode == 0, (name, otlp.stderr)
        exact, plain = convert("pprof-exact", otlp.stdout), convert("pprof", otlp.stdout)
        assert exact.returncode == plain.returncode == 0 and not exact.stderr, name
        assert convert("otlp", exact.stdout).stdout == convert("otlp", plain.stdout).stdout == otlp.stdout, name
