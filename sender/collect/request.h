/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A settled window as OTLP profiles: one resource a process, in it a profile for each kind of samples, stacks
 * leaf first with the kernel's frames before the user's. Shapes and attributes follow what
 * opentelemetry-ebpf-profiler sends, so that whatever reads its profiles reads ours, and names native frames
 * besides.
 */
#ifndef SENDER_COLLECT_REQUEST_H
#define SENDER_COLLECT_REQUEST_H

#include <stdint.h>

#include "proto/otlp/write/build.h"
#include "sender/collect/naming.h"
#include "sender/collect/request_facts.h"

/* gRPC servers refuse above 4 MiB unless told otherwise (grpc-go, grpc-core: 4194304). */
#define REQUEST_BYTES_MAX (3u << 20)

/* Takes one finished request: the bytes in *out (take them with buffer_take, or leave them to be freed) and
 * the samples (hits) in it. 0, or negative to stop. */
typedef int (*request_emit_fn)(void *user, struct buffer *out, uint64_t hits);

/* Builds as many requests as the window needs, none for an empty one. 0, -ENOMEM, or what emit said. */
int request_build(struct build *b, const struct naming *n, const struct window *w,
                  const struct request_facts *facts, request_emit_fn emit, void *user);

/* The hex gnu build id in the bytes of /sys/kernel/notes. Its length, 0 if there is none. */
size_t request_kernel_build_id(struct bytes notes, char *ret, size_t room);

#endif
