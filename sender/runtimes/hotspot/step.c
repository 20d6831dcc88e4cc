/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/hotspot/step.h"

#include "proto/base/macros.h"

struct walk {
    const struct source *memory;
    const struct runtime_stack *stack; /* NULL: there is none */
    const struct hotspot_place *place;
    struct unwind_registers *at; /* NULL likewise */
    struct hotspot_walk state;
};

static int load(struct walk *w, uint64_t address, uint64_t *value)
{
    return w->stack ? w->stack->load(w->stack->of, address, value) : -1;
}

static bool in_stack(struct walk *w, const struct unwind_registers *r, uint64_t address)
{
    uint64_t word;
    return address >= r->sp && load(w, address, &word) == 0;
}

/* Nothing is remembered: what comes here is rare. */
static struct hotspot_known *remembered(const struct walk *w)
{
    return NULL;
}

#define UNWIND_WALK                     struct walk
#define UNWIND_LOAD(w, address, value)  load(w, address, value)
#define UNWIND_IN_STACK(w, r, address)  in_stack(w, r, address)
#define HOTSPOT_IN_STACK(w, r, address) in_stack(w, r, address)
#define STEP_HANDLE                     struct walk *
#define STEP_PART                       static int
#define HOTSPOT_PROCESS(w)              ((w)->memory ? 1ull : 0)
#define HOTSPOT_KNOWN(w, ip)            remembered(w)
#define HOTSPOT_READ(w, to, n, address) (source_read((w)->memory, address, to, n) ? 0 : -1)
#define HOTSPOT_OPEN(h)                                         \
    __attribute__((unused)) struct walk *w = h;                 \
    __attribute__((unused)) struct unwind_registers *r = w->at; \
    __attribute__((unused)) struct hotspot_walk *c = &w->state; \
    __attribute__((unused)) const struct hotspot_place *p = w->place
#include "bpf/hotspot_step.h"

enum hotspot_code hotspot_blob_find(const struct source *memory, const struct hotspot_place *place,
                                    uint64_t address, struct hotspot_blob *ret)
{
    struct walk w = {.memory = memory, .place = place};
    struct hotspot_walk *c = &w.state;
    uint32_t kind;
    uint8_t is_used = 1;
    if (hotspot_find(&w, address) ||
        (place->block_used &&
         !source_read(memory, c->blob - place->block_header + place->block_used, &is_used, 1)) ||
        !is_used || !source_read(memory, c->blob + place->blob_from, c->read, sizeof c->read) ||
        !source_read(memory, c->blob + place->nmethod_id, &ret->id, sizeof ret->id))
        return HOTSPOT_CODE_NONE;
    ret->at = c->blob;
    ret->code = hotspot_code(place, c);
    ret->name = hotspot_field(c, place->blob_name & 0xfff8);
    if (!source_read(memory, ret->name, &kind, sizeof kind))
        return HOTSPOT_CODE_NONE;
    return kind == HOTSPOT_METHOD || kind == HOTSPOT_NATIVE ? HOTSPOT_CODE_METHOD : HOTSPOT_CODE_STUB;
}

uint32_t hotspot_method_cookie(const struct source *memory, const struct hotspot_place *place,
                               uint64_t method)
{
    struct walk w = {.memory = memory, .place = place};
    return hotspot_cookie(&w, method) ? 0 : (uint32_t)w.state.cookie;
}

bool hotspot_step(const struct runtime_process *process, const struct runtime_stack *stack,
                  struct unwind_registers *at, struct sample_frame *word)
{
    struct walk w = {.memory = process->memory,
                     .stack = stack,
                     .place = (const struct hotspot_place *)process->place->word,
                     .at = at};
    bool is_taken = hotspot_walk_on(&w) == STEP_TAKEN;
    *word = w.state.word;
    return is_taken;
}
