#include "sender/attach/sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "proto/base/macros.h"
#include "sample.skel.h"
#include "sender/attach/cpus.h"
#include "sender/attach/refusal.h"
#include "sender/attach/shards.h"

/* The ring holds a quarter of a second of the deepest stacks we see in practice (~600 B), times four, and is
 * a power of two between these; the least is two seconds of the notices of 500 short processes a second,
 * which a window's names may take on a busy machine. A lost sample is counted, so a guess that is too small
 * shows. */
#define RING_MIN (512u * 1024)
#define RING_MAX (16u * 1024 * 1024)
/* Waits taken by their length, and requests of devices: a second of some thousand stacks. */
#define RING_MIN_WAITS (1024u * 1024)
/* Probes, and waits that are all taken, come in bursts: some thousands of stacks more. */
#define RING_MIN_BURSTS (4u * 1024 * 1024)

struct clock {
    uint32_t cpu, source;
    int fd; /* of the perf event */
    struct bpf_link *link;
};

/* Functions probed: the malloc family has six. */
#define PROBES_MAX (6 * SAMPLE_OTHERS_MAX)

struct sampler {
    struct sample *skel;
    struct ring_buffer *ring, *wants;
    sampler_want_fn want; /* who takes the wants, while sampler_wants runs */
    void *want_user;
    struct sampler_options options;
    struct sampler_handler handler;
    struct kinds only_clock; /* options.kinds where there are none */
    struct clock *clock;     /* also the counters of KIND_EVENT */
    uint32_t n_clocks, cap_clocks;
    struct bpf_link *probe[PROBES_MAX];
    uint32_t n_probes;
    uint64_t malformed;
    struct shards shards;
};

/* libbpf's last words: the only place where it says what it did not like. One sampler is opened at a time. */
static char last_words[256];

__attribute__((format(printf, 2, 0))) static int keep_words(enum libbpf_print_level level, const char *format,
                                                            va_list args)
{
    if (level == LIBBPF_WARN) {
        char line[sizeof last_words];
        vsnprintf(line, sizeof line, format, args);
        line[strcspn(line, "\n")] = 0;
        /* The first complaint is the cause; what follows is its echo. The one about RLIMIT_MEMLOCK is never
         * the cause: since 5.11 BPF memory is charged to the cgroup. (1.1's map file misspells the function
         * that would stop libbpf from trying.) */
        if (!*last_words && !strstr(line, "RLIMIT_MEMLOCK"))
            memcpy(last_words, line, sizeof line);
    }
    return 0;
}

static int on_record(void *user, void *data, size_t n)
{
    struct sampler *s = user;
    if (sampler_record(&s->handler, data, n) < 0)
        s->malformed++; /* cannot happen with our own BPF program; never a reason to stop */
    return 0;
}

static int on_want(void *user, void *data, size_t n)
{
    struct sampler *s = user;
    (void)sampler_want(s->want, s->want_user, data, n);
    return 0;
}

static int open_clock(const struct kind *kind, uint32_t frequency, uint32_t cpu)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .freq = 1,
        .sample_freq = frequency,
    };
    if (kind->how == KIND_EVENT) {
        attr.type = kind->event_type;
        attr.config = kind->event_config;
        attr.freq = kind->is_frequency;
        attr.sample_period = kind->rate; /* the same place as sample_freq */
    }
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void close_clock(struct clock *c)
{
    bpf_link__destroy(c->link); /* closes the event's fd as well */
}

