#include "sender/collect/window.h"

#include <stdlib.h>

#include "proto/base/macros.h"

/* What makes two hits the same sample; no padding, it is compared as bytes. */
struct same {
    uint64_t process;
    uint32_t tid, cpu, stack, incomplete, source, detail, context, zero;
    char comm[SAMPLE_COMM_LEN];
};

static bool reserve(void **p, uint32_t *cap, uint32_t n, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap ? 2 * *cap : 64;
    void *grown = realloc(*p, more * size);
    if (!grown)
        return false;
    *p = grown;
    *cap = more;
    return true;
}

static enum window_incomplete incomplete(const struct sample_head *head)
{
    switch (head->user_end) {
    case UNWIND_END_DEPTH: return WINDOW_TOO_DEEP;
    case UNWIND_END_UNREADABLE: return WINDOW_UNREADABLE;
    case UNWIND_END_NOT_CODE:
    case UNWIND_END_NO_RULE:
    case UNWIND_END_BAD_FRAME: return WINDOW_NO_WAY_ON;
    default: return head->flags & SAMPLE_GUESSED ? WINDOW_GUESSED : WINDOW_COMPLETE;
    }
}

static bool add(struct window *w, struct process *process, const struct sample_head *head,
                const struct frame *frames, uint32_t n_frames, struct bytes context)
{
    if (w->n_times >= WINDOW_SAMPLES_MAX || n_frames == 0 || n_frames > FRAMES_MAX ||
        !reserve((void **)&w->time, &w->cap_times, w->n_times, sizeof *w->time) ||
        !reserve((void **)&w->sample, &w->cap_samples, w->keys.n, sizeof *w->sample))
        return false;
    uint32_t stack = intern_add(&w->stacks, bytes_of(frames, n_frames * sizeof *frames));
    if (stack == INTERN_NONE)
        return false;
    struct same id = {.process = process->serial, .tid = head->tid, .cpu = head->cpu, .stack = stack};
    id.context = context.n ? intern_add(&w->contexts, context) : WINDOW_NO_CONTEXT;
    if (context.n && id.context == INTERN_NONE)
        return false;
    id.incomplete = incomplete(head);
    id.source = head->source;
    id.detail = head->detail;
    memcpy(id.comm, head->comm, strnlen(head->comm, sizeof id.comm));
    uint32_t before = w->keys.n, number = intern_add(&w->keys, bytes_of(&id, sizeof id));
    if (number == INTERN_NONE)
        return false;
    struct window_sample *s = &w->sample[number];
    uint32_t at = w->n_times++;
    w->time[at] = (struct window_time){.ns = head->time, .value = head->value, .next = WINDOW_NO_TIME};
    if (number == before) {
        *s = (struct window_sample){.process = process, .tid = head->tid, .cpu = head->cpu, .stack = stack};
        memcpy(s->comm, id.comm, sizeof s->comm);
        s->source = head->source;
        s->detail = head->detail;
        s->context = id.context;
        s->incomplete = (enum window_incomplete)id.incomplete;
        s->first_time = at;
    } else {
        w->time[s->last_time].next = at;
    }
    s->last_time = at;
    s->n_times++;
    return true;
}

bool window_add(struct window *w, struct process *process, const struct sample_head *head,
                const struct frame *frames, uint32_t n_frames, struct bytes context)
{
    bool added = add(w, process, head, frames, n_frames, context);
    w->dropped += !added;
    return added;
}

void window_clear(struct window *w)
{
    intern_clear(&w->stacks);
    intern_clear(&w->keys);
    intern_clear(&w->contexts);
    w->n_times = 0;
    w->dropped = 0;
}

void window_release(struct window *w)
{
    intern_release(&w->stacks);
    intern_release(&w->keys);
    intern_release(&w->contexts);
    free(w->sample);
    free(w->time);
    *w = (struct window){0};
}
