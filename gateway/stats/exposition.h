/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text (0.0.4) of our own numbers, one piece after the other:
 *
 *     struct exposition x = {.out = out};
 *     exposition_family(&x, "profgate_scrape_up", "gauge", "Whether the last scrape was counted");
 *     exposition_print(&x, "profgate_scrape_up{");
 *     exposition_label(&x, "job", job);
 *     exposition_print(&x, "} %u\n", is_up);
 *     return x.r;
 *
 * After the first failure nothing is written. Any thread.
 */
#ifndef GATEWAY_STATS_EXPOSITION_H
#define GATEWAY_STATS_EXPOSITION_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

struct exposition {
    struct buffer *out;
    int r; /* 0, or what buffer_add gave first */
};

/* What a family of series begins with. */
void exposition_family(struct exposition *x, const char *name, const char *type, const char *help);

/* A family of one series without labels. */
void exposition_number(struct exposition *x, const char *name, const char *type, const char *help,
                       uint64_t value);

/* NAME="TEXT", the text escaped. */
void exposition_label(struct exposition *x, const char *name, struct bytes text);

#define exposition_print(x, ...)                         \
    ({                                                   \
        struct exposition *x_ = (x);                     \
        if (x_->r == 0)                                  \
            x_->r = buffer_printf(x_->out, __VA_ARGS__); \
    })

/* Appends text with backslash and newline escaped; with `quotes`, for what stands in them (a label's value, a
 * name that needs them), the double quote, too: the same in text 0.0.4 ("Comments, help text, and type
 * information", "Escaping") and in OpenMetrics 1.0 (ABNF, escaped-string). 0 or a negative errno of
 * buffer_add. */
int exposition_escape(struct buffer *out, struct bytes text, bool quotes);

#endif
