/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/sha256.h"

#include <endian.h>
#include <string.h>

#define BLOCK 64u

/* Section 4.2.2: of the cube roots of the first 64 primes. */
static const uint32_t constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Section 6.2.2. */
static void take(uint32_t hash[8], const uint8_t block[BLOCK])
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 64; i++) {
        if (i < 16) {
            memcpy(&w[i], block + 4 * i, 4);
            w[i] = be32toh(w[i]);
            continue;
        }
        uint32_t s0 = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, hash, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                     constant[i] + w[i];
        uint32_t u =
            (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t;
        v[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        hash[i] += v[i];
}

void sha256(struct bytes text, uint8_t ret[SHA256_BYTES])
{
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[2 * BLOCK] = {0}; /* section 5.1.1: a bit, zeros, and the length in bits */
    size_t rest = text.n % BLOCK, n = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint64_t bits = htobe64((uint64_t)text.n * 8);
    for (size_t i = 0; i + BLOCK <= text.n; i += BLOCK)
        take(hash, text.p + i);
    if (rest)
        memcpy(last, text.p + text.n - rest, rest);
    last[rest] = 0x80;
    memcpy(last + n - sizeof bits, &bits, sizeof bits);
    for (size_t i = 0; i < n; i += BLOCK)
        take(hash, last + i);
    for (int i = 0; i < 8; i++) {
        uint32_t word = htobe32(hash[i]);
        memcpy(ret + 4 * i, &word, sizeof word);
    }
}
