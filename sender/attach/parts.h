/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler as its files share it: sampler.c (life, what comes out), places.c (what is known of processes),
 * programs.c (which BPF programs, with
 * what constants and how large maps), clocks.c (an event on each CPU), probes.c (functions).
 */
#ifndef SENDER_ATTACH_PARTS_H
#define SENDER_ATTACH_PARTS_H

#include <pthread.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "proto/base/buffer.h"
#include "proto/base/vec.h"
#include "sender/attach/cpus.h"
#include "sender/attach/options.h"
#include "sender/attach/record.h"
#include "sender/attach/shards.h"

#include "sample.skel.h" /* wants the types of the above */

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
    const struct sampler_asked *asked; /* who takes the wants, while sampler_wants runs */
    struct bytes rests; /* the kernel side's memory, from the first_rest-th on; .n 0: not mapped */
    uint32_t n_rests, first_rest;
    struct buffer returned; /* stacks that were walked to their end: lengths and records */
    int returned_fd;        /* readable when some should be taken at once */
    pthread_mutex_t lock;   /* of `returned` */
    struct sampler_options options;
    struct sampler_handler handler;
    char refused[96];         /* what was being done when a counter could not be opened */
    struct kinds only_clock;  /* options.kinds where there are none */
    VEC(struct clock) clocks; /* also the counters of KIND_EVENT */
    struct bpf_link *probe[PROBES_MAX];
    uint32_t n_probes;
    uint64_t malformed;
    uint64_t places_refused; /* any thread's */
    struct shards shards;
};

/* Whether samples of this kind are asked for. */
static inline bool sampler_has(const struct sampler *s, enum kind_how how)
{
    for (uint32_t i = 0; i < SAMPLE_SOURCES; i++)
        if (s->options.kinds->at[i].how == how)
            return true;
    return false;
}

/* Opens and loads the BPF object: only what these kinds need. 0 or a negative errno; libbpf has said more. */
int programs_load(struct sampler *s);

/* Forgets what libbpf complained of so far. */
void sampler_forget_words(void);

/* An event on each CPU that is online and has none yet, for each kind that has one. 0, or the last failure.
 */
int clocks_open(struct sampler *s, const struct cpus *online);
void clocks_close(struct sampler *s);

/* Attaches to the functions that kinds name. 0 or a negative errno. */
int probes_attach(struct sampler *s);
void probes_detach(struct sampler *s);

#endif