static int add_clock(struct sampler *s, uint32_t source, uint32_t cpu)
{
    const struct kind *kind = &s->options.kinds->at[source];
    if (s->n_clocks == s->cap_clocks) {
        uint32_t cap = s->cap_clocks ? 2 * s->cap_clocks : 16;
        struct clock *more = realloc(s->clock, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        s->clock = more;
        s->cap_clocks = cap;
    }
    int fd = open_clock(kind, s->options.frequency, cpu);
    if (fd < 0)
        return fd;
    LIBBPF_OPTS(bpf_perf_event_opts, options, .bpf_cookie = source);
    struct bpf_program *program = kind->how == KIND_EVENT ? s->skel->progs.on_event : s->skel->progs.on_tick;
    struct bpf_link *link = bpf_program__attach_perf_event_opts(program, fd, &options);
    if (!link) {
        int r = -errno;
        close(fd);
        return r;
    }
    s->clock[s->n_clocks++] = (struct clock){.cpu = cpu, .source = source, .fd = fd, .link = link};
    return 0;
}

static bool is_sampled(const struct sampler *s, uint32_t source, uint32_t cpu)
{
    for (uint32_t i = 0; i < s->n_clocks; i++)
        if (s->clock[i].cpu == cpu && s->clock[i].source == source)
            return true;
    return false;
}

/* Opens what is online and not sampled yet of one kind. 0, or the last failure. */
static int open_clocks_of(struct sampler *s, uint32_t source, const struct cpus *online)
{
    int failure = 0;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpus_has(online, cpu) || is_sampled(s, source, cpu))
            continue;
        int r = add_clock(s, source, cpu);
        if (r < 0 && r != -ENODEV) /* went offline in between */
            failure = r;
    }
    return failure;
}

static int open_clocks(struct sampler *s, const struct cpus *online)
{
    int failure = 0;
    for (uint32_t source = 0; source < SAMPLE_SOURCES; source++) {
        enum kind_how how = s->options.kinds->at[source].how;
        int r = how == KIND_CLOCK || how == KIND_EVENT ? open_clocks_of(s, source, online) : 0;
        failure = r < 0 ? r : failure;
    }
    return failure;
}

static uint32_t count_cpus(const struct sampler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_clocks; i++)
        n += s->clock[i].source == s->clock[0].source;
    return n;
}

uint32_t sampler_follow_cpus(struct sampler *s)
{
    struct cpus online;
    if (cpus_online(&online) < 0)
        return count_cpus(s);
    for (uint32_t i = 0; i < s->n_clocks;) {
        if (cpus_has(&online, s->clock[i].cpu)) {
            i++;
            continue;
        }
        close_clock(&s->clock[i]);
        s->clock[i] = s->clock[--s->n_clocks];
    }
    (void)open_clocks(s, &online); /* tried again next time */
    return count_cpus(s);
}

static bool has_kind(const struct sampler *s, enum kind_how how)
{
    for (uint32_t i = 0; i < SAMPLE_SOURCES; i++)
        if (s->options.kinds->at[i].how == how)
            return true;
    return false;
}

static bool is_clock_alone(const struct sampler *s)
{
    return !has_kind(s, KIND_EVENT) && !has_kind(s, KIND_WAIT) && !has_kind(s, KIND_BLOCK) &&
           !has_kind(s, KIND_PROBE) && !has_kind(s, KIND_ALLOC) && !has_kind(s, KIND_LOCK);
}

static uint32_t ring_size(const struct sampler *s)
{
    uint64_t want = (uint64_t)libbpf_num_possible_cpus() * s->options.frequency * 600;
    bool by_length = s->options.kinds->at[SAMPLE_FROM_WAIT].period > 0; /* those come steadily */
    bool is_even = !has_kind(s, KIND_EVENT) && !has_kind(s, KIND_PROBE) && !has_kind(s, KIND_ALLOC) &&
                   !has_kind(s, KIND_LOCK) && (by_length || !has_kind(s, KIND_WAIT));
    uint32_t size = is_clock_alone(s) ? RING_MIN : is_even ? RING_MIN_WAITS : RING_MIN_BURSTS;
    while (size < want && size < RING_MAX)
        size *= 2;
    return size;
}

/* Programs nobody needs are not loaded: the verifier's work and their memory are saved, and a kernel that
 * lacks their tracepoint is no obstacle. */
