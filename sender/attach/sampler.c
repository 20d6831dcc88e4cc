#include "sender/attach/sampler.h"

#include <errno.h>
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

/* The ring holds a quarter of a second of the deepest stacks we see in practice (~600 B), times four, and is
 * a power of two between these. A lost sample is counted, so a guess that is too small shows. */
#define RING_MIN (256u * 1024)
#define RING_MAX (16u * 1024 * 1024)

struct clock {
    uint32_t cpu;
    int fd; /* of the perf event */
    struct bpf_link *link;
};

struct sampler {
    struct sample *skel;
    struct ring_buffer *ring;
    struct sampler_options options;
    struct sampler_handler handler;
    struct clock *clock;
    uint32_t n_clocks, cap_clocks;
    uint64_t malformed;
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

static int open_clock(uint32_t cpu, uint32_t frequency)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .freq = 1,
        .sample_freq = frequency,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void close_clock(struct clock *c)
{
    bpf_link__destroy(c->link); /* closes the event's fd as well */
}

static int add_clock(struct sampler *s, uint32_t cpu)
{
    if (s->n_clocks == s->cap_clocks) {
        uint32_t cap = s->cap_clocks ? 2 * s->cap_clocks : 16;
        struct clock *more = realloc(s->clock, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        s->clock = more;
        s->cap_clocks = cap;
    }
    int fd = open_clock(cpu, s->options.frequency);
    if (fd < 0)
        return fd;
    struct bpf_link *link = bpf_program__attach_perf_event(s->skel->progs.on_tick, fd);
    if (!link) {
        int r = -errno;
        close(fd);
        return r;
    }
    s->clock[s->n_clocks++] = (struct clock){.cpu = cpu, .fd = fd, .link = link};
    return 0;
}

static bool is_sampled(const struct sampler *s, uint32_t cpu)
{
    for (uint32_t i = 0; i < s->n_clocks; i++)
        if (s->clock[i].cpu == cpu)
            return true;
    return false;
}

/* Opens what is online and not sampled yet. 0, or the last failure. */
static int open_clocks(struct sampler *s, const struct cpus *online)
{
    int failure = 0;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpus_has(online, cpu) || is_sampled(s, cpu))
            continue;
        int r = add_clock(s, cpu);
        if (r < 0 && r != -ENODEV) /* went offline in between */
            failure = r;
    }
    return failure;
}

uint32_t sampler_follow_cpus(struct sampler *s)
{
    struct cpus online;
    if (cpus_online(&online) < 0)
        return s->n_clocks;
    for (uint32_t i = 0; i < s->n_clocks;) {
        if (cpus_has(&online, s->clock[i].cpu)) {
            i++;
            continue;
        }
        close_clock(&s->clock[i]);
        s->clock[i] = s->clock[--s->n_clocks];
    }
    (void)open_clocks(s, &online); /* tried again next time */
    return s->n_clocks;
}

static uint32_t ring_size(uint32_t frequency)
{
    uint64_t want = (uint64_t)libbpf_num_possible_cpus() * frequency * 600;
    uint32_t size = RING_MIN;
    while (size < want && size < RING_MAX)
        size *= 2;
    return size;
}

static int load(struct sampler *s)
{
    s->skel = sample__open();
    if (!s->skel)
        return -errno;
    uint32_t size = ring_size(s->options.frequency);
    s->skel->rodata->with_idle = s->options.with_idle;
    s->skel->rodata->only_pid = s->options.only_pid;
    s->skel->rodata->ring_size = size;
    int r = bpf_map__set_max_entries(s->skel->maps.ring, size);
    return r < 0 ? r : sample__load(s->skel);
}

static int start(struct sampler *s, const char **doing)
{
    *doing = "loading the BPF programs";
    int r = load(s);
    if (r < 0)
        return r;
    *doing = "reading the BPF ring buffer";
    s->ring = ring_buffer__new(bpf_map__fd(s->skel->maps.ring), on_record, s, NULL);
    if (!s->ring)
        return -errno;
    *doing = "attaching to sched_process_exec";
    s->skel->links.on_exec = bpf_program__attach(s->skel->progs.on_exec);
    if (!s->skel->links.on_exec)
        return -errno;
    *doing = "opening a clock event on each CPU";
    struct cpus online;
    r = cpus_online(&online);
    if (r < 0)
        return r;
    r = open_clocks(s, &online);
    return s->n_clocks > 0 ? 0 : r < 0 ? r : -ENODEV;
}

int sampler_open(struct sampler **ret, const struct sampler_options *options,
                 const struct sampler_handler *handler, struct error *e)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, -ENOMEM, "out of memory");
    s->options = *options;
    s->handler = *handler;
    *last_words = 0;
    libbpf_print_fn_t before = libbpf_set_print(keep_words);
    const char *doing = "";
    int r = start(s, &doing);
    libbpf_set_print(before);
    if (r < 0) {
        struct refusal_facts facts;
        refusal_facts(&facts);
        refusal_explain(&facts, doing, r, last_words, e);
        sampler_close(s);
        return r == -ENOMEM ? r : SAMPLER_REFUSED;
    }
    *ret = s;
    return 0;
}

void sampler_stop(struct sampler *s)
{
    for (uint32_t i = 0; i < s->n_clocks; i++)
        close_clock(&s->clock[i]);
    s->n_clocks = 0;
}

struct sampler *sampler_close(struct sampler *s)
{
    if (!s)
        return NULL;
    sampler_stop(s);
    free(s->clock);
    ring_buffer__free(s->ring);
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

struct sampler_counts sampler_counts(const struct sampler *s)
{
    const volatile __typeof__(*s->skel->bss) *counted = s->skel->bss;
    return (struct sampler_counts){
        .taken = counted->n_samples,
        .lost = counted->n_lost + s->malformed,
        .exec_lost = counted->n_exec_lost,
    };
}
