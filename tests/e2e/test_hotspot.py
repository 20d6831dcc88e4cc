"""A Java program whose stacks are known (tests/runtimes/Chains.java), seen by profsend: attached to while it runs, and begun while it
samples; by the machine's own JDK and, with --soak, by each that is to be had here and in each way it runs code.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from profiles import Receiver, are_named, beside_a_liar, busy, judged, names_of, nearly_all, profsend, say, seen, seen_from_its_begin, started
from programs import ROOT, Process, running, wait_for

PROGRAM = ROOT / "tests/runtimes/Chains.java"
OWN = shutil.which("java")
LATE = 0.998  # of the samples of a program that runs already are exact, complete and named
FIRST = 2.0  # seconds within which its place must be known, on a machine that eight others use
THROWING = 0.9995  # of one whose methods throw: each place in what goes on with an exception is known
AFTER = 0.99  # of one that begins
YIELDED = 0.93  # of virtual threads that do nothing but yield; the rest is C++ that brings frames back, and has no way to the carrier
JAVA_THREADS = re.compile(r"java|Thread-\d+|ForkJoinPool-\d*-?.*")

# What can be called by `work`, as a regular expression over "a>b>c"; below that every beginning of it can be, too.
CALLS = ["recurse(>recurse)*>spin", "callInterface>(Square|Circle|Ring).area>spin", "callLambda>lambda$callLambda>spin",
         "callStream>lambda$callStream>spin", "callException>(thrower(>thrower)*|spin)", "callSynchronized>guarded>spin", "callReflection>spin",
         "callSort>compare>spin", "callPrivileged>lambda$callPrivileged>spin", "copy"]
ROOTS = [("main", "run"), ("lambda$main", "run")]
# What the JDK must have put between two of ours.
BETWEEN = {("callSort", "compare"): "java.util.TimSort.sort", ("callReflection", "spin"): "java.lang.reflect.Method.invoke",
           ("callStream", "lambda$callStream"): "java.util.stream.LongPipeline.sum"}


def javas_here():
    found = sorted({*pathlib.Path("/usr/lib/jvm").glob("*/bin/java"), *map(pathlib.Path, os.environ.get("PG_JAVAS", "").split())})
    return list(dict.fromkeys(p.resolve() for p in found))


def javas():
    """The machine's own, compiling and not; with --soak all, and all ways."""
    yield pytest.param(OWN, "", id="own")
    yield pytest.param(OWN, "-Xint", id="own-Xint")
    for java in javas_here():
        for options in ("", "-Xint", "-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation", "-XX:-SegmentedCodeCache -XX:+UseSerialGC",
                        "-XX:+PreserveFramePointer -XX:+UseParallelGC"):
            yield pytest.param(str(java), options, id=f"{java.parent.parent.name}{options}", marks=pytest.mark.soak)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    if not OWN or not shutil.which("javac"):
        pytest.skip("no Java here (java and javac)")
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-nowarn", "-Xlint:none", "-d", folder, PROGRAM], check=True, capture_output=True)
    return folder


def own_chain(stack):
    """The program's methods, root first, without the number of a lambda's; and what is between two of them."""
    chain, between = [], [[]]
    for name, kind in reversed(list(zip(stack.names, stack.kinds))):
        if kind != "jvm" or not name.startswith("Chains") or "$$Lambda" in name:
            between[-1].append(name)
            continue
        chain.append(re.sub(r"^Chains[.$]", "", re.sub(r"(lambda\$\w+)\$\d+$", r"\1", name)))
        between.append([])
    return chain, between


def possible(chain):
    """Whether `chain` can be on the stack behind `run`."""
    if not chain:
        return True
    if chain[0] != "work":
        return False
    text = ">".join(chain[1:])
    candidates = [text] + [text + end for end in (">spin", ">recurse>spin", ">lambda$callLambda>spin", ">lambda$callStream>spin", ">guarded>spin",
                                                  ">compare>spin", ">lambda$callPrivileged>spin", ">thrower", ">Ring.area>spin")]
    return not text or any(re.fullmatch(call.replace("$", r"\$"), candidate) for call in CALLS for candidate in candidates)


def is_exact(stack):
    chain, between = own_chain(stack)
    if tuple(chain[:2]) not in [root[:len(chain)] for root in ROOTS] or not chain or not possible(chain[2:]):
        return False
    if not any(name.startswith("JavaCalls::call_helper(") for name in between[0]):
        return False
    return all(BETWEEN[pair] in gap for pair, gap in zip(zip(chain, chain[1:]), between[1:]) if pair in BETWEEN)


