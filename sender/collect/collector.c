/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/collector.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/attach/record.h"
#include "sender/context/place.h"
#include "sender/context/record.h"

/* The vDSO is two pages or so; its section headers end it. */
#define VDSO_MAX 65536u
const struct binary_key collector_vdso = {.inode = UINT64_MAX};

/* Our own vDSO as an ELF image. The section headers come last in it. */
static struct bytes own_vdso(void)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64)
        return bytes_of(NULL, 0);
    uint64_t size = h->e_shoff + (uint64_t)h->e_shnum * h->e_shentsize;
    return size > VDSO_MAX ? bytes_of(NULL, 0) : bytes_of(h, (size_t)size);
}

int collector_init(struct collector *c, const char *proc_root)
{
    *c = (struct collector){.vdso = own_vdso()};
    c->procs = procs_new(proc_root);
    c->files = files_new();
    if (!c->procs || !c->files) {
        collector_release(c);
        return -ENOMEM;
    }
    return 0;
}

void collector_release(struct collector *c)
{
    window_release(&c->window);
    pending_release(&c->pending);
    procs_free(c->procs);
    files_free(c->files);
    *c = (struct collector){0};
}

/* The index of a file in the window. UINT32_MAX: there is none, it is no ELF file, or memory is out. */
static uint32_t in_window(struct collector *c, uint32_t number)
{
    struct file *file = files_get(c->files, number);
    return file && file->is_elf ? window_file(&c->window, number, &file->key, &file->in_window) : UINT32_MAX;
}

/* The number of the file of a region that was not looked at before, which is left open in the window.
 * `number`: what had its inode when that was met last; it may have been written over since. 0: nothing, and
 * returned: it cannot be had. */
static uint32_t new_file(struct collector *c, const struct process *process, const struct region *region,
                         const struct binary_key *key, uint32_t number, uint64_t now)
{
    struct allowance *user = procs_allowance(c->procs, process, now);
    uint32_t at = in_window(c, number);
    if (at != UINT32_MAX && c->window.file.p[at].fd >= 0)
        return files_check(c->files, number, c->window.file.p[at].fd, user);
    int fd = allowance_take(user, FILES_OPENING) ? procs_open_region(c->procs, process, region) : -EDQUOT;
    if (fd < 0)
        return 0;
    number = number ? files_check(c->files, number, fd, user) : files_add(c->files, key, fd, user);
    at = in_window(c, number);
    if (at == UINT32_MAX)
        close(fd);
    else
        window_met(&c->window, at, process, region->path, fd);
    return number;
}

/* The number of the file of a region. 0: there is no file, or it cannot be had. */
static uint32_t file_of(struct collector *c, const struct process *process, struct region *region,
                        uint64_t now)
{
    struct binary_key key = {.inode = region->inode, .major = region->major, .minor = region->minor};
    bool is_vdso = bytes_is(region->path, "[vdso]");
    if (is_vdso)
        key = collector_vdso;
    else if (region->inode == 0)
        return 0;
    const struct file *known = files_get(c->files, region->tag);
    if (known && known->key.inode == key.inode && known->key.major == key.major &&
        known->key.minor == key.minor)
        return region->tag;
    uint32_t number = files_find(c->files, &key);
    if (!is_vdso)
        number = new_file(c, process, region, &key, number, now);
    else if (!number && c->vdso.p)
        number = files_add_memory(c->files, &key, c->vdso);
    return region->tag = number;
}

/* The index of a file in the window, where it is open for its names to be looked up: while the process is
 * there, as it may be gone when the window ends. UINT32_MAX when memory is out. */
static uint32_t file_in_window(struct collector *c, const struct process *process, struct region *region,
                               uint64_t now)
{
    uint32_t at = in_window(c, region->tag);
    if (at == UINT32_MAX || region->inode == 0 || !window_wants(&c->window, at, process))
        return at;
    struct allowance *user = procs_allowance(c->procs, process, now);
    int fd = allowance_take(user, FILES_OPENING) ? procs_open_region(c->procs, process, region) : -EDQUOT;
    uint32_t number = fd >= 0 ? files_check(c->files, region->tag, fd, user) : region->tag;
    if (number != region->tag) {
        region->tag = number;
        at = in_window(c, number);
    }
    if (at == UINT32_MAX)
        cleanup_close(&fd);
    else
        window_met(&c->window, at, process, region->path, fd);
    return at;
}

