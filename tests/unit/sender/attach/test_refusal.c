/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "sender/attach/refusal.h"

#define BIT(c) (UINT64_C(1) << (c))

static struct refusal_facts fine(void)
{
    return (struct refusal_facts){.capabilities = UINT64_MAX,
                                  .has_sys = true,
                                  .has_btf = true,
                                  .memlock = UINT64_MAX,
                                  .release = "6.1.0"};
}

UNIT(effective_capabilities_are_read_from_status)
{
    struct bytes status =
        BYTES_LIT("Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000000c000000000\nCapBnd:\t0\n");
    ck_assert_uint_eq(refusal_capabilities(status), BIT(CAP_PERFMON) | BIT(CAP_BPF));
    ck_assert_uint_eq(refusal_capabilities(BYTES_LIT("Name:\tx\n")), 0);
}

UNIT(missing_capabilities_are_named)
{
    struct refusal_facts f = fine();
    struct error e;
    f.capabilities = BIT(CAP_PERFMON);
    refusal_explain(&f, "loading", -EPERM, "", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "CAP_BPF is missing"));
    ck_assert_ptr_null(strstr(e.text, "CAP_PERFMON is missing"));
    f.capabilities = 0;
    f.perf_event_paranoid = 2;
    refusal_explain(&f, "loading", -EPERM, "", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "CAP_BPF is missing"));
    ck_assert_ptr_nonnull(strstr(e.text, "CAP_PERFMON is missing"));
    ck_assert_ptr_nonnull(strstr(e.text, "perf_event_paranoid"));
    f.capabilities = BIT(CAP_SYS_ADMIN); /* stands for both */
    refusal_explain(&f, "loading", -EPERM, "", &e);
    ck_assert_ptr_null(strstr(e.text, "is missing"));
    ck_assert_ptr_nonnull(strstr(e.text, "security module"));
}

UNIT(missing_btf_and_old_kernels_are_named)
{
    struct refusal_facts f = fine();
    struct error e;
    f.has_btf = false;
    refusal_explain(&f, "loading", -ESRCH, "libbpf: no BTF", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "CONFIG_DEBUG_INFO_BTF"));
    ck_assert_ptr_nonnull(strstr(e.text, "libbpf: no BTF"));
    f.has_sys = false; /* of a chroot or a container: the kernel may well have it */
    refusal_explain(&f, "loading", -ESRCH, "libbpf: no BTF", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "/sys is not mounted here"));
    ck_assert_ptr_null(strstr(e.text, "CONFIG_DEBUG_INFO_BTF"));
    f = fine();
    refusal_explain(&f, "loading", -EINVAL, "", &e);
    ck_assert_ptr_null(strstr(e.text, "5.10"));
    ck_assert_ptr_nonnull(
        strstr(e.text, "this kernel lacks what profsend needs of BPF and perf events; it is 6.1.0"));
    static const char *const old[] = {"4.19.0-26-amd64", "5.9.15"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(f.release, sizeof f.release, "%s", old[i]);
        refusal_explain(&f, "loading", -EINVAL, "", &e);
        ck_assert_ptr_nonnull(strstr(e.text, "profsend needs Linux 5.10 or later; this is "));
        ck_assert_ptr_nonnull(strstr(e.text, old[i]));
    }
}

UNIT(a_limit_of_locked_memory_that_counts_is_named)
{
    struct refusal_facts f = fine();
    struct error e;
    f.memlock = 64 << 10;
    refusal_explain(&f, "loading", -EPERM, "", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "RLIMIT_MEMLOCK is 64 KiB"));
    ck_assert_ptr_null(strstr(e.text, "security module"));
    refusal_explain(&f, "loading", -EINVAL, "", &e);
    ck_assert_ptr_null(strstr(e.text, "RLIMIT_MEMLOCK"));
}

UNIT(probes_take_more)
{
    struct refusal_facts f = fine();
    struct error e;
    f.capabilities = BIT(CAP_BPF) | BIT(CAP_PERFMON);
    refusal_explain(&f, REFUSAL_PROBES, -EACCES, "", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "CAP_SYS_ADMIN is missing"));
    refusal_explain(&f, "loading", -EACCES, "", &e);
    ck_assert_ptr_null(strstr(e.text, "CAP_SYS_ADMIN is missing"));
}

UNIT(a_file_or_a_symbol_that_is_not_there_is_not_the_kernel_s_fault)
{
    struct refusal_facts f = fine();
    struct error e;
    refusal_explain(&f, REFUSAL_PROBES, -ENOENT, "libbpf: failed to open /no/such/file", &e);
    ck_assert_ptr_null(strstr(e.text, "Linux"));
    ck_assert_ptr_nonnull(strstr(e.text, "/no/such/file"));
    refusal_explain(&f, REFUSAL_PROBES, -4001, "", &e); /* LIBBPF_ERRNO__FORMAT */
    ck_assert_ptr_null(strstr(e.text, "4001"));
}

UNIT(a_counter_that_the_machine_lacks_is_not_the_kernel_s_fault)
{
    struct refusal_facts f = fine();
    struct error e;
    refusal_explain(&f, REFUSAL_COUNTER "cycles", -ENOENT, "", &e);
    ck_assert_ptr_null(strstr(e.text, "Linux"));
    ck_assert_ptr_nonnull(strstr(e.text, "opening the counter cycles: "));
    ck_assert_ptr_nonnull(strstr(e.text, "virtual machines have none"));
    f.capabilities = 0;
    refusal_explain(&f, REFUSAL_COUNTER "cycles", -EACCES, "", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "CAP_PERFMON is missing"));
}

UNIT(a_paranoia_of_distributions_is_named)
{
    struct refusal_facts f = fine();
    struct error e;
    f.capabilities = BIT(CAP_BPF) | BIT(CAP_PERFMON);
    f.perf_event_paranoid = 3;
    refusal_explain(&f, "opening", -EACCES, "", &e);
    ck_assert_ptr_nonnull(strstr(e.text, "perf_event_paranoid above 2"));
    ck_assert_ptr_null(strstr(e.text, "security module"));
    f.perf_event_paranoid = 2;
    refusal_explain(&f, "opening", -EACCES, "", &e);
    ck_assert_ptr_null(strstr(e.text, "perf_event_paranoid"));
    f.perf_event_paranoid = 3;
    f.capabilities = UINT64_MAX;
    refusal_explain(&f, "opening", -EACCES, "", &e);
    ck_assert_ptr_null(strstr(e.text, "perf_event_paranoid"));
}
