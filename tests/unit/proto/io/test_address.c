/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/address.h"
#include "tests/lib/unit.h"

static void is(const char *address, const char *key)
{
    char text[ADDRESS_KEY_MAX];
    struct bytes got = address_key(address, text);
    ck_assert_msg(bytes_is(got, key), "%s: %.*s", address, BYTES_FMT(got));
}

UNIT(an_ipv4_address_is_one_client_whatever_its_port)
{
    is("192.0.2.7:40312", "ip:192.0.2.7");
    is("192.0.2.7:1", "ip:192.0.2.7");
    is("[::ffff:192.0.2.7]:9", "ip:192.0.2.7");
}

UNIT(an_ipv6_client_is_a_network_of_64_bits)
{
    is("[2001:db8:1:2:3:4:5:6]:4317", "ip:2001:db8:1:2::/64");
    is("[2001:db8:1:2:ffff::9]:1", "ip:2001:db8:1:2::/64");
    is("[2001:db8:1:3::1]:1", "ip:2001:db8:1:3::/64");
    is("[fe80::1%eth0]:4317", "ip:fe80::/64");
    is("[::1]:4317", "ip:::/64");
}

UNIT(what_is_no_address_stands_for_itself_and_is_cut)
{
    is("unix", "at:unix");
    is("", "at:");
    is("1.2.3:4", "at:1.2.3:4");
    char text[ADDRESS_KEY_MAX];
    ck_assert_uint_lt(
        address_key("01234567890123456789012345678901234567890123456789012345678901234567890123", text).n,
        ADDRESS_KEY_MAX);
}
