/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The field is the request, the hash, and the request's length, by which it is found from the end without
 * going through the profile: what stands before it must be the tag and length that it would have.
 */
#include "proto/convert/original.h"

#include <endian.h>

#include "proto/base/hash.h"
#include "proto/wire/writer.h"

#define FIELD 4317u

/* Two words of 64 bits in little-endian order. */
#define HASH_BYTES   8u
#define LENGTH_BYTES 8u
#define TAIL_BYTES   (HASH_BYTES + LENGTH_BYTES)

static uint64_t word_at(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return le64toh(word);
}

static int append_word(struct buffer *out, uint64_t word)
{
    word = htole64(word);
    return buffer_add(out, &word, sizeof word);
}

/* Tag and length of the field. */
static int append_head(struct buffer *out, size_t n)
{
    struct wire_writer w = wire_writer(out);
    wire_put_varint(&w, FIELD << 3 | WIRE_LEN);
    wire_put_varint(&w, n + TAIL_BYTES);
    return w.failed;
}

int original_append(struct buffer *out, size_t begun, struct bytes otlp)
{
    const size_t was = out->n;
    const uint64_t hash = hash_bytes(bytes_of(out->p + begun, was - begun), 0);
    int r = append_head(out, otlp.n);
    r = r < 0 ? r : buffer_add_bytes(out, otlp);
    r = r < 0 ? r : append_word(out, hash);
    r = r < 0 ? r : append_word(out, otlp.n);
    if (r < 0)
        out->n = was;
    return r;
}

bool original_of(struct bytes pprof, struct bytes *ret)
{
    uint8_t bytes[3 * WIRE_VARINT_MAX];
    struct buffer head = {.p = bytes, .cap = sizeof bytes, .max = sizeof bytes};
    const uint64_t n = pprof.n > TAIL_BYTES ? word_at(pprof.p + pprof.n - LENGTH_BYTES) : UINT64_MAX;
    if (n > pprof.n || pprof.n - n < TAIL_BYTES || append_head(&head, n) < 0 ||
        pprof.n - n - TAIL_BYTES < head.n)
        return false;
    const size_t before = pprof.n - n - TAIL_BYTES - head.n;
    if (memcmp(pprof.p + before, bytes, head.n) != 0 ||
        word_at(pprof.p + pprof.n - TAIL_BYTES) != hash_bytes(bytes_of(pprof.p, before), 0))
        return false;
    *ret = bytes_of(pprof.p + before + head.n, n);
    return true;
}
