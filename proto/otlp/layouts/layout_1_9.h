/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of OTLP 1.10 for a reader of 1.9.
 *
 * The two differ in Sample alone (fields.def); and in the references to the string table that 1.10 added to
 * common.proto. Field numbers below 16 take one byte with their type, so no length changes and the bytes are
 * rewritten where they are.
 */
#ifndef PROTO_OTLP_LAYOUTS_LAYOUT_1_9_H
#define PROTO_OTLP_LAYOUTS_LAYOUT_1_9_H

#include <stddef.h>
#include <stdint.h>

/* Rewrites an ExportProfilesServiceRequest of n bytes in place. It must be without references (key_strindex,
 * string_value_strindex), as profiles_subset writes it. 0; -EINVAL: it is no such message, and part of it may
 * be rewritten. Linear, iterative, any thread. */
int profiles_to_1_9(uint8_t *p, size_t n);

#endif
