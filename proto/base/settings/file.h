/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML file of settings: its maps, lists and texts, each with its place, so that an error says
 * FILE:LINE:COLUMN, the key, and what belongs there. libyaml builds the document, without recursion; how deep
 * it is read, its reader says by what he asks for.
 *
 * Texts are expanded: ${env:NAME} and ${env:NAME:-default}, as the Collector writes them, and $$ for $. A
 * variable that is empty is none, as in a shell: refused by the first, the default by the second.
 */
#ifndef PROTO_BASE_SETTINGS_FILE_H
#define PROTO_BASE_SETTINGS_FILE_H

#include "proto/base/settings/settings.h"

#define SETTINGS_FILE_MAX  (1u << 20) /* bytes: it is written by hand */
#define SETTINGS_DEPTH_MAX 32u        /* lists and maps in each other; ours are six */

struct settings_file; /* open */
struct settings_node; /* a text, a list or a map in it; lasts as long */

struct settings_file_options {
    struct arena *arena;           /* texts are copied there: they outlive the file */
    char *(*getvar)(const char *); /* getenv, or a test's; NULL: ${…} is an error, which is told as… */
    const char *no_variables;
    bool lines_only; /* errors name the line without the column */
    const struct settings_section
        *sections; /* all of the file, for proposals; ends with a NULL name. NULL: none */
    /* NULL: reading ends with the first error. Else each is told, and who reads goes on (settings_go_on). */
    void (*tell)(void *user, const char *text);
    void *user;
};

/* Makes *ret of a YAML document, which errors call `name`. 0; -EINVAL with *e: it is none, longer than
 * SETTINGS_FILE_MAX, nested deeper than SETTINGS_DEPTH_MAX, has a key twice in one map, or a second document
 * behind it; -ENOMEM. `e` is also where all that follows tells its errors. */
int settings_file_open(struct settings_file **ret, const char *name, struct bytes yaml,
                       const struct settings_file_options *options, struct error *e);

struct settings_file *settings_file_close(struct settings_file *f); /* NULL is fine; returns NULL */

/* The keys of any section that are called so, or nearly: "look.memory or limits.memory"; "" if none is. */
struct settings_key_name {
    char s[96];
};
struct settings_key_name settings_key_meant(const struct settings_section *sections, const char *key);

/* ---- what is in it */

/* The whole of it; NULL: the file is empty. */
const struct settings_node *settings_root(struct settings_file *f);

enum settings_shape { SETTINGS_SCALAR, SETTINGS_LIST, SETTINGS_MAP };
bool settings_is(const struct settings_node *n, enum settings_shape shape);

/* Whether it is this word, without quotes; whether it says nothing: ~, null or empty, without quotes. */
bool settings_is_word(const struct settings_node *n, const char *word);
bool settings_is_null(const struct settings_node *n);

/* Of a list or a map: how many; and the i-th of a list, or its key and its value. */
uint32_t settings_count(const struct settings_node *n);
const struct settings_node *settings_item(struct settings_file *f, const struct settings_node *list,
                                          uint32_t i);
const struct settings_node *settings_key(struct settings_file *f, const struct settings_node *map,
                                         uint32_t i);
const struct settings_node *settings_value(struct settings_file *f, const struct settings_node *map,
                                           uint32_t i);

/* What stands at a path ("exporters.otlp/a.tls.ca_file", "receivers.otlp[1].endpoint"), or the last thing on
 * the way to it that is there. NULL: the file is empty. */
const struct settings_node *settings_seek(struct settings_file *f, const char *path);

struct settings_place {
    size_t line, column; /* from 1 */
};
struct settings_place settings_place(const struct settings_node *n);

/* ---- what it says */

/* A text, expanded; "" for null. NULL: it is no text, has a NUL byte, a variable is missing, or memory is
 * out: then settings_failure says which. `key` is for the error. */
const char *settings_text(struct settings_file *f, const struct settings_node *n, const char *key);

/* Sets the fields that the map names, of which maps in it are those with their key before a dot. Errors call
 * a key WHERE.KEY. Null is an empty map. 0, -EINVAL, -ENOMEM. */
int settings_take_map(struct settings_file *f, const struct settings_section *s, void *base,
                      const struct settings_node *map, const char *where);

/* ---- errors */

/* Sets "FILE:LINE:COLUMN: KEY: what"; without KEY if it is "". -EINVAL. */
int settings_fail(struct settings_file *f, const struct settings_node *at, const char *key, const char *what);

/* The same of a failure, r less than 0, that had words of its own. Returns r. */
int settings_fail_why(struct settings_file *f, const struct settings_node *at, const char *key, int r,
                      const struct error *why);

/* Sets that memory is out, of which the file is innocent. -ENOMEM. */
int settings_no_memory(struct settings_file *f);

/* What the last of all these returned that was less than 0; 0: nothing failed. */
int settings_failure(const struct settings_file *f);

/* What a loop over keys goes on with after the result r of one: 0 where the error was told and others may
 * follow, else r. */
int settings_go_on(const struct settings_file *f, int r);

#endif
