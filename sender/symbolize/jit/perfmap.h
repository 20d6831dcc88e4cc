/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of generated code: /tmp/perf-PID.map, which a JIT writes for perf: lines of "START SIZE name",
 * hexadecimal (linux tools/perf/Documentation/jit-interface.txt). Node (--perf-basic-prof), CPython (-X
 * perf), .NET, LuaJIT and Java agents write it.
 *
 * The file grows for as long as the process runs, so it is not held: one pass answers all addresses asked
 * for.
 */
#ifndef SENDER_SYMBOLIZE_JIT_PERFMAP_H
#define SENDER_SYMBOLIZE_JIT_PERFMAP_H

#include <stdint.h>

#include "proto/base/arena.h"
#include "sender/symbolize/elf/source.h"

/* As much of the file as is read. Node writes some 5 MB in an hour; the newest lines, at the end, are the
 * valid ones. */
#define PERFMAP_BYTES_MAX (64u << 20)
#define PERFMAP_LINE_MAX  2048u /* a longer line's name is cut */
/* To look at a byte costs so many times what to read it does (allowance.h): lines are parsed. */
#define PERFMAP_WORK 4

struct perfmap_answer {
    uint64_t address;  /* asked for; in the process */
    struct bytes name; /* .p NULL: no line covers it. In the arena. */
    uint64_t name_at;  /* private: where in the file; and how long */
    uint32_t name_n;
};

/* Answers n addresses, sorted ascending. A later line wins: code is moved and memory used again. Only the
 * names of answers take memory. 0; -EDQUOT: the source's allowance ended before the file did, and there are
 * no answers; or -ENOMEM. */
int perfmap_search(const struct source *s, struct perfmap_answer *answers, uint32_t n, struct arena *names);

/* profile.frame.type of generated code, from how its JIT writes names: "v8js", "cpython", "jvm", or "native".
 */
const char *perfmap_frame_type(struct bytes name);

#endif