static void choose_programs(struct sampler *s, bool has_sched_exit)
{
    bool waits = has_kind(s, KIND_WAIT), blocks = has_kind(s, KIND_BLOCK), locks = has_kind(s, KIND_LOCK);
    bpf_program__set_autoload(s->skel->progs.on_tick, has_kind(s, KIND_CLOCK));
    bpf_program__set_autoload(s->skel->progs.on_event, has_kind(s, KIND_EVENT));
    bpf_program__set_autoload(s->skel->progs.on_probe, has_kind(s, KIND_PROBE) || has_kind(s, KIND_ALLOC));
    bpf_program__set_autoload(s->skel->progs.on_switch, waits);
    bpf_program__set_autoload(s->skel->progs.on_sched_exit, waits && has_sched_exit);
    bpf_program__set_autoload(s->skel->progs.on_block_insert, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_issue, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_complete, blocks);
    bpf_program__set_autoload(s->skel->progs.on_lock_enter, locks);
    bpf_program__set_autoload(s->skel->progs.on_lock_exit, locks);
}

static int set_rules(struct sampler *s)
{
    for (uint32_t i = 0; i < s->options.n_rules; i++) {
        int r = sampler_rule(s, &s->options.rule[i], true);
        if (r < 0)
            return r;
    }
    return 0;
}

static void set_constants(struct sampler *s, uint32_t size, bool has_sched_exit)
{
    s->skel->rodata->with_idle = s->options.with_idle;
    s->skel->rodata->only_pid = s->options.only_pid;
    s->skel->rodata->ring_size = size;
    s->skel->rodata->wait_min_ns = s->options.wait_min_ns;
    s->skel->rodata->wait_share = (uint32_t)(s->options.kinds->at[SAMPLE_FROM_WAIT].share * (1u << 16));
    s->skel->rodata->wait_period_ns = s->options.kinds->at[SAMPLE_FROM_WAIT].period;
    s->skel->rodata->has_sched_exit = has_sched_exit;
    s->skel->rodata->probe_interval = s->options.probe_interval;
    s->skel->rodata->lock_min_ns = s->options.lock_min_ns;
    s->skel->rodata->with_trace_map = s->options.trace_map != NULL;
    for (uint32_t i = 0; i < s->options.n_rules; i++) {
        const struct filter_rule *rule = &s->options.rule[i];
        if (rule->verdict == FILTER_INCLUDE)
            s->skel->rodata->filter_includes |= 1u << rule->key.what;
        else
            s->skel->rodata->filter_excludes |= 1u << rule->key.what;
    }
}

/* OBI's map of traces: opened where it is pinned, else made and pinned there, as its side does (whoever comes
 * first). Entries: OBI's MAX, 1 << 14 (devdocs/trace-profile-correlation.md). */
#define TRACES_MAX (1u << 14)

static int share_traces(struct sampler *s)
{
    int r = bpf_map__set_max_entries(s->skel->maps.traces_ctx_v1, TRACES_MAX);
    return r < 0 ? r : bpf_map__set_pin_path(s->skel->maps.traces_ctx_v1, s->options.trace_map);
}

static int load(struct sampler *s)
{
    s->skel = sample__open();
    if (!s->skel)
        return -errno;
    uint32_t size = ring_size(s);
    bool has_sched_exit = has_kind(s, KIND_WAIT) && !s->options.wait_by_ticket &&
                          libbpf_find_vmlinux_btf_id("sched_exit_tp", BPF_TRACE_RAW_TP) > 0;
    *last_words = 0; /* that it is not there is an answer, no complaint */
    choose_programs(s, has_sched_exit);
    set_constants(s, size, has_sched_exit);
    int r = bpf_map__set_max_entries(s->skel->maps.ring, size);
    r = r < 0 || !is_clock_alone(s) ? r : bpf_map__set_max_entries(s->skel->maps.scratches, 1);
    r = r < 0 || has_kind(s, KIND_BLOCK) ? r : bpf_map__set_autocreate(s->skel->maps.blocks, false);
    r = r < 0 || !s->options.n_rules ? r : bpf_map__set_max_entries(s->skel->maps.filters, FILTER_RULES);
    r = r < 0 || !s->options.trace_map ? r : share_traces(s);
    r = r < 0 ? r : sample__load(s->skel);
    return r < 0 ? r : set_rules(s);
}

int sampler_rule(struct sampler *s, const struct filter_rule *rule, bool is_there)
{
    int fd = bpf_map__fd(s->skel->maps.filters);
    int r = is_there ? bpf_map_update_elem(fd, &rule->key, &rule->verdict, BPF_ANY)
                     : bpf_map_delete_elem(fd, &rule->key);
    return r < 0 ? -errno : 0;
}

