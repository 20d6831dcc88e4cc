/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML file of settings: its maps, lists and texts, each with its place, so that an error says
 * FILE:LINE:COLUMN, the key, and what belongs there. libyaml builds the document; nobody else includes it.
 *
 * How deep a file goes its reader says by what he asks: section, object, nested key. Nothing recurses on it.
 * Texts are expanded: ${env:NAME} and ${env:NAME:-default}, as the Collector writes them, and $$ for $.
 */
#ifndef PROTO_BASE_SETTINGS_FILE_H
#define PROTO_BASE_SETTINGS_FILE_H

#include "proto/base/settings/settings.h"

#define SETTINGS_FILE_MAX (1u << 20) /* bytes: it is written by hand */

struct settings_file; /* with the document */
struct settings_node; /* of it: a text, a list or a map */

enum settings_shape { SETTINGS_IS_TEXT, SETTINGS_IS_LIST, SETTINGS_IS_MAP };

struct settings_options {
    struct arena *arena;           /* what is read is copied there, and outlives the file */
    char *(*getvar)(const char *); /* NULL: ${…} is an error whose text is `no_variables` */
    const char *no_variables;
    bool lines_only; /* errors name no column */
};

/* Reads a document. `name` is what errors call it. 0; -EINVAL with *e: it is no YAML, or too long; -ENOMEM.
 * *ret is for settings_file_close. */
int settings_file_parse(struct settings_file **ret, const char *name, struct bytes yaml,
                        const struct settings_options *options, struct error *e);

/* The same of what is at `path`; besides, the errno of reading it. */
int settings_file_open(struct settings_file **ret, const char *path, const struct settings_options *options,
                       struct error *e);

struct settings_file *settings_file_close(struct settings_file *f); /* NULL is fine; gives NULL */

/* The whole of it; NULL: the file is empty. */
const struct settings_node *settings_root(struct settings_file *f);

enum settings_shape settings_shape(const struct settings_node *n);

/* Whether it says nothing: ~, null, or nothing at all, unquoted. */
bool settings_is_null(const struct settings_node *n);

/* How many a list or a map has; the i-th of a list, and of a map its key and value. */
uint32_t settings_count(const struct settings_node *n);
const struct settings_node *settings_item(struct settings_file *f, const struct settings_node *list,
                                          uint32_t i);
const struct settings_node *settings_key(struct settings_file *f, const struct settings_node *map,
                                         uint32_t i);
const struct settings_node *settings_value(struct settings_file *f, const struct settings_node *map,
                                           uint32_t i);

struct settings_place {
    size_t line, column; /* from 1 */
};
struct settings_place settings_place(const struct settings_node *n);

/* The text, expanded; what is null is "". NULL with the error set, settings_failure: it is no text, or a
 * variable is missing, or memory. `key` is for the error. */
const char *settings_text(struct settings_file *f, const struct settings_node *n, const char *key);

/* Sets the error "FILE:LINE:COLUMN: KEY: what", KEY may be NULL. -EINVAL. */
int settings_fail(struct settings_file *f, const struct settings_node *at, const char *key, const char *what);
int settings_no_memory(struct settings_file *f);     /* -ENOMEM, said of the file */
int settings_failure(const struct settings_file *f); /* the last of these */

/* Sets a row's field from a node: a text, or a list or map where the row is one. */
int settings_take(struct settings_file *f, const struct settings_row *row, void *base,
                  const struct settings_node *n, const char *key);

/* Sets the fields that a map of the section's keys names; a map in it is the keys with that prefix. `where`
 * begins the keys in errors: "metrics". What has nothing in it is an empty map. 0, -EINVAL, -ENOMEM. */
int settings_take_map(struct settings_file *f, const struct settings_section *s, void *base,
                      const struct settings_node *map, const char *where);

#endif
