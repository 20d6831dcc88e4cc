/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/address.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "proto/base/macros.h"

static bool is_v4_mapped(const struct in6_addr *a)
{
    return IN6_IS_ADDR_V4MAPPED(a);
}

static struct bytes key_v6(struct in6_addr *a, char to[ADDRESS_KEY_MAX])
{
    char text[INET6_ADDRSTRLEN];
    if (is_v4_mapped(a)) {
        inet_ntop(AF_INET, &a->s6_addr[12], text, sizeof text);
        snprintf(to, ADDRESS_KEY_MAX, "ip:%s", text);
    } else {
        memset(&a->s6_addr[8], 0, 8);
        inet_ntop(AF_INET6, a, text, sizeof text);
        snprintf(to, ADDRESS_KEY_MAX, "ip:%s/64", text);
    }
    return bytes_str(to);
}

struct bytes address_key(const char *address, char to[ADDRESS_KEY_MAX])
{
    char host[INET6_ADDRSTRLEN];
    bool bracket = address[0] == '[';
    const char *start = address + bracket;
    size_t n = strcspn(start, bracket ? "]%" : ":");
    if (n < sizeof host) {
        struct in6_addr v6;
        struct in_addr v4;
        memcpy(host, start, n);
        host[n] = 0;
        if (bracket && inet_pton(AF_INET6, host, &v6) == 1)
            return key_v6(&v6, to);
        if (!bracket && inet_pton(AF_INET, host, &v4) == 1) {
            snprintf(to, ADDRESS_KEY_MAX, "ip:%s", host);
            return bytes_str(to);
        }
    }
    snprintf(to, ADDRESS_KEY_MAX, "at:%.*s", (int)min_of(strlen(address), (size_t)ADDRESS_KEY_MAX - 4),
             address);
    return bytes_str(to);
}