int sampler_place(struct sampler *s, uint32_t pid, const struct context_place *place)
{
    int fd = bpf_map__fd(s->skel->maps.context_places);
    volatile __u32 *n = &s->skel->bss->n_context_places;
    if (!place) {
        if (*n)
            (void)bpf_map_delete_elem(fd, &pid); /* which an execve may have done already */
        return 0;
    }
    if (bpf_map_update_elem(fd, &pid, place, BPF_ANY) < 0)
        return -errno;
    *n = 1; /* from now on there may be some */
    return 0;
}

/* The malloc family, and which argument says how much. What a library lacks is left out. */
static const struct {
    const char *symbol;
    enum sample_weight weight;
} allocators[] = {
    {"malloc", SAMPLE_WEIGHS_FIRST},    {"calloc", SAMPLE_WEIGHS_PRODUCT},
    {"realloc", SAMPLE_WEIGHS_REGROWN}, {"aligned_alloc", SAMPLE_WEIGHS_SECOND},
    {"memalign", SAMPLE_WEIGHS_SECOND}, {"posix_memalign", SAMPLE_WEIGHS_THIRD},
};

static int add_probe(struct sampler *s, const char *file, const char *symbol, uint64_t cookie)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = symbol, .bpf_cookie = cookie);
    int pid = s->options.only_pid ? (int)s->options.only_pid : -1;
    if (s->n_probes == PROBES_MAX)
        return -E2BIG;
    struct bpf_link *link = bpf_program__attach_uprobe_opts(s->skel->progs.on_probe, pid, file, 0, &options);
    if (!link)
        return -errno;
    s->probe[s->n_probes++] = link;
    return 0;
}

/* Where our own C library is. */
static const char *own_libc(void)
{
    Dl_info info;
    return dladdr((void *)(uintptr_t)gnu_get_libc_version, &info) && info.dli_fname ? info.dli_fname
                                                                                    : "libc.so.6";
}

static int add_allocators(struct sampler *s, const struct kind *kind, uint32_t source)
{
    const char *file = strcmp(kind->file, "libc") == 0 ? own_libc() : kind->file;
    int first = 0;
    for (size_t i = 0; i < ARRAY_LEN(allocators); i++) {
        int r = add_probe(s, file, allocators[i].symbol, (uint64_t)allocators[i].weight << 8 | source);
        first = i == 0 ? r : first;
    }
    return first; /* without malloc it is no allocator */
}

