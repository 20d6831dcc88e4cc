/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profsend begins: rights, exporters, threads and the kernel side, in the order they need each other.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "sender/foreign/errand.h"
#include "sender/run/privilege.h"
#include "sender/run/program.h"
#include "sender/run/sandbox.h"
#include "sender/run/surroundings.h"

/* Requests that wait while the receiver is away: minutes of them. The oldest go first. */
#define QUEUE_BYTES (8u << 20)
#define QUEUE_SIZE  256u
/* What a receiver may answer: an acknowledgement has some bytes, a proxy's page some thousands. In pieces of
 * a byte each it is six times as much to read. */
#define ANSWER_MAX (256u << 10)
/* Descriptors: the files of two windows, those being read, a clock a CPU; where more than the usual 1024 are
 * allowed. */
#define OPEN_FILES 4096u
/* With fewer it is said: a busy host of two CPUs takes 150. */
#define OPEN_FILES_MIN 512u

struct client_options exporter_options(const struct options *o, enum otlp_signal signal, const char *endpoint)
{
    struct client_options x = CLIENT_DEFAULT;
    x.endpoint = endpoint;
    x.protocol = o->protocol;
    x.signal = signal;
    x.compression = o->compression;
    x.headers = o->header;
    x.n_headers = o->n_headers;
    x.user_agent = "profsend/" PROFGATE_VERSION;
    x.tls = o->tls;
    x.timeout_ns = o->timeout_ns;
    x.max_response_bytes = ANSWER_MAX;
    x.queue.num_consumers = 1; /* one after the other keeps the order, and this is one host's data */
    return x;
}

/* Capabilities are a thread's own. */
static void keep_needed(void)
{
    privilege_drop(0);
}

static int open_exporter(struct program *p, struct error *e)
{
    const struct spool_options spool = {p->options.spool, p->options.spool_bytes, keep_needed};
    int r = p->options.metrics_endpoint ? figures_open(p, e) : 0;
    if (r < 0)
        return r;
    struct client_options x = exporter_options(&p->options, OTLP_PROFILES, p->options.endpoint);
    x.path = p->options.path;
    x.max_request_bytes = QUEUE_BYTES;
    x.queue.queue_size = QUEUE_SIZE;
    x.queue.queue_bytes = QUEUE_BYTES;
    return delivery_open(&p->delivery, p->loop, &x, &spool, e);
}

static bool on_runtime(void *user, uint32_t pid, uint32_t runtime, struct runtime_place *ret)
{
    const struct program *p = user;
    return sampler_runtime_of(p->sampler, pid, runtime, ret);
}

static int on_symbols(void *user, const uint64_t *address, uint32_t n, struct buffer *ret)
{
    struct program *p = user;
    return sampler_symbols(p->sampler, address, n, ret);
}

static int open_pods(struct program *p, struct error *e)
{
    return p->options.kubernetes ? pods_new(&p->pods, p->options.kubernetes, keep_needed, e) : 0;
}

/* Names of earlier starts. Without them all are looked up again, and that is all. */
static void open_stored(struct program *p)
{
    const struct options *o = &p->options;
    if (!o->name_cache)
        return;
    uint64_t kind = hash_bytes(BYTES_LIT(PROFGATE_VERSION), (uint64_t)o->addresses_only);
    int r = stored_open(&p->stored, o->name_cache, kind, o->name_cache_bytes);
    if (r == STORED_REFUSED)
        log_warn(
            "names are not kept on disk: others may write in %s, or its folder \"names\" is not ours alone",
            o->name_cache);
    else if (r == STORED_TAKEN)
        log_info("names are not kept on disk: another process keeps its own in %s", o->name_cache);
    else if (r < 0)
        log_warn("names are not kept on disk: %s: %s", o->name_cache, strerror(-r));
}

/* Where names come from. A library that is missing is no reason not to profile. */
static int open_names(struct program *p)
{
    struct error e = {0};
    if (!p->options.addresses_only && fetch_new(&p->fetch, keep_needed, &e) < 0)
        log_warn("%s", e.text);
    open_stored(p);
    int r = words_new(&p->words, &(struct words_options){on_runtime, p, "/proc", keep_needed});
    if (r < 0)
        return r;
    return namer_new(&p->namer,
                     &(struct namer_options){.loop = p->loop,
                                             .procs = p->collector.procs,
                                             .kernel = {on_symbols, p, "/proc"},
                                             .vdso = p->collector.vdso,
                                             .words = p->words,
                                             .binaries = {p->options.addresses_only, p->fetch, p->stored},
                                             .print = p->options.print ? stdout : NULL,
                                             .request = windows_request,
                                             .done = windows_named,
                                             .user = p});
}

static void raise_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= OPEN_FILES)
        return;
    limit.rlim_cur = min_of(limit.rlim_max, (rlim_t)OPEN_FILES);
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* refused, the files of large hosts have fewer names */
    if (limit.rlim_max < OPEN_FILES_MIN)
        log_warn("no more than %llu files may be open (RLIMIT_NOFILE): stacks will lack names and callers; "
                 "allow %u at least",
                 (unsigned long long)limit.rlim_max, OPEN_FILES_MIN);
}

/* Where BPF's memory counts as locked. While there may be CAP_SYS_RESOURCE; else as far as it goes. */
static void raise_locked_memory(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_MEMLOCK, &limit); /* refused, loading says so */
}

static void on_stack(void *user, const struct sample_head *head, const uint64_t *body)
{
    struct program *p = user;
    collector_stack(&p->collector, head, body, clock_monotonic());
}