/* Opens the file that a frame means: by its name, else, of another mount namespace's, by the process. */
static bool open_known(struct collector *c, const struct process *process, const struct sample_frame *from,
                       struct allowance *user, struct collector_code *ret)
{
    bool may_open = !allowance_is_spent(user);
    if (!c->code || !c->code(c->code_user, from->file, process->user, may_open, ret))
        return false;
    if (ret->is_vdso)
        ret->key = collector_vdso;
    else if (may_open)
        allowance_charge(user, FILES_OPENING);
    if (!may_open)
        return true; /* what it was is known all the same */
    const struct region *region = ret->fd < 0 ? maps_find(&process->maps, from->where) : NULL;
    if (!region || region->inode != ret->key.inode)
        return true;
    ret->fd = procs_open_region(c->procs, process, region);
    if (ret->fd >= 0 && !binary_is_as_written(&ret->key, ret->fd))
        cleanup_close(&ret->fd);
    return true;
}

/* The number of a file whose frames are met for the first time. */
static uint32_t add_known(struct collector *c, const struct collector_code *code, struct allowance *user)
{
    uint32_t number = files_find(c->files, &code->key);
    if (code->is_vdso)
        return number ? number : files_add_memory(c->files, &code->key, c->vdso);
    if (number && binary_key_is(&files_get(c->files, number)->key, &code->key))
        return number;
    if (code->fd < 0)
        return 0;
    return number ? files_check(c->files, number, code->fd, user)
                  : files_add(c->files, &code->key, code->fd, user);
}

/* The number of the file a frame means, and its index in the window, where it is open if it can be. 0: it is
 * not known; *met says what was in it, as far as that is. */
static uint32_t known_file(struct collector *c, const struct process *process,
                           const struct sample_frame *from, uint32_t *at, uint64_t now,
                           struct foreign_content *met)
{
    struct collector_code code;
    uint32_t number = files_of_serial(c->files, from->file);
    struct file *file = files_get(c->files, number);
    if (file) {
        *at = window_file(&c->window, number, &file->key, &file->in_window);
        if (*at == UINT32_MAX || !window_wants(&c->window, *at, process))
            return number;
    }
    struct allowance *user = procs_allowance(c->procs, process, now);
    if (!open_known(c, process, from, user, &code))
        return number;
    *met = code.key.content;
    number = number ? number : add_known(c, &code, user);
    file = files_get(c->files, number);
    if (file && !foreign_content_is(file->key.content, code.key.content))
        file = NULL; /* it was written over as it was looked at */
    *at = file ? window_file(&c->window, number, &file->key, &file->in_window) : UINT32_MAX;
    if (*at == UINT32_MAX) {
        cleanup_close(&code.fd);
        return 0;
    }
    files_remember(c->files, from->file, number);
    window_met(&c->window, *at, process, bytes_str(code.path), code.fd);
    return number;
}

/* The ELF address of a frame by the page it bears of its file. */
static bool address_of(struct collector *c, const struct sample_frame *from, uint32_t number, uint64_t *ret)
{
    uint32_t offset = (uint32_t)from->extra << UNWIND_PAGE_BITS | (from->where & (UNWIND_PAGE_SIZE - 1));
    return files_get(c->files, number)->is_elf && files_address_of_page(c->files, number, offset, ret);
}

/* Whether each frame of code says where it is, in a file that was met: then it does not matter that mappings,
 * most of them of memory without code, have changed since they were read. */
static bool says_where(struct collector *c, const struct sample_head *head, const uint64_t *body)
{
    uint64_t virtual;
    for (uint32_t i = 0; i < head->n_user; i++) {
        struct sample_frame from = record_frame(head, body, head->n_kernel + i);
        uint32_t number = from.file ? files_of_serial(c->files, from.file) : 0;
        if (from.kind != SAMPLE_FRAME_CODE || !number || !address_of(c, &from, number, &virtual))
            return false;
    }
    return true;
}