static int attach_probes(struct sampler *s)
{
    for (uint32_t i = SAMPLE_FROM_OTHERS; i < SAMPLE_SOURCES; i++) {
        const struct kind *kind = &s->options.kinds->at[i];
        int r = kind->how == KIND_PROBE   ? add_probe(s, kind->file, kind->symbol, i)
                : kind->how == KIND_ALLOC ? add_allocators(s, kind, i)
                                          : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int attach_one(struct bpf_program *program, struct bpf_link **link)
{
    if (bpf_program__fd(program) < 0)
        return 0; /* not loaded */
    *link = bpf_program__attach(program);
    return *link ? 0 : -errno;
}

static int attach_notices(struct sampler *s, const char **doing)
{
    *doing = "attaching to sched_process_exec, _fork and _exit";
    int r = attach_one(s->skel->progs.on_exec, &s->skel->links.on_exec);
    r = r < 0 ? r : attach_one(s->skel->progs.on_fork, &s->skel->links.on_fork);
    return r < 0 ? r : attach_one(s->skel->progs.on_exit, &s->skel->links.on_exit);
}

static int attach(struct sampler *s, const char **doing)
{
    *doing = "loading the BPF programs";
    int r = load(s);
    if (r < 0)
        return r;
    *doing = "reading the BPF ring buffer";
    s->ring = ring_buffer__new(bpf_map__fd(s->skel->maps.ring), on_record, s, NULL);
    s->wants = ring_buffer__new(bpf_map__fd(s->skel->maps.wants), on_want, s, NULL);
    if (!s->ring || !s->wants)
        return -errno;
    return attach_notices(s, doing);
}

static int start_waits(struct sampler *s, const char **doing)
{
    struct sample *k = s->skel;
    *doing = "attaching to sched_switch";
    int r = attach_one(k->progs.on_sched_exit, &k->links.on_sched_exit);
    r = r < 0 ? r : attach_one(k->progs.on_switch, &k->links.on_switch);
    if (r < 0)
        return r;
    *doing = "attaching to block_rq_insert, _issue and _complete";
    r = attach_one(k->progs.on_block_complete, &k->links.on_block_complete);
    r = r < 0 ? r : attach_one(k->progs.on_block_insert, &k->links.on_block_insert);
    r = r < 0 ? r : attach_one(k->progs.on_block_issue, &k->links.on_block_issue);
    if (r < 0)
        return r;
    *doing = "attaching to sys_enter and sys_exit";
    r = attach_one(k->progs.on_lock_exit, &k->links.on_lock_exit);
    return r < 0 ? r : attach_one(k->progs.on_lock_enter, &k->links.on_lock_enter);
}

static int start(struct sampler *s, const char **doing)
{
    struct cpus online;
    int r = start_waits(s, doing);
    if (r < 0)
        return r;
    *doing = REFUSAL_PROBES;
    r = attach_probes(s);
    if (r < 0)
        return r;
    *doing = has_kind(s, KIND_EVENT) ? "opening clock and counters on each CPU"
                                     : "opening a clock event on each CPU";
    r = cpus_online(&online);
    if (r < 0)
        return r;
    r = open_clocks(s, &online);
    /* One CPU that cannot is none too few; a counter that no CPU has is a mistake of who asks for it. */
    for (uint32_t i = 0; r < 0 && i < SAMPLE_SOURCES; i++) {
        enum kind_how how = s->options.kinds->at[i].how;
        bool is_any = how != KIND_CLOCK && how != KIND_EVENT;
        for (uint32_t j = 0; j < s->n_clocks; j++)
            is_any |= s->clock[j].source == i;
        if (!is_any)
            return r;
    }
    return 0;
}

/* Takes one of the steps above and explains what refuses it. */
static int explained(struct sampler *s, int (*step)(struct sampler *, const char **), struct error *e)
{
    struct refusal_facts facts;
    const char *doing = "";
    *last_words = 0;
    libbpf_print_fn_t before = libbpf_set_print(keep_words);
    int r = step(s, &doing);
    libbpf_set_print(before);
    if (r >= 0)
        return 0;
    refusal_facts(&facts);
    refusal_explain(&facts, doing, r, last_words, e);
    return r == -ENOMEM ? r : SAMPLER_REFUSED;
}

int sampler_open(struct sampler **ret, const struct sampler_options *options,
                 const struct sampler_handler *handler, struct error *e)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, -ENOMEM, "out of memory");
    s->options = *options;
    s->handler = *handler;
    if (!s->options.kinds) {
        kinds_init(&s->only_clock, options->frequency);
        s->options.kinds = &s->only_clock;
    }
    int r = explained(s, attach, e);
    if (r != 0) {
        sampler_close(s);
        return r;
    }
    s->shards.outer_fd = bpf_map__fd(s->skel->maps.unwind_shards);
    s->shards.files_fd = bpf_map__fd(s->skel->maps.unwind_files);
    s->shards.generation = (volatile bpf_u64 *)&s->skel->bss->unwind_generation;
    s->shards.additions = (volatile bpf_u64 *)&s->skel->bss->unwind_additions;
    *ret = s;
    return 0;
}

int sampler_start(struct sampler *s, struct error *e)
{
    return explained(s, start, e);
}

void sampler_tables(struct sampler *s, struct tables_backend *ret)
{
    *ret = (struct tables_backend){.page = s->skel->bss->unwind_pages,
                                   .rule = (struct unwind_rule *)s->skel->bss->unwind_rules};
    shards_backend(&s->shards, ret);
}

