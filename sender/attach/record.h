/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records in the rings: checked, and handed on.
 */
#ifndef SENDER_ATTACH_RECORD_H
#define SENDER_ATTACH_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpf/sample.h"
#include "proto/base/bytes.h"

/* One frame of a stack, 0 … n_kernel + n_user - 1, leaf first, the kernel's before the user's. `body` is what
 * is behind the head: SAMPLE_BODY_BYTES of it. */
static inline struct sample_frame record_frame(const struct sample_head *head, const uint64_t *body,
                                               uint32_t i)
{
    struct sample_frame frame = {.kind = SAMPLE_FRAME_KERNEL};
    if (i >= head->n_kernel) {
        frame.kind = SAMPLE_FRAME_CODE;
        if (!(head->flags & SAMPLE_PLAIN)) {
            memcpy(&frame, &body[head->n_kernel + (i - head->n_kernel) * SAMPLE_FRAME_WORDS], sizeof frame);
            return frame;
        }
    }
    frame.where = body[i];
    return frame;
}

/* The n_context bytes of a thread's context (sender/context/record.h). */
static inline const uint8_t *record_context(const struct sample_head *head, const uint64_t *body)
{
    return (const uint8_t *)(body + head->n_kernel + SAMPLE_USER_WORDS(head));
}

/* What the ring holds; valid during the call. `body`: for record_frame and record_context. */
struct sampler_handler {
    void (*stack)(void *user, const struct sample_head *head, const uint64_t *body);
    /* `path` as execve was told it; where that is a link, the name alone of what it leads to. */
    void (*exec)(void *user, const struct sample_head *head, const char *path);
    void *user;
    /* SAMPLE_VALUE, SAMPLE_FORK and SAMPLE_EXIT, by head->kind; NULL: nobody asks. */
    void (*notice)(void *user, const struct sample_head *head);
    /* NULL: nobody asks. */
    void (*process)(void *user, const struct sample_process *process, struct bytes environment);
};

/* Who takes what is in the ring of wants. */
struct sampler_asked {
    void (*want)(void *user, const struct sample_want *want);
    /* A sample whose walk ended for want of rows: head->rest says where it was. Valid during the call. */
    void (*rest)(void *user, const struct sample_head *head, const uint64_t *body);
    void *user;
};

/* Checks one record of n bytes from the ring and hands it on: 0, or -EBADMSG for what is not as bpf/sample.h
 * says. `rests`: how many walks can be under way. (Split from the ring so that it runs without BPF.) */
int sampler_record(const struct sampler_handler *handler, const void *record, size_t n);
int sampler_want(const struct sampler_asked *asked, uint32_t rests, const void *record, size_t n);

#endif
