/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/hotspot/layout.h"

#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/runtimes/hotspot/structs.h"
#include "sender/runtimes/runtime.h"

/* What is looked for. The versions are those of the JDK; where none is said, all have it. */
#define FIELDS(ROW)                                                                      \
    ROW(HEAP, "CodeCache", "_heap")                /* 8 */                               \
    ROW(HEAPS, "CodeCache", "_heaps")              /* from 9 on */                       \
    ROW(ARRAY_N, "GenericGrowableArray", "_len")   /* up to 15 … */                    \
    ROW(ARRAY_N_BASE, "GrowableArrayBase", "_len") /* … and from 16 on */              \
    ROW(ARRAY_DATA, "GrowableArray<int>", "_data")                                       \
    ROW(HEAP_MEMORY, "CodeHeap", "_memory")                                              \
    ROW(HEAP_SEGMENTS, "CodeHeap", "_segmap")                                            \
    ROW(HEAP_SHIFT, "CodeHeap", "_log2_segment_size")                                    \
    ROW(BLOCK_USED, "HeapBlock::Header", "_used")                                        \
    ROW(SPACE_LOW, "VirtualSpace", "_low_boundary")                                      \
    ROW(SPACE_HIGH, "VirtualSpace", "_high_boundary")                                    \
    ROW(BLOB_NAME, "CodeBlob", "_name")                                                  \
    ROW(BLOB_FRAME, "CodeBlob", "_frame_size")                                           \
    ROW(BLOB_COMPLETE, "CodeBlob", "_frame_complete_offset")                             \
    ROW(BLOB_CODE, "CodeBlob", "_code_begin") /* 9 to 22, else … */                    \
    ROW(BLOB_CODE_OFFSET, "CodeBlob", "_code_offset")                                    \
    ROW(BLOB_RELOCATION, "CodeBlob", "_relocation_size")                                 \
    ROW(BLOB_MUTABLE, "CodeBlob", "_mutable_data") /* from 25 on */                      \
    ROW(DEOPT_8, "nmethod", "_deoptimize_offset")  /* 8 */                               \
    ROW(DEOPT_8_MH, "nmethod", "_deoptimize_mh_offset")                                  \
    ROW(DEOPT_9, "CompiledMethod", "_deopt_handler_begin") /* 9 to 22 */                 \
    ROW(DEOPT_9_MH, "CompiledMethod", "_deopt_mh_handler_begin")                         \
    ROW(DEOPT_23, "nmethod", "_deopt_handler_offset") /* from 23 on … */               \
    ROW(DEOPT_23_MH, "nmethod", "_deopt_mh_handler_offset")                              \
    ROW(DEOPT_26, "nmethod", "_deopt_handler_entry_offset") /* … and from 26 on */     \
    ROW(ORIGINAL_PC, "nmethod", "_orig_pc_offset")                                       \
    ROW(ID, "nmethod", "_compile_id")                                                    \
    ROW(METHOD, "nmethod", "_method") /* 8, and from 23 on */                            \
    ROW(METHOD_9, "CompiledMethod", "_method")                                           \
    ROW(PCS, "nmethod", "_scopes_pcs_offset")                                            \
    ROW(DEPENDENCIES, "nmethod", "_dependencies_offset") /* behind the PcDescs, to 22 */ \
    ROW(SCOPES, "nmethod", "_scopes_data_offset")                                        \
    ROW(SCOPES_9, "CompiledMethod", "_scopes_data_begin")                                \
    ROW(METADATA, "nmethod", "_metadata_offset")                                         \
    ROW(IMMUTABLE, "nmethod", "_immutable_data") /* from 23 on */                        \
    ROW(METHOD_CONST, "Method", "_constMethod")                                          \
    ROW(CONST_CODE, "ConstMethod", "_code_size")                                         \
    ROW(CONST_POOL, "ConstMethod", "_constants")                                         \
    ROW(CONST_NAME, "ConstMethod", "_name_index")                                        \
    ROW(CONST_FLAGS, "ConstMethod", "_flags")                                            \
    ROW(CONST_FLAGS_21, "ConstMethod", "_flags._flags")                                  \
    ROW(POOL_HOLDER, "ConstantPool", "_pool_holder")                                     \
    ROW(POOL_SOURCE, "ConstantPool", "_source_file_name_index")                          \
    ROW(KLASS_SOURCE, "InstanceKlass", "_source_file_name_index")                        \
    ROW(KLASS_NAME, "Klass", "_name")                                                    \
    ROW(SYMBOL_LENGTH, "Symbol", "_length")                                              \
    ROW(SYMBOL_BODY, "Symbol", "_body")                                                  \
    ROW(SYMBOL_BODY_0, "Symbol", "_body[0]")                                             \
    ROW(CALL_STUB, "StubRoutines", "_call_stub_return_address")                          \
    ROW(MAJOR, "Abstract_VM_Version", "_vm_major_version")                               \
    ROW(MINOR, "Abstract_VM_Version", "_vm_minor_version")                               \
    ROW(MICRO, "Abstract_VM_Version", "_vm_security_version")

