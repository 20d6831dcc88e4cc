/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/snappy.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <snappy-c.h>

#include "proto/base/library/library.h"

/* §4: one byte of type, three of length, little-endian. */
#define CHUNK_HEAD 4u
#define CRC_BYTES  4u

/* §4.2, §4.3: a chunk holds at most this much, uncompressed. */
#define CHUNK_MAX 65536u

enum chunk {
    CHUNK_COMPRESSED = 0x00,
    CHUNK_PLAIN = 0x01,
    CHUNK_SKIPPABLE = 0x80, /* and all above: reserved skippable, padding, and the identifier */
    CHUNK_IDENTIFIER = 0xff,
};

static const uint8_t identifier[] = {CHUNK_IDENTIFIER, 6, 0, 0, 's', 'N', 'a', 'P', 'p', 'Y'};

/* The most that a byte of a block can become: an element of three bytes copies 64 (format_description.txt
 * §2.2), so 64/3 and a part. What claims more is refused before anything is allocated for it. */
#define BLOCK_RATIO_MAX 22u

/* A block of at least one element, whose claim is possible. */
static int block_length(struct bytes in, size_t *ret)
{
    size_t n;
    if (snappy_uncompressed_length((const char *)in.p, in.n, &n) != SNAPPY_OK || n / BLOCK_RATIO_MAX > in.n)
        return CODING_CORRUPT;
    *ret = n;
    return 0;
}

/* The block into room that is there for its n bytes. */
static int block_read(struct bytes in, size_t n, struct job *j)
{
    size_t made = n;
    if (snappy_uncompress((const char *)in.p, in.n, (char *)j->out->p + j->out->n, &made) != SNAPPY_OK ||
        made != n)
        return CODING_CORRUPT;
    j->out->n += n;
    return 0;
}

static int block_decode(struct job *j)
{
    size_t n;
    int r = block_length(j->in, &n);
    if (r != 0)
        return r;
    if (n > job_left(j))
        return CODING_TOO_LARGE;
    r = job_reserve(j, n);
    return r != 0 ? r : block_read(j->in, n, j);
}

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* §3: a CRC-32C (RFC 3720, appendix B.4), masked so that one over bytes that hold checksums is no trap. */
static uint32_t masked_crc(struct bytes plain)
{
    const uint32_t crc = ~crc32_iscsi((uint8_t *)plain.p, (int)plain.n, ~0u);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* A chunk of data without its head. */
static int data_chunk(struct job *j, enum chunk type, struct bytes body)
{
    size_t n;
    if (body.n < CRC_BYTES)
        return CODING_CORRUPT;
    const struct bytes data = bytes_of(body.p + CRC_BYTES, body.n - CRC_BYTES);
    int r = type == CHUNK_COMPRESSED ? block_length(data, &n) : (n = data.n, 0);
    if (r != 0 || n > CHUNK_MAX)
        return CODING_CORRUPT;
    if (n > job_left(j))
        return CODING_TOO_LARGE;
    if (n > job_room(j) && (r = job_reserve(j, max_of(n, job_room(j) * JOB_GROWTH))) != 0)
        return r;
    const size_t at = j->out->n;
    if (type == CHUNK_COMPRESSED) {
        r = block_read(data, n, j);
        if (r != 0)
            return r;
    } else if (n > 0) {
        memcpy(j->out->p + at, data.p, n);
        j->out->n += n;
    }
    return masked_crc(bytes_of(j->out->p + at, n)) == load32(body.p) ? 0 : CODING_CORRUPT;
}

static bool is_identifier(struct bytes in)
{
    return in.n >= sizeof identifier && memcmp(in.p, identifier, sizeof identifier) == 0;
}

static int framed_decode(struct job *j)
{
    struct bytes in = j->in;
    int r = library_load(&library_isal, NULL);
    r = r < 0 ? r : job_reserve(j, job_guess(in.n));
    while (r == 0 && in.n > 0) {
        if (in.n < CHUNK_HEAD)
            return CODING_CORRUPT;
        const uint8_t type = in.p[0];
        const size_t n = load32(in.p) >> 8;
        const struct bytes body = bytes_of(in.p + CHUNK_HEAD, n);
        if (n > in.n - CHUNK_HEAD)
            return CODING_CORRUPT;
        if (type == CHUNK_COMPRESSED || type == CHUNK_PLAIN)
            r = data_chunk(j, (enum chunk)type, body);
        else if (type < CHUNK_SKIPPABLE || (type == CHUNK_IDENTIFIER && !is_identifier(in)))
            return CODING_CORRUPT; /* §4.5: unskippable, of a later format; §4.1: another stream's identifier
                                    */
        in = bytes_of(body.p + n, in.n - CHUNK_HEAD - n);
    }
    return r;
}

int snappy_decode(struct job *j)
{
    if (j->in.n == 0)
        return job_reserve(j, 0);
    int r = library_load(&library_snappy, NULL);
    if (r < 0)
        return r;
    return is_identifier(j->in) ? framed_decode(j) : block_decode(j);
}

/* format_description.txt §1: the length is a 32-bit varint. */
int coding_encode_snappy_block(struct bytes in, struct buffer *out)
{
    if (in.n > UINT32_MAX)
        return -EMSGSIZE;
    int r = library_load(&library_snappy, NULL);
    if (r < 0)
        return r;
    size_t made = snappy_max_compressed_length(in.n);
    uint8_t *to = buffer_cursor(out, made);
    if (!to)
        return buffer_reserve(out, made);
    if (snappy_compress((const char *)in.p, in.n, (char *)to, &made) != SNAPPY_OK)
        return -ENOMEM;
    out->n += made;
    return 0;
}

static void store32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

int snappy_encode(struct bytes in, struct buffer *out)
{
    const size_t was = out->n;
    int r = library_load(&library_snappy, NULL);
    r = r < 0 ? r : library_load(&library_isal, NULL);
    r = r < 0 ? r : buffer_add(out, identifier, sizeof identifier);
    while (r == 0 && in.n > 0) {
        const struct bytes plain = bytes_of(in.p, min_of(in.n, (size_t)CHUNK_MAX));
        size_t made = snappy_max_compressed_length(plain.n);
        uint8_t *head = buffer_cursor(out, CHUNK_HEAD + CRC_BYTES + made), *data;
        if (!head) {
            r = buffer_reserve(out, CHUNK_HEAD + CRC_BYTES + made);
            break;
        }
        data = head + CHUNK_HEAD + CRC_BYTES;
        enum chunk type = CHUNK_COMPRESSED;
        if (snappy_compress((const char *)plain.p, plain.n, (char *)data, &made) != SNAPPY_OK ||
            made >= plain.n) {
            memcpy(data, plain.p, plain.n);
            type = CHUNK_PLAIN;
            made = plain.n;
        }
        store32(head, (uint32_t)type | (uint32_t)(made + CRC_BYTES) << 8);
        store32(head + CHUNK_HEAD, masked_crc(plain));
        out->n += CHUNK_HEAD + CRC_BYTES + made;
        in = bytes_of(in.p + plain.n, in.n - plain.n);
    }
    if (r != 0)
        out->n = was;
    return r;
}
