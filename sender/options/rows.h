/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of profsend's options, between the table (rows.c) and those who read it (options.c).
 */
#ifndef SENDER_OPTIONS_ROWS_H
#define SENDER_OPTIONS_ROWS_H

#include <stddef.h>

#include "sender/options/options.h"

/* One option: a flag, or an environment variable, or both. A variable of the signal goes before that of all
 * signals (OTLP exporter specification), which is why it stands behind it here: the later row wins. */
struct options_row {
    const char *flag, *variable;
    const char *argument;                                              /* NULL: a switch */
    int (*set)(struct options *o, const char *value, struct error *e); /* 0, -EINVAL or -ENOMEM */
    const char *help;                                                  /* NULL where there is no flag */
    bool is_of_command; /* --help, --version, --config: not for a file */
};

extern const struct options_row options_row[];
extern const size_t options_rows;

#endif