#define NUMBER(number, type, name) number,
enum number { FIELDS(NUMBER) N_FIELDS };
#undef NUMBER

enum type { TYPE_BLOCK, TYPE_CONST, TYPE_POOL, TYPE_PC, N_TYPES };

/* Those looked up. */
struct found {
    struct structs_field field[N_FIELDS];
    struct structs_type type[N_TYPES];
    const struct source *memory;
    bool is_wrong; /* something that is needed is not there, or makes no sense */
};

#define OFFSET_MAX 2048u

/* The offset of a field: of the first of two that is there. */
static uint16_t either(struct found *f, enum number one, enum number other)
{
    const struct structs_field *field = &f->field[f->field[one].is_there ? one : other];
    f->is_wrong |= !field->is_there || field->offset >= OFFSET_MAX;
    return (uint16_t)field->offset;
}

static uint16_t offset(struct found *f, enum number number)
{
    return either(f, number, number);
}

static bool has(const struct found *f, enum number number)
{
    return f->field[number].is_there;
}

/* The offset of a field that nothing but the names needs; 0: it is not there. */
static uint16_t wish(const struct found *f, enum number number)
{
    const struct structs_field *field = &f->field[number];
    return field->is_there && field->offset < OFFSET_MAX ? (uint16_t)field->offset : 0;
}

/* What a static field has, or what is at an address. */
static uint64_t value(struct found *f, uint64_t address, size_t n)
{
    uint64_t ret = 0;
    if (!address || !source_read(f->memory, address, &ret, n))
        f->is_wrong = true;
    return ret;
}

static uint64_t in_static(struct found *f, enum number number, size_t n)
{
    return has(f, number) && f->field[number].address ? value(f, f->field[number].address, n) : 0;
}

static void blob(struct found *f, struct hotspot_place *p)
{
    p->blob_name = offset(f, BLOB_NAME);
    p->blob_frame = offset(f, BLOB_FRAME);
    p->blob_complete = offset(f, BLOB_COMPLETE);
    p->blob_code = either(f, BLOB_CODE, BLOB_CODE_OFFSET);
    p->is_relative |= has(f, BLOB_CODE) ? 0 : HOTSPOT_CODE;
    p->is_relative |= f->field[BLOB_COMPLETE].is_short ? HOTSPOT_SHORT : 0;
    uint16_t *const in_blob[] = {&p->blob_name, &p->blob_frame, &p->blob_complete, &p->blob_code};
    p->blob_from = OFFSET_MAX;
    for (size_t i = 0; i < sizeof in_blob / sizeof *in_blob; i++)
        p->blob_from = min_of(p->blob_from, (uint16_t)(*in_blob[i] & ~7u));
    for (size_t i = 0; i < sizeof in_blob / sizeof *in_blob; i++) {
        *in_blob[i] -= p->blob_from;
        f->is_wrong |= *in_blob[i] >= 8 * HOTSPOT_BLOB_WORDS;
    }
}

