"""The names profsend gives running programs: functions, source lines, inlined calls, readable and once, as the receiver sees them."""
import collections
import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import threading

import pytest
from programs import BUILD, PATIENCE, Process, running, wait_for
from sink import Sink

Line = collections.namedtuple("Line", "name system file line start")
Location = collections.namedtuple("Location", "kind mapping address build_ids lines")


class Receiver(Sink):
    """with Receiver() as r: r.stacks maps pid to a Counter of stacks, tuples of Location, leaf first."""

    def __init__(self):
        super().__init__()
        self.stacks = collections.defaultdict(collections.Counter)

    def take(self, path, headers, body):
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
        self.add(service.ExportProfilesServiceRequest.FromString(body))

    def add(self, request):
        d = request.dictionary
        text = d.string_table

        def attributes(entry):
            found = {}
            for i in entry.attribute_indices:
                a = d.attribute_table[i]
                found[text[a.key_strindex]] = a.value.string_value
            return found

        def function(line):
            f = d.function_table[line.function_index]
            return Line(text[f.name_strindex], text[f.system_name_strindex], text[f.filename_strindex], line.line, f.start_line)

        locations = []
        for l in d.location_table:
            mapping = d.mapping_table[l.mapping_index]
            ids = {k.rpartition(".")[2]: v for k, v in attributes(mapping).items()}
            locations.append(Location(attributes(l).get("profile.frame.type"), text[mapping.filename_strindex], l.address,
                                      tuple(sorted(ids.items())), tuple(function(x) for x in l.lines)))
        for resource in request.resource_profiles:
            pid = next((a.value.int_value for a in resource.resource.attributes if a.key == "process.pid"), None)
            for profile in (p for scope in resource.scope_profiles for p in scope.profiles):
                for s in profile.samples:
                    stack = tuple(locations[i] for i in d.stack_table[s.stack_index].location_indices)
                    self.stacks[pid][stack] += len(s.timestamps_unix_nano) or 1


@pytest.fixture(scope="module")
def may_profile():
    done = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s"], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == 3:
        pytest.skip(f"profiling is not permitted here: {done.stderr.strip()[-200:]}")


def profile(program, until, *arguments, environment=None):
    """Runs the program under profsend until until(stacks) is true; its stacks."""
    with Receiver() as receiver:
        busy = Process([program])
        with running(busy):
            sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--compression", "none",
                              "--frequency", "199", "--interval", "1s", "--pid", busy.pid, *arguments],
                             env={**os.environ, **(environment or {})})
            with running(sender):
                wait_for(lambda: until(dict(receiver.stacks[busy.pid])) or not sender.alive(), "the expected stacks")
                assert sender.alive(), sender.log()
    return receiver.stacks[busy.pid]


def chains(stacks):
    """Each stack as the list of all its lines, inlined ones as if they were frames; with what is inlined counted."""
    for stack, hits in stacks.items():
        yield [line for location in stack for line in location.lines], max(len(l.lines) for l in stack), hits


def has_inlined(stacks, names):
    """The stacks with one location whose lines are these, innermost first; None is any."""
    return [l for stack in stacks for l in stack
            if len(l.lines) >= len(names) and all(n is None or n == x.name for n, x in zip(names, l.lines))]


def where(line):
    return pathlib.PurePath(line.file).name, line.line


CXX = """
namespace app {
inline __attribute__((always_inline)) unsigned leaf(unsigned x)
{
    unsigned r = x;
    for (int i = 0; i < 100; i++)
        r = r * 31 ^ (r >> 7);
    return r;
}
static inline __attribute__((always_inline)) unsigned middle(unsigned n)
{
    return leaf(n) + 1;
}
template <class T> __attribute__((noinline)) T work(T n)
{
    T s = 0;
    for (T i = 0; i < n; i++)
        s += middle(i);
    return s;
}
}
int main()
{
    volatile unsigned x = 0;
    for (;;)
        x = x + app::work<unsigned>(1000);
}
"""
WORK = "unsigned int app::work<unsigned int>(unsigned int)"


