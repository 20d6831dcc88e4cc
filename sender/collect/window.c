/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/window.h"

#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"

/* What makes two hits the same sample; no padding, it is compared as bytes. */
struct same {
    uint32_t process, tid, cpu, stack, incomplete, source, detail, context;
    char comm[SAMPLE_COMM_LEN];
};

/* What one of them takes besides its bytes: in an intern's tables. */
#define INTERNED_BYTES 64u
/* What a process that is held takes, about: most of it are its mappings. */
#define PROCESS_BYTES 4096u

static enum window_incomplete incomplete(const struct sample_head *head)
{
    /* In the kernel, and where it was entered from is no code: a worker of io_uring has no user registers, in
     * execve(2) they are those of the program before. The kernel's frames are all there is. */
    if (head->user_end == UNWIND_END_NOT_CODE && head->n_user == 0 && head->n_kernel > 0)
        return WINDOW_COMPLETE;
    switch (head->user_end) {
    case UNWIND_END_DEPTH: return WINDOW_TOO_DEEP;
    case UNWIND_END_UNREADABLE: return WINDOW_UNREADABLE;
    case UNWIND_END_NOT_CODE:
    case UNWIND_END_NO_RULE:
    case UNWIND_END_MISSING:
    case UNWIND_END_BAD_FRAME: return WINDOW_NO_WAY_ON;
    default: return head->flags & SAMPLE_GUESSED ? WINDOW_GUESSED : WINDOW_COMPLETE;
    }
}

/* The index of a process, held from now on; UINT32_MAX when memory is out. The process remembers it: that it
 * is of this window shows in what is there. */
static uint32_t process_of(struct window *w, struct process *process)
{
    uint32_t at = process->in_window;
    if (at < w->process.n && w->process.p[at].process == process)
        return at;
    if (vec_append(&w->process, (struct window_process){.process = process, .share = 1}) < 0)
        return UINT32_MAX;
    process_hold(process);
    w->bytes += PROCESS_BYTES;
    return process->in_window = w->process.n - 1;
}

/* Numbers stack and context. False when memory or room is out. */
static bool intern(struct window *w, struct same *id, const struct frame *frames, uint32_t n_frames,
                   struct bytes context)
{
    uint32_t n_stacks = w->stacks.n, n_contexts = w->contexts.n;
    id->stack = intern_add(&w->stacks, bytes_of(frames, n_frames * sizeof *frames));
    id->context = context.n ? intern_add(&w->contexts, context) : WINDOW_NO_CONTEXT;
    if (id->stack == INTERN_NONE || (context.n && id->context == INTERN_NONE))
        return false;
    if (w->stacks.n != n_stacks)
        w->bytes += n_frames * sizeof *frames + INTERNED_BYTES;
    if (w->contexts.n != n_contexts)
        w->bytes += context.n + INTERNED_BYTES;
    return true;
}

static struct window_sample sample_of(const struct sample_head *head, const struct same *id, uint32_t first)
{
    struct window_sample s = {.process = id->process,
                              .tid = head->tid,
                              .cpu = head->cpu,
                              .stack = id->stack,
                              .incomplete = (enum window_incomplete)id->incomplete,
                              .source = head->source,
                              .detail = head->detail,
                              .context = id->context,
                              .first_time = first};
    memcpy(s.comm, id->comm, sizeof s.comm);
    return s;
}

