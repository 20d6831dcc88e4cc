/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One key of the configuration as a row of a table: where its value goes, what it may be, what it means.
 * Whoever has keys of his own (gateway/export's kinds) brings rows for them; config reads, prints and
 * explains them alike.
 */
#ifndef GATEWAY_CONFIG_ROW_H
#define GATEWAY_CONFIG_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

struct config_strings {
    const char **items;
    uint32_t n;
};

struct config_pair {
    const char *name, *value;
};

struct config_pairs {
    struct config_pair *items;
    uint32_t n;
};

enum config_type {
    CONFIG_TEXT,     /* const char *; "" is NULL */
    CONFIG_BOOL,     /* bool */
    CONFIG_COUNT,    /* uint32_t */
    CONFIG_SIZE,     /* uint64_t bytes: 64MiB */
    CONFIG_DURATION, /* uint64_t ns: 30s */
    CONFIG_SHARE,    /* double in 0 … 1: 1% */
    CONFIG_CHOICE,   /* an enum: which of row.choices, from 0 */
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
    const char *name; /* "metrics"; "exporters.otlp/NAME" for the objects called otlp and otlp/NAME */
    const char *doc;
    const struct config_row *rows;
    uint32_t n_rows;
};

/* What an object may be named for: metrics.exporters, profiles.exporters. */
enum config_takes { CONFIG_TAKES_METRICS = 1, CONFIG_TAKES_PROFILES = 2 };

/* A kind of exporter as the configuration sees it: objects called TYPE or TYPE/NAME with keys of their own.
 */
struct config_kind {
    const char *type; /* "otlp" */
    struct config_section section;
    size_t size;    /* of the struct that the rows fill */
    unsigned takes; /* enum config_takes */
    /* What only all keys together can tell, of the object of that name. 0, or -EINVAL with *e. May be NULL.
     */
    int (*check)(const char *name, const void *settings, struct error *e);
};

#endif