def build_cxx(folder, compiler="g++", *flags):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    (folder / "busy.cc").write_text(CXX)
    subprocess.run([compiler, "-O2", "-g", *flags, folder / "busy.cc", "-o", folder / "busy"], check=True)
    return folder / "busy"


def mains_of(stacks):
    """The lines of main below WORK."""
    callers = [lines for lines, _, _ in chains(stacks) if any(l.name == WORK for l in lines)]
    return [l for lines in callers for l in lines[[l.name for l in lines].index(WORK):] if l.name == "main"]


def is_whole_cxx(stacks):
    """A stack taken before the unwinder knew the program may end above main."""
    return has_inlined(stacks, ["app::leaf(unsigned int)", None, WORK]) and mains_of(stacks)


def check_cxx(stacks, folder):
    found = has_inlined(stacks, ["app::leaf(unsigned int)", None, WORK])
    leaf, middle, work = found[0].lines
    assert leaf.line in (3, 5, 6, 7, 8) and where(leaf)[0] == "busy.cc", leaf
    assert leaf.file == str(folder / "busy.cc") and leaf.start == 3, leaf
    assert not any(line.system for line in found[0].lines), found[0]  # the mangled form is not sent besides
    assert middle.name.removesuffix("(unsigned int)") == "app::middle", middle  # gcc gives static functions no mangled name
    assert where(middle) == ("busy.cc", 12) and middle.start == 10
    assert where(work) == ("busy.cc", 18) and work.start == 14
    # The caller's line is that of the call: one less than the return address was looked up.
    mains = mains_of(stacks)
    assert mains and all(where(main) == ("busy.cc", 26) for main in mains), mains


@pytest.mark.parametrize("compiler,flags", [("g++", ()), ("g++", ("-gdwarf-4",)), ("g++", ("-gz",)), ("clang++", ())])
def test_cxx_with_inlined_calls(may_profile, tmp_path, compiler, flags):
    program = build_cxx(tmp_path, compiler, *flags)
    stacks = profile(program, is_whole_cxx)
    check_cxx(stacks, tmp_path)


def test_a_stripped_program_with_its_debug_file_beside_it(may_profile, tmp_path):
    program = build_cxx(tmp_path)
    subprocess.run(["objcopy", "--only-keep-debug", program, tmp_path / "busy.debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=busy.debug", "busy"], check=True, cwd=tmp_path)
    check_cxx(profile(program, is_whole_cxx), tmp_path)


