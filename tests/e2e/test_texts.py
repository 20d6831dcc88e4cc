"""Stacks that people have as text, through the commands: in from folded stacks and perf script, out to speedscope, and counted."""
import gzip
import json
import os
import pty
import subprocess
import threading

from programs import BUILD, DATA, PATIENCE

PERF = """# cmdline : perf record
a"b\\c 7 11/12 [002] 100.5:     250000000 cpu-clock:pppH: 
\tffffffff8104f45a native_write_msr+0x8 ([kernel.kallsyms])
\t          401166 main+0x1f (/bin/ls)

other 11/13 [002] 101.5:     250000000 cpu-clock:pppH: 
\t          401166 main+0x1f (/bin/ls)

"""


def profgate(*arguments, stdin=None):
    return subprocess.run([BUILD / "profgate", *arguments], input=stdin, capture_output=True, text=True, timeout=PATIENCE)


def test_whatever_bytes_names_and_values_have_a_line_is_a_line(tmp_path):
    key, value = 'a\nprofile.cpu.time {fake="1"} 99 s', "v\n\x1b[31m\x7f\x9b31mä"
    attributes = [{"key": key, "value": {"stringValue": value}}, {"key": "host.name", "value": {"stringValue": "h"}}]
    request = {"resourceProfiles": [{"resource": {"attributes": attributes}, "scopeProfiles": [{"profiles": [
        {"sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": 1, "values": ["1"]}]}]}]}],
        "dictionary": {"stringTable": ["", "cpu", "nanoseconds", "main"], "mappingTable": [{}], "linkTable": [{}], "attributeTable": [{}],
                       "functionTable": [{}, {"nameStrindex": 3}], "locationTable": [{}, {"lines": [{"functionIndex": 1}]}],
                       "stackTable": [{}, {"locationIndices": [1]}]}}
    (tmp_path / "x.json").write_text(json.dumps(request))
    out = profgate("count", "--resources", tmp_path / "x.json").stdout
    resource, *rest = out.splitlines()
    assert resource == ('# "a\\nprofile.cpu.time {fake=\\"1\\"} 99 s"="v\\n\\u001b[31m\\u007f\\u009b31mä", host.name="h"')
    assert rest and not any("99 s" in line for line in rest)


def test_what_is_folded_of_any_names_is_read_again(tmp_path):
    """A file with a control character is no text, a line that begins with blanks could be perf script's, one of blanks is none."""
    names = ["\n \t", "\x0bmain\x7f", " a", "b;c\r\nd", "a 29", "\x01", "_[k]", "plain"]
    request = {"resourceProfiles": [{"scopeProfiles": [{"profiles": [
        {"sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": i, "values": [str(i)]} for i in range(1, 9)]}]}]}],
        "dictionary": {"stringTable": ["", "cpu", "nanoseconds", *names], "mappingTable": [{}], "linkTable": [{}], "attributeTable": [{}],
                       "functionTable": [{}, *({"nameStrindex": i} for i in range(3, 11))],
                       "locationTable": [{}, *({"lines": [{"functionIndex": i}], "address": str(16 * i)} for i in range(1, 9))],
                       "stackTable": [{}, *({"locationIndices": [i]} for i in range(1, 9))]}}
    (tmp_path / "x.json").write_text(json.dumps(request))
    folded = profgate("convert", "--to", "folded", tmp_path / "x.json", "-").stdout
    assert folded.split("\n") == ["0x10 1", "main 2", "a 3", "b:c  d 4", "a 29 5", "0x60 6", "_[k] 7", "plain 8", ""]
    again = profgate("convert", "--to", "folded", "-", "-", stdin=folded).stdout
    assert sorted(again.splitlines()) == sorted(folded.splitlines())


