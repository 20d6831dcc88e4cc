#include "sender/attach/sampler.h"

#include <errno.h>
#include <string.h>

static int record_exec(const struct sampler_handler *handler, const struct sample_head *head, size_t n)
{
    const struct sample_exec *exec = (const struct sample_exec *)head;
    size_t room = n - sizeof *head;
    if (room == 0 || room > SAMPLE_PATH_MAX || memchr(exec->path, 0, room) == NULL)
        return -EBADMSG;
    handler->exec(handler->user, head, exec->path);
    return 0;
}

int sampler_record(const struct sampler_handler *handler, const void *record, size_t n)
{
    const struct sample_head *head = record;
    if (n < sizeof *head || memchr(head->comm, 0, sizeof head->comm) == NULL)
        return -EBADMSG;
    if (head->kind == SAMPLE_EXEC)
        return record_exec(handler, head, n);
    if (head->kind != SAMPLE_STACK || head->n_kernel > SAMPLE_KERNEL_MAX || head->n_user > SAMPLE_USER_MAX)
        return -EBADMSG;
    if (n != sizeof *head + 8 * ((size_t)head->n_kernel + head->n_user))
        return -EBADMSG;
    handler->stack(handler->user, head, (const uint64_t *)(head + 1));
    return 0;
}
