/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as `profgate top` says them to a person.
 */
#ifndef GATEWAY_TOP_WORDS_H
#define GATEWAY_TOP_WORDS_H

#include "gateway/top/parse.h"

/* "0", "0.034", "1.25", "812", "14.2k", "3.1M". */
void top_number(double v, char text[16]);

/* "12 B", "41.2 MiB". */
void top_bytes(double v, char text[16]);

/* "13s", "2m 5s", "3d 4h"; what is no duration is "0s". */
void top_duration(double seconds, char text[24]);

/* What a series of the family amounts to, per second of a counter: "1.25 cores", "3.4 MiB/s", "812/s". Time
 * on a CPU per second is cores; time spent waiting is not. */
void top_amount(const struct top_family *family, double amount, char text[32]);

#endif