int sampler_files_of(struct sampler *s, uint32_t pid,
                     bool (*file)(void *user, const struct sample_file *file), void *user)
{
    struct sample_file part[64];                             /* the kernel writes whole records */
    union bpf_iter_link_info whose = {.task = {.tid = pid}}; /* its first thread: all share one memory */
    LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &whose, .link_info_len = sizeof whose);
    struct bpf_link *link = bpf_program__attach_iter(s->skel->progs.dump_files, pid ? &options : NULL);
    if (!link)
        return -errno;
    autoclose int fd = bpf_iter_create(bpf_link__fd(link));
    bpf_link__destroy(link); /* the iterator holds the program */
    if (fd < 0)
        return fd;
    for (;;) {
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (size_t i = 0; i < (size_t)n / sizeof *part; i++)
            if (!file(user, &part[i]))
                return 0;
    }
}

int sampler_files(struct sampler *s, bool (*file)(void *user, const struct sample_file *file), void *user)
{
    return sampler_files_of(s, 0, file, user);
}

void sampler_stop(struct sampler *s)
{
    for (uint32_t i = 0; i < s->n_clocks; i++)
        close_clock(&s->clock[i]);
    s->n_clocks = 0;
    for (uint32_t i = 0; i < s->n_probes; i++)
        bpf_link__destroy(s->probe[i]);
    s->n_probes = 0;
    if (!s->skel)
        return;
    struct bpf_link **waits[] = {&s->skel->links.on_switch,         &s->skel->links.on_sched_exit,
                                 &s->skel->links.on_block_insert,   &s->skel->links.on_block_issue,
                                 &s->skel->links.on_block_complete, &s->skel->links.on_lock_enter,
                                 &s->skel->links.on_lock_exit};
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        bpf_link__destroy(*waits[i]);
        *waits[i] = NULL;
    }
}

struct sampler *sampler_close(struct sampler *s)
{
    if (!s)
        return NULL;
    sampler_stop(s);
    free(s->clock);
    ring_buffer__free(s->ring);
    ring_buffer__free(s->wants);
    shards_close(&s->shards);
    sample__destroy(s->skel);
    free(s);
    return NULL;
}

int sampler_fd(const struct sampler *s)
{
    return ring_buffer__epoll_fd(s->ring);
}

int sampler_drain(struct sampler *s)
{
    return ring_buffer__consume(s->ring);
}

int sampler_wants_fd(const struct sampler *s)
{
    return ring_buffer__epoll_fd(s->wants);
}

int sampler_wants(struct sampler *s, sampler_want_fn want, void *user)
{
    s->want = want;
    s->want_user = user;
    return ring_buffer__consume(s->wants);
}

/* Adds up what each CPU counted of waits. */
static void count_waits(const struct sampler *s, struct sampler_counts *counts)
{
    uint32_t zero = 0;
    int n = libbpf_num_possible_cpus();
    autofree struct sample_waits *each = n > 0 ? calloc((size_t)n, sizeof *each) : NULL;
    if (!each || bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.wait_counts), &zero, each) < 0)
        return;
    for (int i = 0; i < n; i++) {
        counts->waits += each[i].n;
        counts->waits_short += each[i].n_short;
        counts->wait_ns += each[i].ns;
    }
}

struct sampler_counts sampler_counts(const struct sampler *s)
{
    const volatile __typeof__(*s->skel->bss) *counted = s->skel->bss;
    struct sampler_counts counts = {
        .taken = counted->n_samples,
        .lost = counted->n_lost,
        .busy = counted->n_busy,
        .malformed = s->malformed,
        .exec_lost = counted->n_exec_lost,
        .walks = counted->n_walks,
        .locks = counted->n_locks,
        .locks_short = counted->n_locks_short,
    };
    for (uint32_t i = 0; i < UNWIND_ENDS; i++)
        counts.end[i] = counted->n_ends[i];
    if (has_kind(s, KIND_WAIT))
        count_waits(s, &counts);
    struct bpf_program *program;
    bpf_object__for_each_program(program, s->skel->obj)
    {
        struct bpf_prog_info info = {0};
        uint32_t size = sizeof info;
        int fd = bpf_program__fd(program);
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
            continue;
        counts.run_ns += info.run_time_ns;
        counts.runs += info.run_cnt;
    }
    return counts;
}
