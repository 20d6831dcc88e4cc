"""A server of names that does not answer: nothing can end getaddrinfo(3) then, and neither may it keep a program."""
import os
import subprocess

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    if (!name || !strstr(name, ".invalid"))
        return ((__typeof__(getaddrinfo) *)dlsym(RTLD_NEXT, "getaddrinfo"))(name, service, hints, ret);
    (void)!write(2, "asked\\n", 6);
    sleep(600);
    return EAI_AGAIN;
}
"""


def unanswered(folder):
    """The environment of a program that asks it for all that ends with .invalid, and says "asked" on standard error."""
    (folder / "unanswered.c").write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "unanswered.c", "-o", "unanswered.so"], check=True, cwd=folder)
    # in builds with AddressSanitizer its library may come second
    sanitizer = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
    return {**os.environ, "LD_PRELOAD": str(folder / "unanswered.so"), "ASAN_OPTIONS": sanitizer}
