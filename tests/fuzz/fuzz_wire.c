/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/wire */
/*
 * The wire reader: every message it accepts is written again from its fields and must come out the same, also
 * for the padded reader; nested messages go through the shape checker.
 */
#include <stdlib.h>

#include "proto/wire/load.h"
#include "proto/wire/writer.h"
#include "tests/fuzz/fuzz.h"

/* message Tree { Tree child = 1; int32 n = 2; … } */
static const struct wire_known tree_fields[] = {{1, WIRE_LEN, 0}, {2, WIRE_VARINT, -1}, {5, WIRE_LEN, 0}};
static const struct wire_shape tree[] = {{tree_fields, ARRAY_LEN(tree_fields)}};

static void same_field(const struct wire_field *a, const struct wire_field *b)
{
    require(a->number == b->number && a->type == b->type);
    bool has_bytes = a->type == WIRE_LEN || a->type == WIRE_SGROUP;
    require(has_bytes ? bytes_eq(a->bytes, b->bytes) : a->value == b->value);
}

static void write_field(struct wire_writer *w, const struct wire_field *f)
{
    switch (f->type) {
    case WIRE_VARINT: wire_put_uint(w, f->number, f->value); break;
    case WIRE_I64: wire_put_fixed64(w, f->number, f->value); break;
    case WIRE_LEN: wire_put_bytes(w, f->number, f->bytes); break;
    default: break; /* no field of ours is fixed32 or a group */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    autofree uint8_t *copy = calloc(1, len + WIRE_LOAD_PADDING);
    autofree uint32_t *out = malloc((len + WIRE_PACKED_SLACK) * sizeof *out);
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    require(copy && out);
    memcpy(copy, data, len);
    struct wire_reader plain = wire_reader(bytes_of(data, len)), fast = wire_reader(bytes_of(copy, len)),
                       again;
    struct wire_field f, g;
    int r, s;
    while ((r = wire_next(&plain, &f)) == 0) {
        require(wire_load_next(&fast, &g) == 0);
        same_field(&f, &g);
        size_t from = b.n;
        write_field(&w, &f);
        if (f.type != WIRE_I32 && f.type != WIRE_SGROUP) {
            again = wire_reader(bytes_of(b.p + from, b.n - from));
            require(wire_next(&again, &g) == 0);
            same_field(&f, &g);
        }
        if (f.type == WIRE_LEN) {
            const uint8_t *list = copy + (f.bytes.p - data), *end = list + f.bytes.n;
            uint32_t n = 0, m;
            const uint8_t *p = wire_load_packed32(list, end, out, &n);
            for (uint32_t k = 0; wire_packed32_reader(k); k++)
                require(wire_packed32_reader(k)(list, end, out, (m = 0, &m)) == p &&
                        (p == WIRE_BAD || n == m));
        }
    }
    s = wire_load_next(&fast, &g);
    require(r == s);
    wire_check(bytes_of(data, len), tree, 0, 20);
    return 0;
}
