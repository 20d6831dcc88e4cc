/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pprof was before it was protobuf, as pprof: the texts of Go's `debug=1` (goroutine, threadcreate,
 * heap, allocs, block, mutex), of gperftools (heap, growth, fragmentation, contentionz, threadz) with their
 * memory maps, of Java (heapz, contentionz) with their functions, and the binary CPU profile of either, in
 * either order of bytes, of 32 or 64 bits.
 *
 * They are read as google/pprof reads them (profile/legacy_profile.go at 1facf8f): addresses of callers are
 * those of the call, sampled heaps are scaled up, the frames of the profiler's own signal handler go.
 */
#ifndef PROTO_PPROF_LEGACY_H
#define PROTO_PPROF_LEGACY_H

#include <stdbool.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

/* Whether these bytes begin as one of them does. */
bool pprof_is_legacy(struct bytes body);

/* Appends the same as pprof, for pprof_read, to `out`. 0; PPROF_MALFORMED with *e, which says where; -ENOMEM
 * (memory, the budget), -ENOBUFS (out->max). On failure nothing is appended. */
int pprof_from_legacy(struct bytes body, struct budget *budget, struct buffer *out, struct error *e);

#endif
