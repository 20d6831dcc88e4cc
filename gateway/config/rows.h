/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind config.h: one row a key. Private to gateway/config.
 */
#ifndef GATEWAY_CONFIG_ROWS_H
#define GATEWAY_CONFIG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/config/config.h"

enum config_type {
    CONFIG_TEXT,     /* const char *; "" is NULL */
    CONFIG_BOOL,     /* bool */
    CONFIG_COUNT,    /* uint32_t */
    CONFIG_SIZE,     /* uint64_t bytes: 64MiB */
    CONFIG_DURATION, /* uint64_t ns: 30s */
    CONFIG_SHARE,    /* double in 0 … 1: 1% */
    CONFIG_CHOICE,   /* const char *, one of row.choices */
    CONFIG_STRINGS,  /* struct config_strings: a list, or one text */
    CONFIG_PAIRS,    /* struct config_pairs: a map of texts */
};

struct config_row {
    const char *key; /* dotted path inside its section */
    enum config_type type;
    size_t offset;        /* in the section's struct */
    const char *fallback; /* as it would be written; lists: comma-separated */
    uint64_t min, max;    /* COUNT, SIZE, DURATION; 0,0: no bounds */
    const char *choices;  /* CHOICE: "grpc|http" */
    const char *doc;
    bool live; /* a reload changes it in the running gateway; else it needs a restart */
};

struct config_section {
    const char *name; /* "metrics"; "exporters.otlp" for the objects called otlp/NAME */
    const char *doc;
    const struct config_row *rows;
    uint32_t n_rows;
};

extern const struct config_section config_fixed[]; /* sections of struct config; ends with a NULL name */
extern const struct config_section config_receiver_section;

/* Of exporters of that type, which is one. */
const struct config_section *config_exporter_section(enum config_exporter_type type);

const char *config_type_name(enum config_type type);

#endif