def test_a_stripped_program_whose_debug_file_a_server_has(may_profile, tmp_path):
    program = build_cxx(tmp_path)
    notes = subprocess.run(["readelf", "-n", program], check=True, capture_output=True, text=True).stdout
    build_id = notes.split("Build ID: ")[1].split()[0]
    folder = tmp_path / "server/buildid" / build_id
    folder.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, folder / "debuginfo"], check=True)
    subprocess.run(["objcopy", "--strip-all", program], check=True)
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *arguments):
            asked.append(self.path)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=tmp_path / "server"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {"DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_address[1]}",
                   "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}
    try:
        if not any(pathlib.Path(p).exists() for p in ("/usr/lib/x86_64-linux-gnu/libdebuginfod.so.1",
                                                      "/usr/lib/aarch64-linux-gnu/libdebuginfod.so.1")):
            pytest.skip("no libdebuginfod.so.1 here")
        stacks = profile(program, is_whole_cxx, environment=environment)
        check_cxx({k: v for k, v in stacks.items() if any(l.lines for l in k)}, tmp_path)
        assert f"/buildid/{build_id}/debuginfo" in asked
    finally:
        server.shutdown()
        server.server_close()


def test_symbolize_none_leaves_native_code_to_the_receiver(may_profile, tmp_path):
    program = build_cxx(tmp_path)
    stacks = profile(program, lambda s: sum(s.values()) > 20, "--symbolize", "none")
    native = [l for stack in stacks for l in stack if l.kind == "native" and l.mapping]
    assert native and not any(l.lines for l in native), native[0]
    own = [l for l in native if l.mapping == "busy"]
    assert own and all(l.address and {"gnu", "htlhash"} <= dict(l.build_ids).keys() for l in own), own
    kernel = [l for stack in stacks for l in stack if l.kind == "kernel"]
    assert all(len(l.lines) <= 1 and not any(x.line for x in l.lines) for l in kernel)


RUST = """
#[inline(always)]
fn leaf(x: u32) -> u32 {
    let mut r = x;
    for _ in 0..100 {
        r = r.wrapping_mul(31) ^ (r >> 7);
    }
    r
}
#[inline(always)]
fn middle(n: u32) -> u32 {
    leaf(n).wrapping_add(1)
}
struct Work<T>(T);
impl Work<u32> {
    #[inline(never)]
    fn run(&self) -> u32 {
        let mut s = 0u32;
        for i in 0..self.0 {
            s = s.wrapping_add(middle(i));
        }
        s
    }
}
fn main() {
    let mut x = 0u32;
    loop {
        x = std::hint::black_box(x.wrapping_add(Work(std::hint::black_box(1000)).run()));
    }
}
"""


def test_rust_with_inlined_calls(may_profile, tmp_path):
    compiler = shutil.which("rustc")
    if not compiler:
        pytest.skip("no rustc here")
    (tmp_path / "busy.rs").write_text(RUST)
    subprocess.run([compiler, "-O", "-g", "-C", "symbol-mangling-version=v0", "busy.rs"], cwd=tmp_path, check=True)
    run = "<busy::Work<u32>>::run"
    stacks = profile(tmp_path / "busy", lambda s: has_inlined(s, [None, "busy::middle", run]) or
                     has_inlined(s, [None, None, "busy::middle", run]))
    found = (has_inlined(stacks, [None, "busy::middle", run]) + has_inlined(stacks, [None, None, "busy::middle", run]))[0].lines
    leaf, middle, outer = found[-3:]
    assert leaf.name == "busy::leaf" and middle.name == "busy::middle" and outer.name == run, found
    assert where(middle) == ("busy.rs", 12) and where(outer) == ("busy.rs", 20), found
    assert not leaf.system, leaf


GO = """
package main

func leaf(x uint32) uint32 {
	r := x
	for i := 0; i < 100; i++ {
		r = r*31 ^ (r >> 7)
	}
	return r
}

func middle(n uint32) uint32 {
	return leaf(n) + 1
}

//go:noinline
func work(n uint32) uint32 {
	s := uint32(0)
	for i := uint32(0); i < n; i++ {
		s += middle(i)
	}
	return s
}

func main() {
	x := uint32(0)
	for {
		x += work(1000)
	}
}
"""


@pytest.mark.parametrize("flags", [(), ("-ldflags=-s -w",)])
def test_go_with_inlined_calls(may_profile, tmp_path, flags):
    compiler = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(compiler):
        pytest.skip("no go here")
    (tmp_path / "busy.go").write_text(GO)
    subprocess.run([compiler, "build", *flags, "-o", "busy", "busy.go"], cwd=tmp_path, check=True)
    chain = ["main.leaf", "main.middle", "main.work"]
    stacks = profile(tmp_path / "busy", lambda s: has_inlined(s, chain))
    location = has_inlined(stacks, chain)[0]
    leaf, middle, work = location.lines
    assert location.kind == "go"
    assert leaf.line in (5, 6, 7, 9) and leaf.start == 4 and leaf.file == str(tmp_path / "busy.go"), leaf
    assert where(middle) == ("busy.go", 13) and middle.start == 12
    assert where(work) == ("busy.go", 20) and work.start == 17
    main = [l for lines, _, _ in chains(stacks) for l in lines if l.name == "main.main"]
    assert main and all(where(l) == ("busy.go", 28) for l in main), main[:3]