def judge(stacks):
    """judged(), of Java's threads."""
    def verdict(stack):
        if not JAVA_THREADS.fullmatch(stack.thread or ""):
            return None
        # _Copy_…: assembly of HotSpot's, without call frame information
        is_complete = stack.incomplete is None or stack.names[0].startswith("_Copy_")
        return is_exact(stack), is_complete, are_named(names_of(stack, "jvm"))
    return judged(stacks, verdict)


def java_command(java, options, classes, *arguments):
    return [java, "-Xmx64m", *options.split(), "-cp", classes, "Chains", *arguments]


def lines_of(classes):
    """By method the lines that javac has for its code."""
    lines = {}
    for file in sorted(classes.glob("*.class")):
        name = None
        for line in subprocess.run(["javap", "-l", "-p", file], capture_output=True, text=True, check=True).stdout.splitlines():
            if match := re.match(r".*?(?:class|interface) ([\w$]+)", line):
                of = match[1]
            elif match := re.match(r"  .*?([\w$]+)\(.*;$", line):
                name = f"{of}.{match[1]}"
            elif (match := re.match(r" +line (\d+): ", line)) and name:
                lines.setdefault(name, set()).add(int(match[1]))
    return lines


@pytest.mark.parametrize("java, options", javas())
@pytest.mark.parametrize("threads", ["3", pytest.param("0", marks=pytest.mark.soak)], ids=["threads", "main"])
def test_a_program_that_runs_is_seen_exactly(java, options, threads, classes):
    program = Process(java_command(java, options, classes, "100", threads))
    with Receiver(first=FIRST) as receiver, running(program):
        busy(program, 1.0)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: judge(receiver.of(program.pid))[0] >= 800, "samples")
            assert sender.stop() == 0, sender.log()
        hits, exact, complete, named, odd = judge(receiver.of(program.pid))
    text = say(f"{java} {options}", hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    lines = lines_of(classes)
    assert len(receiver.places["Chains.work", "jvm"]) >= 2  # lines, not functions
    for (function, kind), places in receiver.places.items():
        if kind == "jvm" and function in lines:
            assert all(file == "Chains.java" and line in lines[function] for file, line in places), (function, places, lines[function])


@pytest.mark.parametrize("java, options", javas())
def test_a_program_that_begins_is_seen_exactly(java, options, classes):
    stacks = seen_from_its_begin(pathlib.Path(java).resolve().name, lambda: Process(java_command(java, options, classes, "4")))
    # Until `main` is called it is the machine that begins, whose Java has other chains.
    at_work = {s: n for s, n in stacks.items() if any(name.startswith("Chains") for name in s.names) or
               s.incomplete is not None and not any("Threads::create_vm(" in name for name in s.names) and
               any(kind == "jvm" or "libjvm" in file or not file and name.startswith("0x") for name, file, kind in zip(s.names, s.files, s.kinds))}
    hits, exact, complete, named, odd = judge(at_work)
    text = say(f"{java}, of {sum(stacks.values())}", hits, exact, complete, named, odd)
    # Five standard deviations, for the busier the machine the fewer the samples.
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


# Threads that are put aside deep in calls: of so many frames the topmost alone are brought back as they go on, the others one by one.
YIELDING = """
public class Yielding {
    static volatile long sink;
    static long spin(int n) { long sum = 0; for (int i = 0; i < n; i++) sum += i * 31L ^ sum >>> 3; return sum; }
    static long down(int n) { return n == 0 ? pause() : down(n - 1) + spin(50); }
    static long pause() { long sum = spin(1000); Thread.yield(); return sum + spin(1000); }
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 20; i++)
            Thread.startVirtualThread(() -> { while (true) sink += down(200); });
        Thread.sleep(600_000);
    }
}
"""


def java_since(version):
    for java in javas_here():
        said = re.search(r'JAVA_VERSION="(\d+)', (java.parent.parent / "release").read_text())
        if said and int(said[1]) >= version:
            return java
    pytest.skip(f"no JDK from {version} on here (/usr/lib/jvm, or PG_JAVAS)")


def test_virtual_threads_that_yield_are_seen_to_their_carriers(tmp_path):
    """Where frames are put aside, and so not on the stack, the code that brings them back is told in their place."""
    (tmp_path / "Yielding.java").write_text(YIELDING)
    program = Process([java_since(21), "-Xmx64m", tmp_path / "Yielding.java"])

    def verdict(stack):
        names = names_of(stack, "jvm")
        own = [i for i, name in enumerate(names) if name.startswith("Yielding.")]
        if not own or not are_named(names):
            return None  # what is compiled anew is gone before its name is read, at times: others judge that
        chain = [name.removeprefix("Yielding.") for name in names[own[0]:]]
        below = names[:own[0]]
        is_exact = (re.fullmatch(r"(lambda\$main\$0>)?(down>)*(pause>)?(spin>)?", ">".join(chain[:len(own)]) + ">") and
                    "java.util.concurrent.ForkJoinWorkerThread.run" in below and
                    (below[-1].startswith("StubRoutines (continuation") or chain[0].startswith("lambda$main")) and
                    "jdk.internal.vm.Continuation.run" in below)
        return is_exact, stack.incomplete is None, True
    stacks = seen(program, 1500, first=FIRST, begun=3.0).of(program.pid)
    hits, exact, complete, named, odd = judged(stacks, verdict)
    text = say("virtual threads", hits, exact, complete, named, odd)
    # What asks C++ for the frames that are put aside is told by its name, above the carrier.
    asking = [s for s in stacks if not s.first and s.incomplete is None and any("prepare_thaw(" in name for name in s.names)]
    assert asking and all("StubRoutines (continuation" in "".join(s.names) and are_named(s.names[-8:]) for s in asking), asking[:3]
    assert hits >= 500 and min(exact, complete) >= nearly_all(YIELDED, hits), (text, odd[:3])


# Java that calls C that calls Java, without JNI: most of the time goes into the calls.
FOREIGN = """
import java.lang.foreign.*;
import java.lang.invoke.*;
public class Foreign {
    static int compare(MemorySegment a, MemorySegment b) {
        return Integer.compare(a.reinterpret(4).get(ValueLayout.JAVA_INT, 0), b.reinterpret(4).get(ValueLayout.JAVA_INT, 0));
    }
    static void sort(MethodHandle qsort, MemorySegment of, MemorySegment compare) throws Throwable {
        for (int i = 0; i < 64; i++) of.setAtIndex(ValueLayout.JAVA_INT, i, i * 7919 % 64);
        qsort.invokeExact(of, 64L, 4L, compare);
    }
    public static void main(String[] args) throws Throwable {
        Linker linker = Linker.nativeLinker();
        MethodHandle qsort = linker.downcallHandle(linker.defaultLookup().find("qsort").get(),
            FunctionDescriptor.ofVoid(ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS));
        MethodHandle compare = MethodHandles.lookup().findStatic(Foreign.class, "compare",
            MethodType.methodType(int.class, MemorySegment.class, MemorySegment.class));
        FunctionDescriptor type = FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS);
        MemorySegment called = linker.upcallStub(compare, type, Arena.global());
        MemorySegment of = Arena.global().allocate(4 * 64);
        while (true) sort(qsort, of, called);
    }
}
"""


def test_c_that_calls_java_without_jni_has_its_callers(tmp_path):
    (tmp_path / "Foreign.java").write_text(FOREIGN)
    program = Process([java_since(22), "-Xmx64m", tmp_path / "Foreign.java"])

    def verdict(stack):
        if "upcall_stub" not in stack.names and "Foreign.compare" not in stack.names:
            return None
        chain = [name for name in stack.names[::-1] if name.startswith("Foreign.")]
        is_exact = chain[:2] == ["Foreign.main", "Foreign.sort"] and chain[2:] in ([], ["Foreign.compare"])
        return is_exact, stack.incomplete is None, are_named(names_of(stack, "jvm"))
    hits, exact, complete, named, odd = judged(seen(program, 1500, first=FIRST, begun=4.0).of(program.pid), verdict)
    text = say("upcalls", hits, exact, complete, named, odd)
    assert hits >= 200 and min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


# Half of the time goes into making frames and tearing them down.
SMALL = """
public class Small {
    static int three(int n) { return n * 31 + 7; }
    static int two(int n) { return three(n) + 1; }
    static int one(int n) { return two(n) ^ 5; }
    static int run(int n) { int x = 0; for (int i = 0; i < n; i++) x = one(x); return x; }
    public static void main(String[] args) { int x = 0; while (true) x += run(100_000); }
}
"""


# Of each two calls one throws what another method catches.
THROWN = """
public class Thrown {
    static final RuntimeException IT = new RuntimeException("", null, false, false) {};
    static int thrower(int n) { if ((n & 1) == 0) throw IT; return n * 31; }
    static int middle(int n) { return thrower(n) + 1; }
    static int catcher(int n) { try { return middle(n); } catch (RuntimeException e) { return n + 7; } }
    static int run(int n) { int x = 0; for (int i = 0; i < n; i++) x += catcher(i); return x; }
    public static void main(String[] args) { int x = 0; while (true) x += run(100_000); }
}
"""


@pytest.mark.parametrize("options", ["", "-XX:TieredStopAtLevel=1"])
def test_methods_that_throw_have_their_callers(options, tmp_path):
    (tmp_path / "Thrown.java").write_text(THROWN)
    program = Process([java_since(17), "-Xmx64m", *options.split(), "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Thrown*::*", tmp_path / "Thrown.java"])
    chains = ["main", "run", "catcher", "middle", "thrower"]

    def verdict(stack):
        chain = [name.removeprefix("Thrown.") for name in stack.names[::-1] if name.startswith("Thrown.")]
        return (chain == chains[:len(chain)], stack.incomplete is None, are_named(names_of(stack, "jvm"))) if chain else None
    hits, exact, complete, named, odd = judged(seen(program, 3000, first=FIRST, begun=4.0).of(program.pid), verdict)
    text = say("methods that throw", hits, exact, complete, named, odd)
    assert hits >= 500 and min(exact, complete, named) >= nearly_all(THROWING, hits), (text, odd[:3])


def subtypes():
    """Java that spends its time in finding out whether objects are of an interface of many. Frames of other methods, a little larger than
    `run`, have been where the frames below `run` are, and their return addresses are in these yet."""
    methods = range(1, 13)
    unused = ["{ " + " ".join(f"long a{i} = f(n + {i});" for i in range(k)) + " r += " + " + ".join(f"a{i}" for i in range(k)) + "; }" for k in methods]
    return "\n".join([
        "public class Subtypes {", *(f"interface I{i} {{}}" for i in range(24)), "interface Wanted {} interface Other {}",
        "static class All implements " + ", ".join(f"I{i}" for i in range(24)) + ", Wanted, Other {}",
        "static final Object OF = new All();", "static long f(long n) { return n * 31; }",
        "static long is(Object o, int n) { long r = (o instanceof Wanted ? 1 : 0) + (o instanceof Other ? 1 : 0); if (n < 0)", unused[2], "return r; }",
        *(f"static long other{k}(int n) {{ long r = f(n); if (n < 0) {unused[k - 1]} return r; }}" for k in methods),
        "static long run(int n) { return is(OF, n) + is(OF, n + 1); }",
        "static long all(int n) { return " + " + ".join(f"other{k}(n) + run(n)" for k in methods) + "; }",
        "public static void main(String[] args) { long x = 0; for (int i = 0; ; i = i + 1 & 0xffff) x += all(i); }", "}"])


@pytest.mark.parametrize("version", [17, 25])
def test_looks_for_a_subtype_have_their_callers(version, tmp_path):
    """C1's code pushes two classes for a stub, which pushes what it needs."""
    (tmp_path / "Subtypes.java").write_text(subtypes())
    program = Process([java_since(version), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet",
                       "-XX:CompileCommand=dontinline,Subtypes::*", "-XX:CompileCommand=exclude,Subtypes::main", tmp_path / "Subtypes.java"])

    def verdict(stack):
        chain = [name.removeprefix("Subtypes.") for name in stack.names[::-1] if name.startswith("Subtypes.")]
        is_exact = re.fullmatch(r"main( all( (run( is)?|other\d+)( f)?)?)?", " ".join(chain))
        return (is_exact, stack.incomplete is None, are_named(names_of(stack, "jvm"))) if chain else None
    stacks = seen(program, 1500, first=FIRST, begun=4.0).of(program.pid)
    hits, exact, complete, named, odd = judged(stacks, verdict)
    text = say(f"subtypes, JDK {version} or later", hits, exact, complete, named, odd)
    assert sum(n for stack, n in stacks.items() if "slow_subtype_check" in stack.names[0]) >= 150
    assert hits >= 500 and min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])


@pytest.mark.parametrize("version", [17, 25])
def test_methods_that_do_next_to_nothing_have_their_callers(version, tmp_path):
    (tmp_path / "Small.java").write_text(SMALL)
    program = Process([java_since(version), "-Xmx64m", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Small::*", tmp_path / "Small.java"])
    chains = ["main", "run", "one", "two", "three"]

    def verdict(stack):
        chain = [name.removeprefix("Small.") for name in stack.names[::-1] if name.startswith("Small.")]
        return (chain == chains[:len(chain)], stack.incomplete is None, are_named(names_of(stack, "jvm"))) if chain else None
    hits, exact, complete, named, odd = judged(seen(program, 1500, first=FIRST, begun=4.0).of(program.pid), verdict)
    text = say(f"small methods, JDK {version} or later", hits, exact, complete, named, odd)
    assert hits >= 300 and min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])


def test_one_that_lies_harms_nobody(tmp_path, classes):
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "java_liar.c", lambda: Process(java_command(OWN, "", classes, "100", "0")),
                                 FIRST, lambda lies, stacks: judge(stacks)[0] >= 100 and any("jvm" in stack.kinds for stack in lies), begun=1.0)
    hits, exact, complete, named, odd = judge(stacks)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), odd[:3]
