/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>

#include "sender/procs/facts.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

UNIT(container_ids)
{
    static const char *const with[] = {
        "0::/system.slice/docker-" ID ".scope\n",
        "12:cpu:/docker/" ID "\n11:memory:/docker/" ID "\n",
        "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-" ID ".scope\n",
        "0::/kubepods/burstable/pod1234/" ID "\n",
        "0::/machine.slice/libpod-" ID ".scope/container\n",
        "1:name=systemd:/\n0::/../" ID "/init",
    };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        ck_assert_msg(bytes_is(facts_container_id(bytes_str(with[i])), ID), "%s", with[i]);
    ck_assert(
        bytes_is(facts_container_id(BYTES_LIT("9:cpu:/ecs/task/0123456789abcdef0123456789abcdef-1234567\n")),
                 "0123456789abcdef0123456789abcdef-1234567"));
}

UNIT(no_container_id)
{
    static const char *const without[] = {"",
                                          "\n",
                                          "0::/\n",
                                          "0::/user.slice/user-1000.slice/session-1.scope\n",
                                          "0::/docker/" ID "0\n",
                                          "0::/docker/X" ID "\n",
                                          "0::/" ID "/UPPER\n",
                                          "0::/0123456789abcdef0123456789abcdef-\n"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        ck_assert_msg(facts_container_id(bytes_str(without[i])).p == NULL, "%s", without[i]);
}

UNIT(variables)
{
    struct bytes variables =
        BYTES_LIT("A=1\0XOTEL_SERVICE_NAME=no\0OTEL_SERVICE_NAME=shop=1\0EMPTY=\0LAST=end");
    ck_assert(bytes_is(facts_variable(variables, "OTEL_SERVICE_NAME"), "shop=1"));
    ck_assert(bytes_is(facts_variable(variables, "LAST"), "end"));
    ck_assert(facts_variable(variables, "EMPTY").p != NULL && facts_variable(variables, "EMPTY").n == 0);
    ck_assert_ptr_null(facts_variable(variables, "OTEL").p);
    ck_assert_ptr_null(facts_variable(bytes_of(NULL, 0), "A").p);
}

UNIT(start_time_behind_a_hostile_name)
{
    struct bytes stat =
        BYTES_LIT("12 (a) b) (c) S 1 12 12 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 987654 1000 1 2\n");
    uint64_t ticks;
    ck_assert_int_eq(facts_start_ticks(stat, &ticks), 0);
    ck_assert_uint_eq(ticks, 987654);
    ck_assert_int_eq(facts_start_ticks(BYTES_LIT("12 (x) S 1 2 3"), &ticks), -EINVAL);
    ck_assert_int_eq(facts_start_ticks(BYTES_LIT(""), &ticks), -EINVAL);
}

UNIT(namespace_pid_is_the_innermost)
{
    ck_assert_uint_eq(facts_namespace_pid(BYTES_LIT("Name:\tx\nNSpid:\t4711\t17\t1\nNSpgid:\t1\n")), 1);
    ck_assert_uint_eq(facts_namespace_pid(BYTES_LIT("Name:\tx\nNSpid:\t4711\nx\n")), 4711);
    ck_assert_uint_eq(facts_namespace_pid(BYTES_LIT("Name:\tx\n")), 0);
    ck_assert_uint_eq(facts_namespace_pid(BYTES_LIT("")), 0);
}

static bool linked_is(const char *text, size_t n, const char *want)
{
    struct bytes b = facts_linked_program(bytes_of(text, n));
    return want ? bytes_is(b, want) : b.p == NULL;
}
#define LINKED(text, want) ck_assert(linked_is(text, sizeof text - 1, want))

UNIT(a_program_begun_by_its_dynamic_linker)
{
    LINKED("/lib64/ld-linux-x86-64.so.2\0/usr/bin/shop\0--fast\0", "/usr/bin/shop");
    LINKED("ld.so\0--library-path\0/opt/lib\0--inhibit-cache\0shop\0", "shop");
    LINKED("ld.so\0--argv0\0--list\0./shop\0", "./shop");
    LINKED("ld.so\0--verify\0", NULL);
    LINKED("ld.so\0--argv0\0", NULL);
    LINKED("ld.so\0cut off", NULL);
    LINKED("ld.so", NULL);
    LINKED("", NULL);
    ck_assert(facts_is_linker(BYTES_LIT("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")));
    ck_assert(facts_is_linker(BYTES_LIT("/lib/ld-musl-x86_64.so.1")));
    ck_assert(!facts_is_linker(BYTES_LIT("/usr/bin/ld")));
    ck_assert(!facts_is_linker(BYTES_LIT("/opt/ld-linux/shop")));
}

/* The line of some arguments, each with its NUL. */
#define LINE(arguments) line(arguments, sizeof(arguments) - 1, 1024)

static const char *line(const char *arguments, size_t n, size_t room)
{
    static char text[1025];
    size_t length = facts_command_line(bytes_of(arguments, n), text, room);
    ck_assert_uint_le(length, room);
    text[length] = 0;
    return text;
}

UNIT(a_command_line_is_its_arguments)
{
    ck_assert_str_eq(LINE("java\0-Xmx1g\0-jar\0shop.jar\0"), "java -Xmx1g -jar shop.jar");
    ck_assert_str_eq(LINE("nginx: worker process\0\0\0\0"), "nginx: worker process"); /* setproctitle(3) */
    ck_assert_str_eq(LINE("a\0\0b"), "a  b");
    ck_assert_str_eq(LINE("caf\xc3\xa9\0\xff\xc3"), "caf\xc3\xa9 ??");
    ck_assert_str_eq(LINE(""), "");
    ck_assert_str_eq(line("abc\0def\0", 8, 5), "abc d");
    ck_assert_str_eq(line("abc\xc3\xa9 x\0y\0", 10, 4), "abc"); /* no half characters, and nothing behind */
}

UNIT(names_of_arguments_may_be_long)
{
    char text[1400];
    int n = snprintf(text, sizeof text, "x%c--%0121d-token=a", 0, 0);
    ck_assert_ptr_nonnull(strstr(line(text, (size_t)n, 1024), "-token=***"));
    n = snprintf(text, sizeof text, "x%c--token-%0800d=a", 0, 0);
    ck_assert_ptr_nonnull(strstr(line(text, (size_t)n, 1024), "0=***"));
}

UNIT(secrets_are_no_part_of_a_command_line)
{
    ck_assert_str_eq(LINE("x\0--db-password=hunter2\0-v\0"), "x --db-password=*** -v");
    ck_assert_str_eq(LINE("x\0--Token\0hunter2\0y\0"), "x --Token *** y");
    ck_assert_str_eq(LINE("x\0--token\0--verbose\0y\0"), "x --token --verbose y");
    ck_assert_str_eq(LINE("java\0-Djavax.net.ssl.keyStorePassword=hunter2\0"),
                     "java -Djavax.net.ssl.keyStorePassword=***");
    ck_assert_str_eq(LINE("env\0AWS_SECRET_ACCESS_KEY=hunter2\0"), "env AWS_SECRET_ACCESS_KEY=***");
    ck_assert_str_eq(LINE("curl\0-H\0Authorization: Bearer hunter2\0"), "curl -H Authorization:***");
    ck_assert_str_eq(LINE("x\0postgres://shop:hun:ter2@db/shop\0"), "x postgres://shop:***@db/shop");
    ck_assert_str_eq(LINE("x\0--pass\0hunter2\0DB_PASS=hunter2\0--bypass=1\0passive=1\0"),
                     "x --pass *** DB_PASS=*** --bypass=1 passive=1");
    ck_assert_str_eq(LINE("x\0--jwt=hunter2\0--bearer\0hunter2\0"), "x --jwt=*** --bearer ***");
    /* Within an argument, too; it is masked to its end, for who knows where a secret ends. */
    ck_assert_str_eq(LINE("x\0--env=DB_PASSWORD=hunter2\0y\0"), "x --env=DB_PASSWORD=*** y");
    ck_assert_str_eq(LINE("x\0jdbc:mysql://db/d?user=x&password=hunter2\0"),
                     "x jdbc:mysql://db/d?user=x&password=***");
    ck_assert_str_eq(LINE("x\0https://u:hunter2@db/?access_token=hunter2\0"),
                     "x https://u:***@db/?access_token=***");
    ck_assert_str_eq(LINE("x\0user=shop password=hunter2 host=db\0"), "x user=shop password=***");
    ck_assert_str_eq(LINE("x\0Server=db;Password = hunter2;\0"), "x Server=db;Password =***");
    ck_assert_str_eq(LINE("x\0{\"user\":\"a\", \"password\":\"hunter2\"}\0"),
                     "x {\"user\":\"a\", \"password\":***");
    ck_assert_str_eq(LINE("sh\0-c\0X=1; export TOKEN=hunter2; run\0"), "sh -c X=1; export TOKEN=***");
    ck_assert_str_eq(LINE("x\0a://u:hunter2@h,b://v:hunter2@g/x\0"), "x a://u:***@h,b://v:***@g/x");
    ck_assert_str_eq(LINE("java\0-cp\0/a.jar:/lib/token.jar:/b.jar\0"),
                     "java -cp /a.jar:/lib/token.jar:/b.jar");
    ck_assert_str_eq(LINE("x\0http://host:80/a@b\0"), "x http://host:80/a@b");
    ck_assert_str_eq(LINE("x\0passwords.txt\0y\0"), "x passwords.txt y"); /* no option */
    ck_assert_str_eq(LINE("x\0--key=hunter2\0--auth=hunter2\0--api.key\0hunter2\0"),
                     "x --key=*** --auth=*** --api.key ***");
    ck_assert_str_eq(LINE("x\0https://h/?a=b&key=hunter2\0{\"auth\": \"hunter2\"}\0"),
                     "x https://h/?a=b&key=*** {\"auth\":***");
    ck_assert_str_eq(LINE("x\0--key-file=/k\0--author=me\0--monkey=1\0--auth-mode=basic\0key\0a\0"),
                     "x --key-file=/k --author=me --monkey=1 --auth-mode=basic key a");
}

UNIT(secrets_behind_one_letter_are_known_by_their_program)
{
    ck_assert_str_eq(LINE("/usr/bin/mysqldump\0-phunter2\0-u\0root\0shop\0"),
                     "/usr/bin/mysqldump -p*** -u root shop");
    ck_assert_str_eq(LINE("sudo\0sshpass\0-p\0hunter2\0ssh\0-p\0"
                          "22\0host\0"),
                     "sudo sshpass -p *** ssh -p *** host");
    ck_assert_str_eq(LINE("redis-cli\0-a\0hunter2\0-p\0"
                          "6379\0"),
                     "redis-cli -a *** -p 6379");
    ck_assert_str_eq(LINE("curl\0-u\0me:hunter2\0url\0"), "curl -u *** url");
    ck_assert_str_eq(LINE("mkdir\0-p\0mysql\0"), "mkdir -p mysql");
    ck_assert_str_eq(LINE("gcc\0-pthread\0-pipe\0"), "gcc -pthread -pipe");
    ck_assert_str_eq(LINE("mysql\0-p\0"), "mysql -p");
}
