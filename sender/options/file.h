/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The YAML file of profsend: the same words as its command line.
 *
 *     endpoint: https://gateway:4317
 *     header: { authorization: "Bearer ${env:TOKEN}" }
 *     frequency: 97
 *     off-cpu: { min: 5ms, share: 10% }        # --off-cpu --off-cpu-min 5ms --off-cpu-share 10%
 *     include: [ user=www-data, executable=java ]
 */
#ifndef SENDER_OPTIONS_FILE_H
#define SENDER_OPTIONS_FILE_H

#include "proto/base/arena.h"
#include "proto/base/error.h"

/* Takes one setting, as a flag would: "--NAME" and its value, NULL for a switch that is on. 0, or negative
 * with *e. */
typedef int (*options_file_fn)(void *user, const char *flag, const char *value, struct error *e);

/* Settings in a file, and its size. */
#define OPTIONS_FILE_BYTES (256u << 10)

/* Reads it and hands on every setting. Text is kept in `arena`. 0; -EINVAL with *e for the user ("FILE:LINE:
 * …"); -ENOMEM. */
int options_file_read(const char *path, struct arena *arena, char *(*getvar)(const char *),
                      options_file_fn fn, void *user, struct error *e);

#endif
