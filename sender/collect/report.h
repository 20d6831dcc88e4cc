/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A settled window as text for a person: which processes ran, in which functions, and their heaviest stack.
 */
#ifndef SENDER_COLLECT_REPORT_H
#define SENDER_COLLECT_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "sender/attach/kinds.h"
#include "sender/collect/naming.h"

#define REPORT_FUNCTIONS 8u  /* shown of a process */
#define REPORT_PROCESSES 20u /* shown of a window */

/* Writes it, kind by kind. Hits of the clock become a share of one CPU by `seconds`. 0, -ENOMEM, or -EIO. */
int report_write(FILE *to, const struct naming *n, const struct window *w, double seconds,
                 const struct kinds *kinds);

#endif
