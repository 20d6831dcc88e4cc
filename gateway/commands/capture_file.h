/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured requests from disk: serialized ExportProfilesServiceRequest or ProfilesData, one or each behind
 * its length, or OTLP/JSON, one or one a line, as file exporters write them; or pprof, folded stacks, or what
 * `perf script` prints; plain, gzip or zstd.
 */
#ifndef GATEWAY_COMMANDS_CAPTURE_FILE_H
#define GATEWAY_COMMANDS_CAPTURE_FILE_H

#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/base/mapping.h"
#include "proto/otlp/view/profiles.h"

#define CAPTURE_MAX (1u << 30) /* bytes of one capture, plain */

struct capture_request {
    struct bytes body;           /* protobuf, with PROFILES_PADDING readable bytes behind it */
    enum profiles_layout layout; /* that it is known to have; UNKNOWN: that is to be found out */
    const char *place;           /* "FILE", "FILE:LINE" of JSON, or "FILE: request NUMBER" */
    bool was_other, was_json;    /* it was made of pprof or of a text; of JSON */
    struct mapping *pages;       /* what body is of, or NULL: it may be given back */
    bool was_kept;               /* it was in a pprof (proto/convert/original.h), which is was_other, too */
};

/* Reads a file, "-" being standard input, and hands over its requests one after the other, valid until `each`
 * returns; what that returns below 0 ends the reading. 0, or a negative errno with *e set. */
int capture_file_requests(const char *path, int (*each)(void *context, const struct capture_request *request),
                          void *context, struct error *e);

/* The same, but what is made of a pprof is not handed over: its bytes come in pieces, one after the other, so
 * that they never stand in memory whole; the first when the file is known to be good. */
int capture_file_pieces(const char *path, int (*each)(void *context, const struct capture_request *request),
                        int (*put)(void *context, struct bytes piece), void *context, struct error *e);

/* The same as capture_file_requests, and decodes them; `each` gets the view, which it may read until it
 * returns, and the request's number in the file, from 0. What it returns below 0 ends the reading. 0, or a
 * negative errno with *e set. */
int capture_file_read(const char *path,
                      int (*each)(void *context, const struct profiles *view, uint32_t request),
                      void *context, struct error *e);

#endif
