/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The YAML file of profsend: the same words as its command line.
 *
 *     endpoint: https://gateway:4317
 *     header: { authorization: "Bearer ${env:TOKEN}" }
 *     frequency: 97
 *     off-cpu: { min: 5ms, share: 10% }        # --off-cpu --off-cpu-min 5ms --off-cpu-share 10%
 *     include: [ user=www-data, executable=java ]
 *     relabel:
 *       - { source_labels: [service.name], regex: "test-.*", action: drop }
 */
#ifndef SENDER_OPTIONS_FILE_H
#define SENDER_OPTIONS_FILE_H

#include "proto/base/error.h"
#include "sender/options/values.h"

/* Reads it into the options, on top of what they are. 0; -EINVAL with *e for the user ("FILE:LINE: …");
 * -ENOMEM. */
int options_file_read(struct options *o, const char *path, char *(*getvar)(const char *), struct error *e);

#endif