/* Whether a frame says which file it is in by what stands for one that had no tables yet. */
static bool is_marked(const struct sample_frame *from)
{
    return from->file & UNWIND_MARK;
}

/* How the walk came to a frame's caller. What is in no file that it knew is generated code, which has frame
 * pointers, or, where it says that it guessed, may be in one that was not known yet. */
static enum frame_way way_of(const struct sample_head *head, const struct sample_frame *from)
{
    bool is_by_pointer = from->runtime == UNWIND_CFA_NONE || from->runtime == UNWIND_CFA_UNKNOWN;
    bool is_known = from->file && !is_marked(from);
    return is_by_pointer && (is_known || head->flags & SAMPLE_GUESSED) ? FRAME_BY_POINTER : FRAME_SURE;
}

/* A stack on its way into the window. */
struct taking {
    struct collector *c;
    const struct sample_head *head;
    struct process *process;
    uint32_t at; /* which of its frames, from the leaf of its side */
    uint64_t now;
    const struct word *word; /* one that is new in the window; NULL: none */
};

/* A frame in a file that the walk knew: no living process is needed to say where it is. *met: as known_file.
 */
static bool take_known(struct taking *t, const struct sample_frame *from, struct foreign_content *met,
                       struct frame *ret)
{
    struct collector *c = t->c;
    uint64_t virtual;
    uint32_t at = UINT32_MAX, number = from->file ? known_file(c, t->process, from, &at, t->now, met) : 0;
    if (!number || at == UINT32_MAX || !address_of(c, from, number, &virtual))
        return false;
    *ret = (struct frame){.kind = FRAME_FILE, .way = way_of(t->head, from), .file = at, .address = virtual};
    return true;
}

/* Whether a file is the one that has a mark: then, or when it had a name yet. */
static bool has_mark(const struct binary_key *key, uint32_t mark)
{
    const uint64_t second = NSEC_PER_SEC;
    struct unwind_key is = {.inode = key->inode,
                            .size = key->content.size,
                            .mtime = key->content.written,
                            .device = key->major << 20 | key->minor};
    if (unwind_has_mark(&is, mark))
        return true;
    is.mtime -= is.mtime % second;
    return unwind_has_mark(&is, mark);
}

/* Whether a file is what the walk met there, as far as that is known: it may have been written over since, or
 * another one be mapped there. */
static bool is_as_met(const struct taking *t, uint32_t number, const struct sample_frame *from,
                      struct foreign_content met)
{
    const struct binary_key *key = &files_get(t->c->files, number)->key;
    if (from->file == SAMPLE_FILE_LOST) /* its process is gone: what was known of it last */
        return t->head->changes && t->head->changes == t->process->maps_changes;
    if (is_marked(from))
        return has_mark(key, from->file);
    return !from->file || (met.size > 0 && foreign_content_is(key->content, met));
}

/* A return address is that of the next instruction, which may be another function's: one less is in the call.
 */
static bool take_kernel(struct taking *t, const struct sample_frame *from, struct frame *ret)
{
    *ret = (struct frame){.kind = FRAME_KERNEL, .address = from->where - (t->at > 0)};
    return true;
}

/* A frame in what there is at its address now, as far as that is what the walk met. What it met outside of
 * files has come before a file that is there. False: it was in a file that cannot be had. */
static bool take_region(struct taking *t, const struct sample_frame *from, struct foreign_content met,
                        struct region *region, struct frame *ret)
{
    struct collector *c = t->c;
    uint64_t virtual;
    if (!(t->head->flags & SAMPLE_PLAIN) && !from->file && !bytes_is(region->path, "[vdso]"))
        return true;
    uint32_t number = file_of(c, t->process, region, t->now);
    if (number && !files_get(c->files, number)->is_elf)
        return true;
    uint32_t at = number ? file_in_window(c, t->process, region, t->now) : UINT32_MAX;
    if (at == UINT32_MAX || !is_as_met(t, region->tag, from, met))
        return false;
    if (files_address(c->files, region->tag, ret->address - region->start + region->offset, &virtual))
        *ret =
            (struct frame){.kind = FRAME_FILE, .way = way_of(t->head, from), .file = at, .address = virtual};
    return true;
}

