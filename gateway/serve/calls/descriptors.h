/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of the gRPC services we have: one google.protobuf.FileDescriptorSet, made of proto/schema
 * at build time (scripts/cmake/Descriptors.cmake) and embedded. Looked through on demand, field by field: ten
 * kilobytes need no index, and so nothing is made that could fail. Any thread.
 */
#ifndef GATEWAY_SERVE_CALLS_DESCRIPTORS_H
#define GATEWAY_SERVE_CALLS_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/wire/writer.h"

#define DESCRIPTORS_NONE (-1) /* no such file */

/* The index of the file with this name ("grpc/health/v1/health.proto"), or DESCRIPTORS_NONE. */
int descriptors_find_file(struct bytes name);

/* The index of the file that defines a fully qualified name (no dot before it): a message, enum, enum value,
 * field, oneof, service or method. *ret_is_message, if not NULL: whether it is a message. */
int descriptors_find_symbol(struct bytes symbol, bool *ret_is_message);

/* Writes the file and then everything it imports, directly or not, each once, as `field` of w. */
void descriptors_write(int file, struct wire_writer *w, uint32_t field);

/* Calls fn for each service, with its package and name, in the order of the files. */
void descriptors_services(void (*fn)(void *user, struct bytes package, struct bytes name), void *user);

#endif
