/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/record.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether execve was told of a link: of who lives long enough to be looked at /proc has the file's name. */
static bool is_link(const struct sample_exec *exec)
{
    const char *slash = strrchr(exec->path, '/');
    return *exec->name && strcmp(slash ? slash + 1 : exec->path, exec->name) != 0;
}

static int record_exec(const struct sampler_handler *handler, const struct sample_head *head, size_t n)
{
    const struct sample_exec *exec = (const struct sample_exec *)head;
    size_t before = offsetof(struct sample_exec, path), room = n - before;
    if (n <= before || room > SAMPLE_PATH_MAX || memchr(exec->path, 0, room) == NULL ||
        memchr(exec->name, 0, sizeof exec->name) == NULL)
        return -EBADMSG;
    handler->exec(handler->user, head, is_link(exec) ? exec->name : exec->path);
    return 0;
}

static int record_process(const struct sampler_handler *handler, const struct sample_head *head, size_t n)
{
    const size_t fixed = offsetof(struct sample_process, environ);
    const struct sample_process *process = (const struct sample_process *)head;
    if (n < fixed || n > sizeof *process)
        return -EBADMSG;
    if (handler->process)
        handler->process(handler->user, process,
                         head->detail ? bytes_of(process->environ, n - fixed) : bytes_of(NULL, 0));
    return 0;
}

/* Whether the kinds of user frames are some, and their runtimes. */
static bool are_known(const struct sample_head *head, const uint64_t *body)
{
    for (uint32_t i = head->n_kernel; i < head->n_kernel + head->n_user; i++) {
        struct sample_frame frame = record_frame(head, body, i);
        if (frame.kind == SAMPLE_FRAME_KERNEL || frame.kind >= SAMPLE_FRAME_KINDS ||
            (frame.kind == SAMPLE_FRAME_WORD && frame.runtime >= RUNTIME_TAGS))
            return false;
    }
    return true;
}

/* Whether a stack of n bytes, its head included, is as bpf/sample.h says. */
static bool is_stack(const struct sample_head *head, size_t n)
{
    return head->source < SAMPLE_SOURCES && head->user_end < UNWIND_ENDS &&
           head->n_kernel <= SAMPLE_KERNEL_MAX && head->n_user <= SAMPLE_USER_MAX &&
           head->n_context <= CONTEXT_BYTES_MAX &&
           (!head->n_context || head->n_context >= CONTEXT_HEAD_BYTES) &&
           n == sizeof *head + SAMPLE_BODY_BYTES(head) && are_known(head, (const uint64_t *)(head + 1));
}

int sampler_want(const struct sampler_asked *asked, uint32_t rests, const void *record, size_t n)
{
    const struct sample_head *head = record;
    const struct sample_want *want = record;
    if (n >= sizeof *head && head->kind == SAMPLE_REST) {
        if (memchr(head->comm, 0, sizeof head->comm) == NULL || head->rest >= rests ||
            (head->flags & SAMPLE_PLAIN) || head->n_user == 0 || !is_stack(head, n))
            return -EBADMSG;
        asked->rest(asked->user, head, (const uint64_t *)(head + 1));
        return 0;
    }
    if (n != sizeof *want || want->head.kind != SAMPLE_WANT || (want->end && want->start > want->end) ||
        want->head.detail >= RUNTIME_TAGS || memchr(want->path, 0, sizeof want->path) == NULL)
        return -EBADMSG;
    asked->want(asked->user, want);
    return 0;
}

int sampler_record(const struct sampler_handler *handler, const void *record, size_t n)
{
    const struct sample_head *head = record;
    if (n < sizeof *head || memchr(head->comm, 0, sizeof head->comm) == NULL)
        return -EBADMSG;
    if (head->kind == SAMPLE_EXEC)
        return record_exec(handler, head, n);
    if (head->kind == SAMPLE_PROCESS)
        return record_process(handler, head, n);
    if (head->kind >= SAMPLE_VALUE && head->kind <= SAMPLE_EXIT) {
        if (n != sizeof *head || head->source >= SAMPLE_SOURCES)
            return -EBADMSG;
        if (handler->notice)
            handler->notice(handler->user, head);
        return 0;
    }
    if (head->kind != SAMPLE_STACK || !is_stack(head, n))
        return -EBADMSG;
    handler->stack(handler->user, head, (const uint64_t *)(head + 1));
    return 0;
}