def test_perf_script_is_cpu_time_and_a_thread_s_name_is_printed_safely(tmp_path):
    (tmp_path / "x.rules").write_text('rules 1\npack x\ncounter ex.cpu { unit "s"  on cpu  label thread = sample["thread.name"] }\n')
    (tmp_path / "perf.txt").write_text(PERF)
    done = profgate("count", "--builtin", "none", "--rules", tmp_path / "x.rules", tmp_path / "perf.txt")
    assert done.stdout.splitlines() == ['ex.cpu {thread="a\\"b\\\\c 7"} 0.25 s', 'ex.cpu {thread="other"} 0.25 s'], done


def test_what_counts_lack_is_told(tmp_path):
    """Beside the numbers: what had no time, and names too hard for a regex. The shipped ones take long paths without a library in them."""
    path = f"/home/acme/.cache/bazel/_bazel_acme/{7:032x}/execroot/_main/bazel-out/k8-opt/bin/shop/server.runfiles/_main/shop/server"
    (tmp_path / "perf.txt").write_text(f"acme 12 \n\t401166 main ({path})\n\n")
    done = profgate("count", tmp_path / "perf.txt")
    assert "samples.native.count {} 1" in done.stdout.splitlines(), done
    assert done.stderr.splitlines() == ["profgate count: 1 sample could not be weighed: no time in type, unit or period, or a negative value"]
    (tmp_path / "x.rules").write_text("rules 1\npack x\ncounter ex.c { on any value events where any frame is (mapping ~ /^(?:\\W?\\w+\\W?)+[!?]server$/) }\n")
    done = profgate("count", "--builtin", "none", "--rules", tmp_path / "x.rules", tmp_path / "perf.txt")
    assert (done.stdout, done.stderr) == ("", "profgate count: taken as no match: 1 search of a regex that ran out of steps\n")


def test_two_runs_of_count_print_the_same():
    files = sorted((DATA / "connector").glob("ebpf-*.pb"))
    printed = {profgate("count", "--resources", *files).stdout for _ in range(4)}
    assert len(printed) == 1 and printed.pop().count("\n") > 100