static bool add(struct window *w, struct process *process, const struct sample_head *head,
                const struct frame *frames, uint32_t n_frames, struct bytes context)
{
    if (w->time.n >= WINDOW_SAMPLES_MAX || w->bytes >= WINDOW_BYTES_MAX || n_frames == 0 ||
        n_frames > FRAMES_MAX || vec_reserve(&w->time, (uint64_t)w->time.n + 1) < 0 ||
        vec_reserve(&w->sample, (uint64_t)w->sample.n + 1) < 0)
        return false;
    struct same id = {.process = process_of(w, process), .tid = head->tid, .cpu = head->cpu};
    if (id.process == UINT32_MAX || !intern(w, &id, frames, n_frames, context))
        return false;
    id.incomplete = incomplete(head);
    id.source = head->source;
    id.detail = head->detail;
    memcpy(id.comm, head->comm, strnlen(head->comm, sizeof id.comm));
    uint32_t before = w->keys.n, number = intern_add(&w->keys, bytes_of(&id, sizeof id));
    if (number == INTERN_NONE)
        return false;
    struct window_sample *s = &w->sample.p[number];
    uint32_t at = w->time.n++;
    w->time.p[at] = (struct window_time){.ns = head->time, .value = head->value, .next = WINDOW_NO_TIME};
    w->bytes += sizeof *w->time.p;
    if (number == before) {
        w->sample.n++;
        *s = sample_of(head, &id, at);
        w->bytes += sizeof *s + sizeof id + INTERNED_BYTES;
    } else {
        w->time.p[s->last_time].next = at;
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

uint32_t window_file(struct window *w, uint32_t number, const struct binary_key *key, uint32_t *remark)
{
    if (*remark < w->file.n && w->file.p[*remark].number == number)
        return *remark;
    char *path = strdup("");
    struct window_file f = {.number = number, .key = *key, .fd = -1, .path = path};
    if (!path || vec_append(&w->file, f) < 0) {
        free(path);
        return UINT32_MAX;
    }
    return *remark = w->file.n - 1;
}

static bool has_room(const struct window *w, const struct process *process)
{
    return w->n_open < WINDOW_OPEN_MAX || w->open.of[holder_of(process->user)] + 1 < w->open.of[w->open.most];
}

bool window_wants(const struct window *w, uint32_t file, const struct process *process)
{
    const struct window_file *f = &w->file.p[file];
    return f->fd < 0 && f->pid != process->pid && has_room(w, process);
}

/* Closes the file that was met last of the user's who has most. */
static void make_room(struct window *w)
{
    uint32_t i = w->file.n - 1;
    while (w->file.p[i].fd < 0 || w->file.p[i].holder != w->open.most)
        i--;
    close(take_fd(&w->file.p[i].fd));
    w->n_open--;
    holdings_take(&w->open, w->open.most, 1);
}

void window_met(struct window *w, uint32_t file, const struct process *process, struct bytes path, int fd)
{
    struct window_file *f = &w->file.p[file];
    f->pid = process->pid;
    char *copy = strndup((const char *)path.p, path.n);
    if (copy) {
        free(f->path);
        f->path = copy;
    } /* else only its build id is left to look for its debug file by */
    if (fd < 0)
        return;
    if (f->fd >= 0 || !has_room(w, process)) {
        close(fd);
        return;
    }
    if (w->n_open == WINDOW_OPEN_MAX)
        make_room(w);
    f->fd = fd;
    f->holder = holder_of(process->user);
    w->n_open++;
    holdings_add(&w->open, f->holder, 1);
}

uint32_t window_word(struct window *w, const struct process *process, const struct sample_frame *frame,
                     bool *ret_is_new)
{
    struct {
        uint64_t process; /* its serial: never another's */
        struct sample_frame frame;
    } key = {process->serial, *frame};
    uint32_t before = w->words.n;
    if (vec_reserve(&w->word, (uint64_t)before + 1) < 0)
        return UINT32_MAX;
    uint32_t number = intern_find(&w->words, bytes_of(&key, sizeof key));
    *ret_is_new = number == INTERN_NONE;
    if (number != INTERN_NONE)
        return number;
    if (before >= WINDOW_WORDS_MAX ||
        (number = intern_add(&w->words, bytes_of(&key, sizeof key))) == INTERN_NONE)
        return UINT32_MAX;
    w->word.p[w->word.n++] = (struct window_word){.runtime = runtime_of(frame->runtime)};
    w->bytes += sizeof *w->word.p + sizeof key + INTERNED_BYTES;
    return number;
}

void window_runtime(struct window *w, const struct process *process, const struct word *word)
{
    uint32_t at = process->in_window;
    if (at < w->process.n && w->process.p[at].process == process && !w->process.p[at].word)
        w->process.p[at].word = word;
}

void window_close(struct window *w)
{
    for (uint32_t i = 0; i < w->process.n; i++) {
        struct window_process *p = &w->process.p[i];
        p->identity = identity_hold(p->process->identity);
        p->service_name = p->process->service_name;
    }
}

void window_close_files(struct window *w)
{
    for (uint32_t i = 0; i < w->file.n; i++) {
        if (w->file.p[i].fd >= 0)
            close(w->file.p[i].fd);
        w->file.p[i].fd = -1;
    }
}

static void let_go(struct window *w)
{
    window_close_files(w);
    for (uint32_t i = 0; i < w->word.n; i++)
        if (w->word.p[i].word)
            word_let_go(w->word.p[i].word);
    vec_clear(&w->word);
    for (uint32_t i = 0; i < w->file.n; i++)
        free(w->file.p[i].path);
    for (uint32_t i = 0; i < w->process.n; i++) {
        identity_free(w->process.p[i].identity);
        process_let_go(w->process.p[i].process);
    }
    vec_clear(&w->file);
    vec_clear(&w->process);
    w->n_open = 0;
    w->open = (struct holdings){0};
}

void window_clear(struct window *w)
{
    let_go(w);
    intern_clear(&w->stacks);
    intern_clear(&w->keys);
    intern_clear(&w->contexts);
    intern_clear(&w->words);
    vec_clear(&w->sample);
    vec_clear(&w->time);
    w->bytes = 0;
    w->dropped = w->unwanted = 0;
}

void window_release(struct window *w)
{
    let_go(w);
    intern_release(&w->stacks);
    intern_release(&w->keys);
    intern_release(&w->contexts);
    intern_release(&w->words);
    vec_release(&w->word);
    vec_release(&w->sample);
    vec_release(&w->time);
    vec_release(&w->process);
    vec_release(&w->file);
    *w = (struct window){0};
}