/* The kernel side has room for CONTEXT_PLACES processes: what is above has samples without links, and it is
 * said. */
static void on_place(void *user, uint32_t pid, const struct context_place *place)
{
    struct program *p = user;
    int r = sampler_place(p->sampler, pid, place);
    if (r < 0)
        log_limited(LOG_LEVEL_WARN, "pid %u: the contexts of its threads are not read: %s", pid,
                    strerror(-r));
}

static bool on_code(void *user, uint32_t number, uint32_t whose, bool opens, struct collector_code *ret)
{
    struct program *p = user;
    return known_open(p->known, number, whose, opens, ret);
}

static void on_notice(void *user, const struct sample_head *head)
{
    struct program *p = user;
    collector_notice(&p->collector, head, clock_monotonic());
}

static void on_exec(void *user, const struct sample_head *head, const char *path)
{
    struct program *p = user;
    collector_exec(&p->collector, head, path, clock_monotonic());
}

static void on_process(void *user, const struct sample_process *process, struct bytes environment)
{
    struct program *p = user;
    collector_process(&p->collector, process, environment, clock_monotonic());
}

/* Switches off what this kernel cannot give, with a word for each. Whether anything is left. */
static bool leave_out(struct kinds *kinds, const struct features *f)
{
    bool is_any = false;
    for (uint32_t i = 0; i < SAMPLE_SOURCES; i++) {
        struct kind *kind = &kinds->at[i];
        const char *why =
            f->btf ? features_lack(f, kinds, i) : NULL; /* without BTF nothing works: said there */
        if (why) {
            log_warn("%s is not sampled on this kernel: %s", kind->type, why);
            kind->how = KIND_OFF;
        }
        is_any |= kind->how != KIND_OFF;
    }
    return is_any;
}

int program_open(struct program *p)
{
    struct error e = {0};
    struct sampler_options sampling = {
        .frequency = p->options.frequency,
        .only_pid = p->options.pid,
        .with_idle = p->options.idle,
        .kinds = &p->options.kinds,
        .wait_min_ns = p->options.wait_min_ns,
        .wait_by_ticket = p->options.wait_by_ticket,
        .lock_min_ns = p->options.lock_min_ns,
        .trace_map = p->options.trace_map,
        .probe_interval = p->options.alloc_interval,
        .features = features(),
        .rule = p->options.rule,
        .n_rules = p->options.n_rules,
    };
    if (surroundings_check(&p->options, &e) < 0) {
        log_error("%s", e.text);
        return EXIT_REFUSED;
    }
    if (!leave_out(&p->options.kinds, &sampling.features)) {
        log_error("nothing is left to sample");
        return EXIT_REFUSED;
    }
    struct sampler_handler handler = {
        .stack = on_stack, .exec = on_exec, .notice = on_notice, .process = on_process, .user = p};
    raise_open_files();
    if (sampling.features.memlock)
        raise_locked_memory();
    bool has_probes = p->options.probes.n || p->options.allocs.n;
    privilege_drop(PRIVILEGE_PCAP | PRIVILEGE_NICE | (has_probes ? PRIVILEGE_PROBE : 0)); /* no threads yet */
    errand_begin(keep_needed);
    host_read(&p->host);
    rng_seed(&p->rng, clock_realtime() ^ clock_monotonic() << 20 ^ (uint64_t)getpid());
    p->loop = io_loop_new();
    p->known = known_new();
    if (!p->loop || !p->known || collector_init(&p->collector, "/proc") < 0) {
        log_error("out of memory");
        return EXIT_FAILED;
    }
    if (!p->options.print && open_exporter(p, &e) < 0) {
        log_error("%s", e.text);
        return EXIT_USAGE;
    }
    struct procs_wishes wishes = {p->options.command_line, p->options.owner, p->options.variables.items,
                                  p->options.variables.n};
    if (procs_wish(p->collector.procs, &wishes) < 0 || open_names(p) < 0) {
        log_error("out of memory, or no thread can be made");
        return EXIT_FAILED;
    }
    if (open_pods(p, &e) < 0) {
        log_error("%s", e.text);
        return EXIT_FAILED;
    }
    p->collector.place = on_place;
    p->collector.place_user = p;
    p->collector.code = on_code;
    p->collector.code_user = p;
    p->collector.words = p->words;
    p->begun = clock_monotonic();
    int r = sampler_open(&p->sampler, &sampling, &handler, &e);
    if (r == 0 && unwinder_new(&p->unwinder, p->sampler, p->known, p->collector.vdso) < 0)
        r = error_set(&e, -ENOMEM, "out of memory, or no thread can be made");
    if (r == 0)
        (void)procs_scan(p->collector.procs, clock_monotonic()); /* without it, names come with the samples */
    p->window_begun = clock_monotonic(); /* loading took its time, of which there is no sample */
    r = r ? r : sampler_start(p->sampler, &e);
    if (r != 0) {
        log_error("%s", e.text);
        return r == SAMPLER_REFUSED ? EXIT_REFUSED : EXIT_FAILED;
    }
    privilege_drop(0);
    if (p->options.status && status_open(&p->status, p->loop, p->options.status, figures_status, p, &e) < 0) {
        log_error("%s", e.text);
        return EXIT_REFUSED;
    }
    if (p->status)
        log_info("status page at port %d", status_port(p->status));
    p->notify = notify_open(getenv);
    sandbox_enter();
    errand_renew();
    return 0;
}
