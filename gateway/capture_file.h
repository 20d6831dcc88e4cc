/*
 * Captured requests from disk: serialized ExportProfilesServiceRequest or ProfilesData, or OTLP/JSON, one
 * request or one a line; plain or gzip.
 */
#ifndef GATEWAY_CAPTURE_FILE_H
#define GATEWAY_CAPTURE_FILE_H

#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/otlp/profiles.h"

/* Reads a file and decodes its requests one after the other; `each` gets the view, which it may read until it
 * returns, and the request's number in the file, from 0. What it returns below 0 ends the reading. 0, or a
 * negative errno with *e set. */
int capture_file_read(const char *path,
                      int (*each)(void *context, const struct profiles *view, uint32_t request),
                      void *context, struct error *e);

#endif