def test_speedscope_gets_what_it_takes(tmp_path):
    (tmp_path / "perf.txt").write_text(PERF)
    done = profgate("convert", tmp_path / "perf.txt", tmp_path / "x.speedscope.json")
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "x.speedscope.json").read_text())
    profile, frames = written["profiles"][0], [frame["name"] for frame in written["shared"]["frames"]]
    assert written["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert (profile["type"], profile["unit"], profile["startValue"], profile["endValue"]) == ("sampled", "nanoseconds", 0, 500000000)
    assert [[frames[i] for i in stack] for stack in profile["samples"]] == [["main", "native_write_msr"], ["main"]]
    assert profile["weights"] == [250000000, 250000000]


def test_folded_stacks_come_back_through_every_format(tmp_path):
    text = "main;f(int, char const*);read_[k] 3\nmain;a;b_[i] 4\nm\u00e9;x 0x12 5\n"
    for way in ("otlp", "json", "pprof"):
        there = subprocess.run([BUILD / "profgate", "convert", "--to", way, "-", "-"], input=text.encode(), capture_output=True, timeout=PATIENCE)
        back = subprocess.run([BUILD / "profgate", "convert", "--to", "folded", "-", "-"], input=there.stdout, capture_output=True, timeout=PATIENCE)
        assert back.stdout.decode() == text, (way, there.stderr, back.stderr)


def test_what_is_no_text_is_said_by_its_line(tmp_path):
    (tmp_path / "x.folded").write_text("a;b 1\na;b one\n")
    done = profgate("convert", tmp_path / "x.folded", "-")
    assert done.returncode == 1 and "x.folded: line 2: no count" in done.stderr


def test_what_is_read_is_not_written_over(tmp_path):
    """By its name, another name, a link, standard input; and what is read later, in a folder that is written to."""
    (tmp_path / "x.folded").write_text("a;b 1\n")
    (tmp_path / "y.folded").symlink_to("x.folded")
    (tmp_path / "z.folded").hardlink_to(tmp_path / "x.folded")
    cpu = tmp_path / "x.pb.gz"
    cpu.write_bytes((DATA / "pprof/go-cpu.pb.gz").read_bytes())
    for words in ([tmp_path / "x.folded"] * 2, [tmp_path / "x.folded", tmp_path / "y.folded"], [tmp_path / "z.folded", tmp_path / "x.folded"],
                  ["--to", "folded", cpu, tmp_path / "x.folded", tmp_path], ["-", tmp_path / "x.folded"]):
        with open(tmp_path / "x.folded") as stdin:
            done = subprocess.run([BUILD / "profgate", "convert", *words], stdin=stdin, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and "x.folded is read, too" in done.stderr.replace("y.", "x."), (words, done.stderr)
        assert (tmp_path / "x.folded").read_text() == "a;b 1\n", words
    assert profgate("convert", "--to", "folded", tmp_path / "x.folded", "/dev/null").returncode == 0


def test_why_something_cannot_be_read_or_written_is_said(tmp_path):
    (tmp_path / "x.folded").write_text("a;b 1\n")
    for words, code, says in ((["convert", tmp_path, "-"], 2, "Is a directory"), (["count", tmp_path], 2, "Is a directory"),
                              (["convert", tmp_path / "none", "-"], 2, "No such file"), (["convert", tmp_path / "x.folded", "/dev/full"], 1, "No space left"),
                              (["convert", DATA / "pprof/go-cpu.pb.gz", "/dev/full"], 1, "No space left"),
                              (["convert", tmp_path / "x.folded", tmp_path / "none/y"], 2, "No such file")):
        done = profgate(*words)
        assert done.returncode == code and says in done.stderr and not done.stdout, (words, done)


def test_two_hundred_files_at_once_through_a_pipe_each(tmp_path):
    """FIFOs in and a folder out: each is read to its end, and nobody's is another one's."""
    (tmp_path / "out").mkdir()
    names = [f"f{i}" for i in range(200)]
    for name in names:
        os.mkfifo(tmp_path / name)

    def write():  # each waits for who reads it
        for name in names:
            (tmp_path / name).write_text(f"main;{name} 7\n")
    threading.Thread(target=write, daemon=True).start()
    done = profgate("convert", "--to", "folded", *(tmp_path / name for name in names), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {f"{name}.folded": f"main;{name} 7\n" for name in names}


def test_a_file_without_a_byte_is_no_request(tmp_path):
    (tmp_path / "x").write_bytes(b"")
    (tmp_path / "x.gz").write_bytes(gzip.compress(b""))
    for name, to in (("x", "otlp"), ("x", "json"), ("x.gz", "pprof"), ("/dev/null", "folded")):
        done = profgate("convert", "--to", to, tmp_path / name, tmp_path / "out")
        assert done.returncode == 1 and f"{name} is empty" in done.stderr and not (tmp_path / "out").exists(), (name, done)


def test_a_terminal_is_told_how_far_it_is_and_nobody_else(tmp_path):
    """The first file is a pipe that is filled when half a second and more went by: it is a wait that is tried, not a speed."""
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "slow.folded")
    (tmp_path / "other.folded").write_text("a;b 1\n")
    for is_terminal in (True, False):
        ours, theirs = pty.openpty() if is_terminal else os.pipe()
        done = subprocess.Popen([BUILD / "profgate", "convert", "--to", "otlp", tmp_path / "slow.folded", tmp_path / "other.folded",
                                 tmp_path / "out"], stderr=theirs)
        os.close(theirs)
        with open(tmp_path / "slow.folded", "w") as pipe:
            try:
                done.wait(0.8)
            except subprocess.TimeoutExpired:
                pass
            pipe.write("a;b 1\n")
        assert done.wait(PATIENCE) == 0
        try:
            said = os.read(ours, 4096)
        except OSError:  # a terminal whose other end is closed
            said = b""
        os.close(ours)
        assert (b"1 of 2 files" in said) == is_terminal, said
