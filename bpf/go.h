/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The labels of a goroutine, which runtime/pprof's Do and SetGoroutineLabels give it: where the kernel side
 * finds them, and as what it sends them.
 *
 * A thread knows its goroutine, or that of the scheduler or of signals, by a word in thread-local storage
 * (runtime/asm_amd64.s: get_tls); that one's m has the goroutine of the program that runs on it (curg), and
 * that its labels: since Go 1.24 a pointer to a slice of pairs of strings (runtime/pprof/label.go: LabelSet),
 * before to a map[string]string, both of which stay as they are once made. A map is buckets of eight
 * (runtime/map.go: hmap, bmap).
 */
#ifndef BPF_GO_H
#define BPF_GO_H

#include "bpf/context.h"
#include "bpf/runtimes.h"

/* Over runtime_place.word. Offsets are in bytes. */
struct go_place {
    bpf_s64 thread;  /* of the thread's goroutine, from the thread pointer */
    bpf_u32 m;       /* in a goroutine (struct g): its m, … */
    bpf_u32 current; /* … in an m: curg, … */
    bpf_u32 labels;  /* … in a goroutine: its labels */
    bpf_u32 is_map;
};

/* Labels looked at: two buckets of a map. */
#define GO_LABELS_MAX 16u
/* Of a key and of a value; what is longer is cut. */
#define GO_KEY_MAX   63u
#define GO_VALUE_MAX 127u

#define GO_ENTRY_MAX (2 + GO_KEY_MAX + GO_VALUE_MAX)

/* As a thread's context goes (bpf/context.h), with this where a record has valid = 1, no ids, and entries of
 * the lengths of key and value, a byte each, and both. */
#define GO_CONTEXT 2u

#define GO_MAP_BUCKETS_AT 16u
#define GO_BUCKET_SLOTS   8u
#define GO_BUCKET_KEYS    8u /* behind a byte a slot */
#define GO_BUCKET_VALUES  (GO_BUCKET_KEYS + GO_BUCKET_SLOTS * 16u)
#define GO_BUCKET_BYTES   (GO_BUCKET_VALUES + GO_BUCKET_SLOTS * 16u + 8u)
#define GO_SLOT_TAKEN     5u /* minTopHash: below, a slot is empty or moved */

#endif