/* False: the address is in no code of the process, as when a register that is no frame pointer was followed.
 */
static bool take_code(struct taking *t, const struct sample_frame *from, struct frame *ret)
{
    struct collector *c = t->c;
    bool is_exact = t->head->flags & SAMPLE_EXACT;
    bool is_sure =
        t->at == 0 || is_exact; /* the kernel side found a mapping there, which ours may be older than */
    uint64_t address = from->where - (t->at > 0 && !is_exact);
    struct foreign_content met = {0};
    if (take_known(t, from, &met, ret))
        return true;
    bool is_nowhere = is_exact && !from->file && !(t->head->flags & SAMPLE_GUESSED);
    *ret = (struct frame){
        .kind = FRAME_OTHER, .way = is_nowhere ? FRAME_NOWHERE : way_of(t->head, from), .address = address};
    struct region *region = procs_region(c->procs, t->process, address, is_sure, t->now);
    bool is_had = region && take_region(t, from, met, region, ret);
    c->replaced += from->file && !is_had;
    return region || is_sure ||
           t->process->maps.regions.n == 0; /* nothing known of it at all: keep what we were told */
}

/* A runtime's word: its name is looked for at once, for what it points at may be gone when the window ends.
 */
static bool take_word(struct taking *t, const struct sample_frame *from, struct frame *ret)
{
    struct collector *c = t->c;
    const struct process *p = t->process;
    bool is_new;
    uint32_t number = window_word(&c->window, p, from, &is_new);
    *ret = (struct frame){.kind = FRAME_OTHER};
    if (number == UINT32_MAX)
        return true;
    *ret = (struct frame){.kind = FRAME_WORD, .file = number, .address = from->where};
    struct words_process of = {
        .serial = p->serial, .pid = p->pid, .user = p->user, .thread = t->head->tid, .start = t->head->start};
    if (is_new && c->words)
        t->word = c->window.word.p[number].word = words_ask(c->words, &of, from, t->now);
    return true;
}

/* How a frame becomes one of the window's, by its kind. False: the stack ends before it. */
static bool (*const take[SAMPLE_FRAME_KINDS])(struct taking *, const struct sample_frame *,
                                              struct frame *) = {
    [SAMPLE_FRAME_KERNEL] = take_kernel,
    [SAMPLE_FRAME_CODE] = take_code,
    [SAMPLE_FRAME_WORD] = take_word,
};

/* The frames of a stack; how many, one at least. */
static uint32_t take_stack(struct taking *t, const uint64_t *body, struct frame *ret)
{
    const struct sample_head *head = t->head;
    uint32_t n = 0;
    for (uint32_t i = 0; i < head->n_kernel + head->n_user; i++) {
        struct sample_frame from = record_frame(head, body, i);
        t->at = i < head->n_kernel ? i : i - head->n_kernel;
        if (from.kind == SAMPLE_FRAME_WORD && !from.where)
            continue;
        if (!take[from.kind](t, &from, &ret[n]))
            break;
        n++;
    }
    if (n == 0) /* in the middle of execve or exit: neither has a stack; the time was spent all the same */
        ret[n++] = (struct frame){.kind = FRAME_OTHER};
    return n;
}

/* Where its threads publish their contexts is looked for when it says that they do, and again, less and less
 * often, until it is found: their library may be loaded later. */
static void find_place(struct collector *c, struct process *process, uint64_t now)
{
    struct context_place place;
    struct allowance *user;
    if (process->placed == process->published && (!process->place_at || now < process->place_at))
        return;
    if (process->placed != process->published)
        process->place_in = PROCS_IDENTIFY_NS / 2;
    process->placed = process->published;
    process->place_at = 0;
    if (!place_is_published(process)) {
        c->place(c->place_user, process->pid, NULL);
        return;
    }
    user = procs_allowance(c->procs, process, now);
    if (place_find(c->procs, process, user, &place) == 0) {
        uint64_t begun = clock_thread();
        place.user = process->user;
        c->place(c->place_user, process->pid, &place);
        allowance_charge(user, ALLOWANCE_OF_NS(clock_thread() - begun)); /* to make room takes a while */
    } else {
        process->place_in = min_of(2 * process->place_in, (uint64_t)PROCS_IDENTIFY_MAX_NS);
        process->place_at = now + process->place_in;
    }
}

