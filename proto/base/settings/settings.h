/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings as rows of a table: what each is called, where its value goes, what it may be, what it means. One
 * row is the source of the YAML key (file.h), the flag (flags.h) and the environment variable, of every error
 * about it, of the reference, and of what is printed as in force.
 *
 * A section is the rows of one struct, which its owner defines beside them. Whoever has settings of his own
 * (an exporter, say) brings a section; who reads a file is given sections and knows what none of them means.
 *
 *     static const struct settings_word versions[] = {{"1.2", TLS_1_2}, {"1.3", TLS_1_3}, {NULL}};
 *     static const struct settings_row rows[] = {
 *         {"ca_file", SETTINGS_TEXT, AT(ca_file), "", .doc = "PEM; default is the system's store"},
 *         {"min_version", SETTINGS_CHOICE, AT(min_version), "1.2", .words = versions, .doc = "oldest taken"},
 *     };
 */
#ifndef PROTO_BASE_SETTINGS_SETTINGS_H
#define PROTO_BASE_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

/* The field's type, and how a value is written. */
enum settings_type {
    SETTINGS_TEXT,     /* const char *; "" is NULL where the row has a default */
    SETTINGS_BOOL,     /* bool: true, false; as a flag without a metavar, nothing is true */
    SETTINGS_COUNT,    /* uint32_t */
    SETTINGS_SIZE,     /* uint64_t bytes: 64MiB */
    SETTINGS_DURATION, /* uint64_t ns: 30s */
    SETTINGS_SHARE,    /* double in 0 … 1: 1% */
    SETTINGS_FACTOR,   /* double: 1.5 */
    SETTINGS_CHOICE,   /* int, or an enum of its size: what row.words says of the word */
    SETTINGS_STRINGS,  /* struct settings_strings: a list, or one text with commas */
    SETTINGS_REPEATED, /* struct settings_strings: each time it is said is one more, commas and all */
    SETTINGS_PAIRS,    /* struct settings_pairs: a map of texts, or NAME=VALUE with commas */
    SETTINGS_OWN,      /* what row.set makes of it; cannot be printed */
};

struct settings_strings {
    const char **items;
    uint32_t n;
};

struct settings_pair {
    const char *name, *value;
};

struct settings_pairs {
    struct settings_pair *items;
    uint32_t n;
};

struct settings_word {
    const char *word; /* NULL ends a list of them */
    int value;
};

struct settings_row {
    const char *key; /* in a file the dots open maps: "tls.ca_file". NULL: only the variable says it */
    enum settings_type type;
    size_t offset;        /* of the field in the section's struct */
    const char *fallback; /* the default as it would be written, lists with commas; NULL: none is set */
    uint64_t min, max;    /* COUNT, SIZE, DURATION, FACTOR, how many REPEATED; max 0: no bound */
    const struct settings_word *words; /* CHOICE; the order is that of the reference */
    const char *doc;                   /* one line: what it means */
    bool live;                         /* takes effect in the running program; else a restart does */
    const char *metavar;               /* what --help calls the value; NULL: the flag takes none */
    const char *variable;              /* of the environment, that says the same */
    bool secret;                       /* the values of PAIRS, or a TEXT: for nobody's eyes */
    const char *want; /* a wrong value is told as "VALUE" is not WANT; NULL: the type's own words */
    /* OWN: takes the value (NULL: a flag without one). 0, -ENOMEM, or -EINVAL with *e. */
    int (*set)(void *base, const char *value, struct arena *arena, struct error *e);
};

struct settings_section {
    const char *name; /* "metrics": the key of its map */
    const char *doc;
    const struct settings_row *rows;
    uint32_t n_rows;
};

/* In all of these `base` is the struct whose offsets the rows have, and what a value needs to be kept is
 * copied into `arena`. Without one (NULL) single texts stay where they are, as argv's may. */

/* Parses the value into the row's field. 0; -EINVAL with *e saying what it may be; -ENOMEM, told likewise. */
int settings_set(const struct settings_row *row, void *base, const char *value, struct arena *arena,
                 struct error *e);

/* Every field that has a default gets it. 0 or -ENOMEM. */
int settings_defaults(const struct settings_section *s, void *base, struct arena *arena);

/* Every variable that is set and not empty, rows in order: of two for one field the later counts. `getvar` is
 * getenv, or a test's. As settings_set; *e names the variable. */
int settings_environment(const struct settings_section *s, void *base, char *(*getvar)(const char *),
                         struct arena *arena, struct error *e);

/* The row of that key, or NULL. */
const struct settings_row *settings_find(const struct settings_section *s, struct bytes key);

/* Appends the field's value as YAML flow text, which reads back to the same unless it is masked. 0 or
 * -ENOMEM. */
int settings_print_value(const struct settings_row *row, const void *base, bool masked, struct buffer *out);

/* What stands for a secret. */
#define SETTINGS_MASK "[REDACTED]"

/* Appends the section's map as YAML in the order of the rows, each line indented by so many blanks; with
 * `item`, as one item of a list, of which the dash stands two blanks before; with `masked`, without secrets.
 * 0 or -ENOMEM. */
int settings_print(const struct settings_section *s, const void *base, int indent, bool item, bool masked,
                   struct buffer *out);

/* Appends the section for a reference: its name, then each key with what it may be, its default and its
 * meaning. 0 or -ENOMEM. */
int settings_reference(const struct settings_section *s, struct buffer *out);

#endif
