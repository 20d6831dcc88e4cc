/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as `profgate top` says them to a person.
 */
#ifndef GATEWAY_TOP_WORDS_H
#define GATEWAY_TOP_WORDS_H

#include "gateway/top/page.h"

/* "0", "0.034", "1.25", "812", "14.2k", "3.1M". */
void top_number(double v, char text[16]);

/* "12 B", "41.2 MiB". */
void top_bytes(double v, char text[16]);

/* What an amount of a metric is in a row, where its unit stands in the heading: "1.25", "3.4 MiB". */
void top_amount(const struct top_metric *m, double amount, char text[16]);

/* What a metric is counted in, per second of a counter: "cores", "/s", "s/s", "". Time on a CPU per second is
 * cores; time spent waiting is not. */
const char *top_unit(const struct top_metric *m);

#endif