/* The context of a sample, as far as it says something. */
static struct bytes context_of(struct collector *c, struct process *process, const struct sample_head *head,
                               const uint64_t *body, uint64_t now)
{
    struct record record;
    const uint8_t *p = record_context(head, body);
    if (!head->n_context || !record_read(p, head->n_context, &record))
        return bytes_of(NULL, 0);
    /* OTEP 4947: a key that is not known makes the reader look at the map of keys again. */
    if (record.attributes.n && record_has_new_key(&record, process->identity ? process->identity->n_keys : 0))
        procs_identify(c->procs, process, now);
    return bytes_of(p, head->n_context);
}

/* A stack whose weight is known: 0 is that it is to be forgotten. */
static void weighed(struct collector *c, const struct sample_head *head, const uint64_t *body, uint64_t value,
                    uint64_t time, uint64_t now)
{
    struct sample_head is = *head;
    is.ticket = 0;
    is.value = value;
    is.time = time;
    if (value)
        collector_stack(c, &is, body, now);
}

void collector_stack(struct collector *c, const struct sample_head *head, const uint64_t *body, uint64_t now)
{
    struct frame frame[FRAMES_MAX + 1];
    struct process *process =
        procs_get(c->procs, head->pid, head->tid, head->start, head->comm, head->is_kernel_thread, now);
    if (!process) {
        c->refused++;
        return;
    }
    if (c->place && process->published)
        find_place(c, process, now);
    if (head->ticket) { /* known now; the rest when it is known what it weighs */
        struct pending_value value;
        if (pending_take_value(&c->pending, head->ticket, &value))
            weighed(c, head, body, value.value, value.time, now);
        else
            pending_add(&c->pending, head, body);
        return;
    }
    if (head->changes)
        procs_follow(c->procs, process, head->changes, !says_where(c, head, body), now);
    struct taking taking = {.c = c, .head = head, .process = process, .now = now};
    uint32_t n = take_stack(&taking, body, frame);
    window_add(&c->window, process, head, frame, n, context_of(c, process, head, body, now));
    if (taking.word)
        window_runtime(&c->window, process, taking.word);
}

void collector_notice(struct collector *c, const struct sample_head *head, uint64_t now)
{
    if (head->kind == SAMPLE_FORK) {
        procs_fork(c->procs, head->pid, head->start, (uint32_t)head->value, head->ticket, now);
    } else if (head->kind == SAMPLE_EXIT) {
        procs_exit(c->procs, head->pid, head->start, now);
        if (c->words)
            words_end(c->words, head->pid, head->start);
        if (c->place)
            c->place(c->place_user, head->pid, NULL);
    } else if (head->kind == SAMPLE_VALUE) {
        struct pending_stack *stack = pending_take(&c->pending, head->ticket);
        if (stack)
            weighed(c, &stack->head, stack->body, head->value, head->time, now);
        else
            pending_value(&c->pending, head);
        free(stack);
    }
}

void collector_exec(struct collector *c, const struct sample_head *head, const char *path, uint64_t now)
{
    procs_exec(c->procs, head->pid, head->start, path, now);
    if (c->words)
        words_end(c->words, head->pid, head->start);
    if (c->place)
        c->place(c->place_user, head->pid, NULL);
}

void collector_process(struct collector *c, const struct sample_process *process, struct bytes environment,
                       uint64_t now)
{
    const struct sample_head *head = &process->head;
    const struct process_told told = {process->user, process->parent, environment};
    procs_told(c->procs, head->pid, head->tid, head->start, head->comm, &told, now);
}

void collector_take(struct collector *c, struct window *window)
{
    struct window closed = c->window;
    window_close(&closed);
    c->window = *window;
    c->refused = 0;
    *window = closed;
    files_sweep(c->files);
}

void collector_sweep(struct collector *c, uint64_t now)
{
    procs_sweep(c->procs, now);
    if (c->words)
        words_sweep(c->words, now);
}