static void nmethod(struct found *f, struct hotspot_place *p)
{
    bool is_9 = has(f, DEOPT_9);
    enum number first = is_9 ? DEOPT_9 : has(f, DEOPT_8) ? DEOPT_8 : has(f, DEOPT_23) ? DEOPT_23 : DEOPT_26;
    p->nmethod_deopt[0] = offset(f, first);
    p->nmethod_deopt[1] = wish(f, is_9 ? DEOPT_9_MH : first == DEOPT_8 ? DEOPT_8_MH : DEOPT_23_MH);
    p->is_relative |= is_9 ? 0 : HOTSPOT_DEOPT;
    p->nmethod_original_pc = offset(f, ORIGINAL_PC);
    p->nmethod_id = offset(f, ID);
    p->nmethod_method = either(f, METHOD, METHOD_9);
}

/* Where compiled code says what is inlined in it, and which lines it is of; without any, it is of its method.
 */
static void scopes(struct found *f, struct hotspot_place *p)
{
    if (f->type[TYPE_PC].size != 16)
        return;
    p->nmethod_pcs = wish(f, PCS);
    p->nmethod_scopes = wish(f, has(f, SCOPES_9) ? SCOPES_9 : SCOPES);
    p->is_relative |= has(f, SCOPES_9) ? 0 : HOTSPOT_SCOPES;
    if (has(f, IMMUTABLE)) {
        p->is_relative |= HOTSPOT_APART;
        p->nmethod_apart = wish(f, IMMUTABLE);
        p->nmethod_pcs_end = p->nmethod_scopes;
        p->nmethod_metadata = wish(f, BLOB_MUTABLE); /* 23 and 24 have it elsewhere: not known */
        p->nmethod_relocation = wish(f, BLOB_RELOCATION);
    } else {
        p->nmethod_pcs_end = wish(f, DEPENDENCIES);
        p->nmethod_metadata = wish(f, METADATA);
    }
    if (!p->nmethod_pcs_end || !p->nmethod_scopes || !p->nmethod_metadata)
        p->nmethod_pcs = 0;
    p->is_relative |= p->major >= 20 ? HOTSPOT_BYTES : 0;
}

static void names(struct found *f, struct hotspot_place *p)
{
    p->method_const = offset(f, METHOD_CONST);
    p->const_size = (uint16_t)f->type[TYPE_CONST].size;
    p->const_code_size = offset(f, CONST_CODE);
    p->const_constants = offset(f, CONST_POOL);
    p->const_name = offset(f, CONST_NAME);
    p->const_flags = either(f, CONST_FLAGS, CONST_FLAGS_21);
    p->pool_holder = offset(f, POOL_HOLDER);
    p->pool_size = (uint16_t)f->type[TYPE_POOL].size;
    p->source_name = either(f, POOL_SOURCE, KLASS_SOURCE);
    p->is_relative |= has(f, POOL_SOURCE) ? 0 : HOTSPOT_SOURCE;
    p->klass_name = offset(f, KLASS_NAME);
    p->symbol_length = offset(f, SYMBOL_LENGTH);
    p->symbol_body = either(f, SYMBOL_BODY, SYMBOL_BODY_0);
    /* All of a ConstMethod that is looked at is in its first 64 bytes. */
    f->is_wrong |=
        f->type[TYPE_CONST].size - 1 >= OFFSET_MAX || f->type[TYPE_POOL].size - 1 >= OFFSET_MAX ||
        max_of(max_of(p->const_code_size, p->const_name), max_of(p->const_constants, p->const_flags)) > 60 ||
        p->const_constants % 8 || p->const_code_size % 2 || p->const_name % 2;
}

