"""Who can be measured: how each is started, how one sees that it is at work, and what is on record of those that are not here."""
import collections
import os
import pathlib

# name: in the table; argv: by (program, sink's address, Hz, kind of case); at_work: in its log once it samples; last_s: seconds until
# what was sampled is in its next report, for whoever does not send it when ended
Profiler = collections.namedtuple("Profiler", "name program argv at_work last_s is_peer")


def profsend_argv(program, address, frequency, case):
    kinds = ["--no-cpu", "--off-cpu"] if case == "switching" else []
    return [program, "--endpoint", f"http://{address}", "--frequency", frequency, *kinds]


def peer_argv(program, address, frequency, case):
    # -bpffs-root only keeps it from looking for OBI's maps; all else is as it comes: a report each 5 s ± 20 %, gzip
    return [program, "-collection-agent", address, "-disable-tls", "-samples-per-second", frequency, "-bpffs-root", "/nonexistent/"]


def profsend(program, name="profsend"):
    return Profiler(name, program, profsend_argv, "sampling", 0, False)


def peer(program):
    return Profiler("otel-ebpf-profiler", program, peer_argv, "Attached tracer program", 7, True)


def peer_here(wanted):
    """The peer's program: the one asked for, else one that lies in the cache, else none."""
    if wanted:
        return None if wanted == "none" else pathlib.Path(wanted)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    program = cache / "profgate/bin/ebpf-profiler"
    return program if os.access(program, os.X_OK) else None


# opentelemetry-ebpf-profiler (commit b442421, 2026-08-21), measured 2026-11-21 on a machine of this kind: 2 cores, 24 GiB,
# Debian 12, Linux 6.18, at 20 Hz where we take 19. For machines that have no such program; its code is no part of this
# project. Own CPU %, BPF %, RSS / peak MB, maps MB, sent KB/min gzip, s to full rate, share of the samples of processes of 1 ms.
RECORDED = {
    ("idle", 19): ("1.45–2.09", "0.01–0.12", "40–49 / 76", "42", "34–214", "5", "–"),
    ("idle", 97): ("1.84–4.31", "0.10–0.47", "57–70 / 106", "42", "217–655", "5", "–"),
    ("mixed", 19): ("0.90–2.09", "0.14–0.18", "46–50 / 76", "42", "269–301", "11", "–"),
    ("mixed", 97): ("1.33–5.25", "0.48–0.63", "69–100 / 113", "42", "453–783", "11", "–"),
    ("short", 19): ("2.9", "0.17", "44–51 / 64", "42", "133–217", "5", "0 %"),
    ("short", 97): ("8.3–8.8", "0.57–0.66", "62 / 89", "42", "388–612", "5", "0 %"),
}
