/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "sender/symbolize/demangle.h"

static const char *readable(const char *mangled)
{
    static char to[DEMANGLE_OUT_MAX];
    size_t n = demangle(bytes_str(mangled), to, sizeof to);
    ck_assert_uint_eq(n, n ? strlen(to) : 0);
    return n ? to : NULL;
}

static void check(const char *mangled, const char *want)
{
    const char *got = readable(mangled);
    if (!want)
        ck_assert_ptr_null(got);
    else
        ck_assert_str_eq(got, want);
}

UNIT(cxx_names)
{
    check("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)");
    check("_ZN3app4workIjEET_S1_", "unsigned int app::work<unsigned int>(unsigned int)");
    check("_Z3foov.isra.0", "foo() [clone .isra.0]");
    check("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const");
}

UNIT(rust_names_old_and_new)
{
    check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
    check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123456789", "core::fmt::Write::write_fmt");
    check(
        "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
        "<Test + 'static as foo::Bar<Test>>::bar");
    check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
    check("_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
          "<std::path::PathBuf>::new");
    check("_RNvNtNtCs1234_7mycrateu8gdel_5qa6escher4bach", "mycrate::gödel::escher::bach");
    check("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
          "utf8_idents::საჭმელად_გემრიელი_სადილი");
}

/* rustc 1.95: "u3" stands in the hash of crate alloc, "G" in what it calls its allocator; in a program of 641
 * functions 165 were refused for it. */
UNIT(a_hash_is_no_punycode)
{
    check(
        "_RINvMsa_NtCsgvbsrvnw3yD_9hashbrown3rawNtB6_13RawTableInner22fallible_with_capacityNtNtCslNYArtu3iFV_"
        "5alloc5alloc6GlobalECs6xxl1lAjzDf_1a",
        "<hashbrown::raw::RawTableInner>::fallible_with_capacity::<alloc::alloc::Global>");
    check(
        "_RINvMsi_NtNtNtCslNYArtu3iFV_5alloc11collections5btree3mapINtB6_8BTreeMapyNtNtNtCsduwmD7cSIQq_5gimli4read6"
        "abbrev12AbbreviationE3getyEB1f_",
        "<alloc::collections::btree::map::BTreeMap<u64, gimli::read::abbrev::Abbreviation>>::get::<u64>");
    check(
        "_RINvMs10_NtNtNtCslNYArtu3iFV_5alloc11collections5btree4nodeINtB7_16BalancingContextjNtNtNtNtNtNtCsjrHSEGnQ"
        "3l9_3std3sys3pal4unix14stack_overflow11thread_info10ThreadInfoE25merge_tracking_child_edgeNtNtBd_5alloc6Gl"
        "obalEB1w_",
        "<alloc::collections::btree::node::BalancingContext<usize, std::sys::pal::unix::stack_overflow::thread_info"
        "::ThreadInfo>>::merge_tracking_child_edge::<alloc::alloc::Global>");
}

/* Where identifiers can stand: behind tuples, closures, constants, the type i16, arrays. */
UNIT(punycode_wherever_it_stands)
{
    check("_RINvCs12jkoC9p3aE_1pu9gre_6ka8iTssENCNvB2_4mains_0Kb1_Kcfc_EB2_",
          "p::größe::<(i16, i16), p::main::{closure#1}, true, '\\u{fc}'>");
    check("_RNvMNtNtCs12jkoC9p3aE_1pu8gdel_5qau9eschr_esaINtB2_u8rger_zjaTsmEKj4_Eu8ffne_4qaB6_",
          "<p::gödel::eschér::Ärger<(i16, u32), 4>>::öffne");
    check(
        "_RNvXs1g_NtCs8NwYtU1Mohg_4core3fmtRINtNtNtCs3DkkXZSZGZp_1pu8gdel_5qau9eschr_esau8rger_zjasKj3_ENtB6_5Debug"
        "3fmtBD_",
        "<&p::gödel::eschér::Ärger<i16, 3> as core::fmt::Debug>::fmt");
}

UNIT(names_that_are_not_mangled)
{
    check("main", NULL);
    check("", NULL);
    check("_Z", NULL);
    check("_R", NULL);
    check("_Znotamangledname", NULL);
    check("runtime.main", NULL);
}