/* One part of the code cache. */
static void heap(struct found *f, struct hotspot_place *p, uint32_t i, uint64_t at)
{
    uint64_t low = value(f, at + offset(f, HEAP_MEMORY) + offset(f, SPACE_LOW), 8),
             high = value(f, at + offset(f, HEAP_MEMORY) + offset(f, SPACE_HIGH), 8),
             segments = value(f, at + offset(f, HEAP_SEGMENTS) + offset(f, SPACE_LOW), 8),
             shift = value(f, at + offset(f, HEAP_SHIFT), 4);
    f->is_wrong |=
        low >= high || !segments || shift < 3 || shift > 16 || (i > 0 && p->segment_shift != shift);
    p->segment_shift = (uint8_t)shift;
    p->heap[i] = (struct hotspot_heap){.low = low, .size = high - low, .segments = segments};
}

static void heaps(struct found *f, struct hotspot_place *p)
{
    uint64_t at = in_static(f, has(f, HEAPS) ? HEAPS : HEAP, 8);
    uint64_t block = f->type[TYPE_BLOCK].size;
    f->is_wrong |= block == 0 || block > 64;
    p->block_header = (uint8_t)block;
    p->block_used = wish(f, BLOCK_USED) < block ? (uint8_t)wish(f, BLOCK_USED) : 0;
    if (!has(f, HEAPS)) {
        heap(f, p, 0, at);
        return;
    }
    uint64_t n = value(f, at + either(f, ARRAY_N_BASE, ARRAY_N), 4),
             data = value(f, at + offset(f, ARRAY_DATA), 8);
    f->is_wrong |= n == 0 || n > HOTSPOT_HEAPS;
    for (uint32_t i = 0; i < n && !f->is_wrong; i++)
        heap(f, p, i, value(f, data + 8ull * i, 8));
}

/* HotSpot had a version of its own up to JDK 8: 25.402 is in 8u402. */
#define HOTSPOT_OF_8 25u

static void version(struct found *f, struct hotspot_place *p)
{
    p->major = (uint16_t)in_static(f, MAJOR, 4);
    p->minor = (uint16_t)in_static(f, MINOR, 4);
    p->micro = (uint16_t)in_static(f, MICRO, 4);
    if (!has(f, HEAPS) && p->major == HOTSPOT_OF_8) {
        p->major = 8;
        p->micro = p->minor;
        p->minor = 0;
    }
}

int hotspot_layout(struct hotspot_place *ret, const struct source *file, const struct source *memory,
                   uint64_t bias)
{
    struct found f = {
#define FIELD(number, of, called) [number] = {.type = of, .name = called},
        .field = {FIELDS(FIELD)},
#undef FIELD
        .type = {[TYPE_BLOCK] = {.name = "HeapBlock"},
                 [TYPE_CONST] = {.name = "ConstMethod"},
                 [TYPE_POOL] = {.name = "ConstantPool"},
                 [TYPE_PC] = {.name = "PcDesc"}},
        .memory = memory};
    struct hotspot_place place = {0};
    int r = structs_find(file, memory, bias, f.field, N_FIELDS, f.type, N_TYPES);
    if (r != 0)
        return r;
    /* The heaps are made one after the other, and then what Java's code is entered by. */
    if (!in_static(&f, CALL_STUB, 8))
        return has(&f, CALL_STUB) ? -EAGAIN : RUNTIME_NOT_KNOWN;
    version(&f, &place);
    blob(&f, &place);
    nmethod(&f, &place);
    scopes(&f, &place);
    names(&f, &place);
    heaps(&f, &place);
    place.bcp = place.major < 9 ? 7 : 8; /* frame_x86.hpp; 9 added the class's mirror */
    if (f.is_wrong)
        return RUNTIME_NOT_KNOWN;
    *ret = place;
    return 0;
}
