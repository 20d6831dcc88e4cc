/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pprof's own fields are called as attributes: semantic-conventions 384d661,
 * docs/registry/attributes/pprof.md and process.md; escaped_strings, time_nanos and
 * duration_nanos are ours.
 */
#ifndef PROTO_CONVERT_NAMES_H
#define PROTO_CONVERT_NAMES_H

#include "proto/base/bytes.h"

#define NAME_COMMENT           "pprof.profile.comment"
#define NAME_DOC_URL           "pprof.profile.doc_url"
#define NAME_DROP_FRAMES       "pprof.profile.drop_frames"
#define NAME_KEEP_FRAMES       "pprof.profile.keep_frames"
#define NAME_TIME              "pprof.profile.time_nanos"
#define NAME_DURATION          "pprof.profile.duration_nanos"
#define NAME_DEFAULT_TYPE      "pprof.scope.default_sample_type"
#define NAME_TYPE_ORDER        "pprof.scope.sample_type_order"
#define NAME_ESCAPED           "pprof.scope.escaped_strings"
#define NAME_HAS_FUNCTIONS     "pprof.mapping.has_functions"
#define NAME_HAS_FILENAMES     "pprof.mapping.has_filenames"
#define NAME_HAS_LINE_NUMBERS  "pprof.mapping.has_line_numbers"
#define NAME_HAS_INLINE_FRAMES "pprof.mapping.has_inline_frames"
#define NAME_IS_FOLDED         "pprof.location.is_folded"
#define NAME_FRAME_TYPE        "profile.frame.type"
#define NAME_BUILD_ID          "process.executable.build_id.gnu"

/* Labels by which Pyroscope's clients and its own conversion name a span. */
#define LABEL_TRACE_ID "trace_id"
#define LABEL_SPAN_ID  "span_id"

/* Whether what is mapped is a file with code: not what is named for want of one, as code made at run time and
 * memory that is nobody's are. */
static inline bool mapping_is_code(struct bytes file)
{
    struct bytes base = bytes_after_last(file, '/');
    bool is_made = file.n == 0 || file.p[0] == '[' || bytes_starts(base, "perf-") ||
                   bytes_starts(base, "jitted-") || bytes_starts(file, "//anon") ||
                   bytes_starts(file, "/memfd:") || bytes_starts(file, "/dev/zero");
    return !is_made || bytes_is(file, "[vdso]");
}

/* Of a number among several with different units. */
#define NAME_NUMBER "number"
#define NAME_UNIT   "unit"

/* "_[k]" at the end of a folded frame, which flamegraph.pl colours by: k of the kernel, j compiled at run
 * time, i inlined, w of who wakes. The letter, or 0. */
#define FOLDED_MARK_BYTES 4u
static inline char folded_mark(struct bytes frame)
{
    const uint8_t *at = frame.n > FOLDED_MARK_BYTES ? frame.p + frame.n - FOLDED_MARK_BYTES : NULL;
    bool is_mark = at && at[0] == '_' && at[1] == '[' && at[3] == ']' &&
                   (at[2] == 'k' || at[2] == 'j' || at[2] == 'i' || at[2] == 'w');
    return is_mark ? (char)at[2] : 0;
}

#endif
