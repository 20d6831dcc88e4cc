/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus text 0.0.4 as rows: what `profgate top` reads. The text comes from whatever answers at a URL, so
 * everything is bounded, and a line that cannot be read is left out rather than believed.
 */
#ifndef GATEWAY_TOP_PARSE_H
#define GATEWAY_TOP_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/intern.h"

#define TOP_TEXT_MAX     (64u << 20) /* one page: about half a million lines */
#define TOP_SAMPLES_MAX  500000u
#define TOP_FAMILIES_MAX 10000u
#define TOP_LABELS_MAX   64u /* labels of one sample looked at */

enum top_type { TOP_UNTYPED, TOP_COUNTER, TOP_GAUGE };

struct top_family {
    struct bytes name, help;
    enum top_type type;
};

struct top_sample {
    struct bytes key;    /* name and labels as they stand: equal keys, equal series */
    struct bytes labels; /* between the braces, read with top_label_next */
    uint32_t family;
    double value;
};

/* One page. Slices point into its own copy of the text. */
struct top_page {
    struct arena arena;
    struct intern names; /* of families, by number */
    struct top_family *families;
    uint32_t cap_families;
    struct top_sample *samples;
    uint32_t n_samples, cap_samples;
    uint32_t n_bad; /* lines left out */
};

/* Reads a page into *ret, which need not be initialised. 0; -E2BIG when a bound is passed; -ENOMEM. On
 * failure there is nothing to release. */
int top_page_read(struct bytes text, struct top_page *ret);

void top_page_release(struct top_page *page);

/* The sum of all samples of a name, or `absent`. */
double top_page_sum(const struct top_page *page, const char *name, double absent);

/* Moves on to the next label that has a value (an empty one is none to Prometheus), which still has its
 * escapes. False at the end. */
bool top_label_next(struct bytes *rest, struct bytes *ret_name, struct bytes *ret_value);

#endif
