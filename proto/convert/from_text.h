/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that people have as text, as an OTLP request: a profile for each kind of event, samples of one stack
 * and one set of attributes added up. README.md says what each part of a line becomes.
 *
 * Folded: a line a stack, "root;caller;leaf COUNT", as stackcollapse-*.pl writes and flamegraph.pl reads it
 * (brendangregg/FlameGraph 41fee1f); two counts in each line are what difffolded.pl writes, before and after.
 * Lines: the same without counts (Pyroscope's `format=lines`). perf script: what Linux' `perf script` prints,
 * with its fields in their order, whichever of them -F left out.
 */
#ifndef PROTO_CONVERT_FROM_TEXT_H
#define PROTO_CONVERT_FROM_TEXT_H

#include "proto/base/buffer.h"
#include "proto/convert/text.h"

enum from_text_format { FROM_TEXT_NONE, FROM_TEXT_FOLDED, FROM_TEXT_LINES, FROM_TEXT_PERF_SCRIPT };

struct from_text; /* works through one text after the other */

/* Memory is charged to `budget` (may be NULL). NULL: there is none. */
struct from_text *from_text_new(struct budget *budget);
struct from_text *from_text_free(struct from_text *c); /* returns NULL */

/* Appends an ExportProfilesServiceRequest (1.10) to `out`, whose room is as from_pprof leaves it. `text` is
 * plain, and need not be UTF-8. 0; FROM_TEXT_MALFORMED with *e, which names the line; FROM_TEXT_TOO_LARGE:
 * longer than out->max; -ENOMEM (memory, the budget). On failure nothing is appended. */
int from_text(struct from_text *c, enum from_text_format format, struct bytes text,
              const struct from_text_options *options, struct buffer *out, struct error *e);

/* Without the byte order mark that some programs put before UTF-8; protobuf never begins so (a field of wire
 * type 7). */
struct bytes from_text_without_mark(struct bytes text);

/* What these bytes seem to be by the first of their lines; FROM_TEXT_NONE: no text. */
enum from_text_format from_text_guess(struct bytes body);

#endif