/* Each argument names the one before twice. */
static void doubled(char *to, size_t room, unsigned levels)
{
    size_t n = (size_t)snprintf(to, room, "_Z1fSt4pairIiiE"); /* S_: std::pair, S0_: std::pair<int, int> */
    for (unsigned i = 0; i < levels && n < room; i++)
        n += (size_t)snprintf(to + n, room - n, "S_IS%c_S%c_E", "0123456789ABCDEF"[i], "0123456789ABCDEF"[i]);
}

UNIT(a_short_name_that_stands_for_gigabytes_stays_mangled)
{
    char bomb[1024];
    doubled(bomb, sizeof bomb, 2);
    ck_assert_ptr_nonnull(readable(bomb)); /* a few of them are fine */
    doubled(bomb, sizeof bomb, 16);
    ck_assert_ptr_null(readable(bomb));
    /* The same in Rust: a tuple of two references back, many times over. */
    size_t n = (size_t)snprintf(bomb, sizeof bomb, "_RINvC1a1b");
    size_t last = n - 2;
    n += (size_t)snprintf(bomb + n, sizeof bomb - n, "TllE");
    static const char digit[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    last = n - 4 - 2;
    for (unsigned i = 0; i < 40; i++) {
        size_t here = n - 2;
        char two[3] = {digit[(last - 1) / 62], digit[(last - 1) % 62], 0};
        const char *at = last - 1 < 62 ? two + 1 : two;
        n += (size_t)snprintf(bomb + n, sizeof bomb - n, "TB%s_B%s_E", at, at);
        last = here;
    }
    snprintf(bomb + n, sizeof bomb - n, "E");
    ck_assert_ptr_null(readable(bomb));
}

/* libiberty holds memory while it gives the text of an identifier in punycode: it is not left then. (Under
 * AddressSanitizer a leak fails the case.) */
UNIT(a_name_in_punycode_is_never_left_half_way)
{
    char name[DEMANGLE_IN_MAX];
    check("_RNvCs1234_7mycrateu8gdel_5qa", "mycrate::g\xc3\xb6"
                                           "del");
    /* Too long for what it may become, in the middle of such an identifier, many times over. */
    for (size_t n = 100; n < 900; n += 7) {
        size_t at = (size_t)snprintf(name, sizeof name, "_RNvC7mycrateu%zu", n + 4);
        for (size_t i = 0; i < n; i++)
            name[at++] = (char)('a' + i % 26);
        snprintf(name + at, sizeof name - at, "_5qa");
        (void)readable(name);
    }
    /* Deltas that overflow what they are counted in, so that characters come out that were none. */
    for (char last = 'a'; last <= 'z'; last++) {
        size_t at = (size_t)snprintf(name, sizeof name, "_RNvC7mycrateu604");
        for (size_t i = 0; i < 300; i++)
            name[at++] = 'x';
        name[at++] = '_';
        for (size_t i = 0; i < 303; i++)
            name[at++] = i % 7 == 6 ? last : '9';
        name[at] = 0;
        (void)readable(name);
    }
    /* What could go on for years stays as it is. */
    check("_RNvCs1234_7mycrateu8gdel_5qaGzzzzzzzzz_", NULL);
    check("_RINvC1au8gdel_5qaTB1_B1_B1_B1_B1_B1_B1_EE", NULL);
}

/* Where the text is left out, an impl's place, the demangler says nothing while it counts lifetimes, so it
 * could not be left: this name was busy for centuries. */
UNIT(lifetimes_nobody_wrote_are_not_counted)
{
    check("_RNvMs4_Ms0_NtCs3_5alloc7raw_vecFGGGqNtCs3_5alloc7raw_vecFGGGq_3", NULL);
    check("_RNvMFGzzzzzzzzz_EuE3foo", NULL);
    check("_RNvC1a3foo", "a::foo");
    check("_RINvC1a3fooFG0_RL0_hEuE", "a::foo::<for<'a, 'b> fn(&'b u8)>");
}

UNIT(long_names_stay_mangled)
{
    static char name[DEMANGLE_IN_MAX + 64];
    memset(name, 'a', sizeof name - 1);
    memcpy(name, "_Z2000", 6);
    check(name, NULL);
}
