/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sender/attach/parts.h"
#include "sender/attach/sampler.h"

enum { CPU_OFFLINE = 1 }; /* it went in between */

/* 0 and the event; CPU_OFFLINE; or -errno. */
static int open_clock(const struct kind *kind, uint32_t frequency, uint32_t cpu, int *ret_fd)
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
    if (fd < 0)
        return errno == ENODEV ? CPU_OFFLINE : -errno;
    *ret_fd = fd;
    return 0;
}

static void close_clock(struct clock *c)
{
    bpf_link__destroy(c->link); /* closes the event's fd as well */
}

void clocks_close(struct sampler *s)
{
    for (uint32_t i = 0; i < s->clocks.n; i++)
        close_clock(&s->clocks.p[i]);
    vec_clear(&s->clocks);
}

/* Opens and attaches one. As open_clock. */
static int add_clock(struct sampler *s, uint32_t source, uint32_t cpu)
{
    const struct kind *kind = &s->options.kinds->at[source];
    if (vec_reserve(&s->clocks, (uint64_t)s->clocks.n + 1) < 0)
        return -ENOMEM;
    int fd = -1, r = open_clock(kind, s->options.frequency, cpu, &fd);
    if (r != 0)
        return r;
    LIBBPF_OPTS(bpf_perf_event_opts, options, .bpf_cookie = s->options.features.cookies ? source : 0);
    struct bpf_program *program = kind->how == KIND_EVENT ? s->skel->progs.on_event : s->skel->progs.on_tick;
    struct bpf_link *link = bpf_program__attach_perf_event_opts(program, fd, &options);
    if (!link) {
        r = -errno;
        close(fd);
        return r;
    }
    (void)vec_append(&s->clocks, (struct clock){.cpu = cpu, .source = source, .fd = fd, .link = link});
    return 0;
}

static bool is_sampled(const struct sampler *s, uint32_t source, uint32_t cpu)
{
    for (uint32_t i = 0; i < s->clocks.n; i++)
        if (s->clocks.p[i].cpu == cpu && s->clocks.p[i].source == source)
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
        if (r < 0)
            failure = r;
    }
    return failure;
}

int clocks_open(struct sampler *s, const struct cpus *online)
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
    for (uint32_t i = 0; i < s->clocks.n; i++)
        n += s->clocks.p[i].source == s->clocks.p[0].source;
    return n;
}

uint32_t sampler_follow_cpus(struct sampler *s)
{
    struct cpus online;
    if (cpus_online(&online) < 0)
        return count_cpus(s);
    for (uint32_t i = 0; i < s->clocks.n;) {
        if (cpus_has(&online, s->clocks.p[i].cpu)) {
            i++;
            continue;
        }
        close_clock(&s->clocks.p[i]);
        s->clocks.p[i] = vec_pop(&s->clocks);
    }
    (void)clocks_open(s, &online); /* tried again next time */
    return count_cpus(s);
}
