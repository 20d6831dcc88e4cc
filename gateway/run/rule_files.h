/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule files from disk and from the program itself, compiled and lowered: what `serve` and `count` count
 * with.
 */
#ifndef GATEWAY_RUN_RULE_FILES_H
#define GATEWAY_RUN_RULE_FILES_H

#include <stdint.h>

#include "gateway/config/config.h"
#include "proto/base/error.h"
#include "rules/compile.h"
#include "rules/program/program.h"

struct rule_files {
    struct rule_set *set;
    struct rules_program *program;
    uint32_t n_warnings; /* that were shown: of what is without effect */
};

/* One rule file's bytes, RULES_FILE_MAX at most, the caller's to free. NULL with *e set. */
char *rule_file_read(const char *path, size_t *ret_n, struct error *e);

/* Whoever wants to hear of all that rules.builtin, rules.files and rules.enable name wrongly, each with its
 * key
 * ("rules.enable[1]") rather than its place. */
struct rule_files_listener {
    void (*tell)(void *user, const char *key, const char *text);
    void *user;
};

/* Loads every shipped pack, then the files (a * in the last part of a path matches), then what the
 * configuration switches on and off. Diagnostics of files go to stderr as they are. 0, or a negative errno
 * with *e set: the first thing that the configuration names wrongly, with its place there (config_place); *e
 * stays as it is where all that is wrong was told `to` (NULL: nobody). */
int rule_files_load(struct rule_files *ret, const struct config *config, const struct rule_files_listener *to,
                    struct error *e);

/* Tells each pattern of rules.files that matches no file, by its number: nothing is wrong with it, but nobody
 * means it. */
void rule_files_unmatched(const struct config *config,
                          void (*tell)(void *user, uint32_t i, const char *pattern), void *user);

void rule_files_release(struct rule_files *f);

#endif
