/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/progress.h"

#include <string.h>

#include "proto/base/macros.h"

void progress_init(struct progress *p)
{
    *p = (struct progress){.done = -1, .flushed = -1, .asked = -1, .committed = -1};
}

void progress_done(struct progress *p, int64_t offset, uint64_t now_ns)
{
    if (offset < p->done) /* of a topic that was made again */
        progress_init(p);
    p->done = offset;
    const bool is_new = p->n_marks == 0 || now_ns - p->marks[p->n_marks - 1].began_ns >= PROGRESS_MARK_NS;
    if (is_new && p->n_marks < PROGRESS_MARKS)
        p->marks[p->n_marks++].began_ns = now_ns;
    p->marks[p->n_marks - 1].at_ns = now_ns;
    p->marks[p->n_marks - 1].offset = offset;
}

void progress_flushed(struct progress *p, uint64_t before_ns)
{
    uint32_t n = 0;
    while (n < p->n_marks && p->marks[n].at_ns < before_ns)
        p->flushed = p->marks[n++].offset;
    p->n_marks -= n;
    memmove(p->marks, p->marks + n, p->n_marks * sizeof *p->marks);
}

bool progress_ask(struct progress *p, int64_t *ret)
{
    if (p->flushed <= p->asked)
        return false;
    *ret = p->asked = p->flushed;
    return true;
}

void progress_committed(struct progress *p, int64_t offset, bool is_good)
{
    if (is_good && offset <= p->asked)
        p->committed = max_of(p->committed, offset);
    else if (p->asked == offset)
        p->asked = p->committed;
}

bool progress_is_settled(const struct progress *p)
{
    return p->committed >= p->done;
}
