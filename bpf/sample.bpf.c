char LICENSE[] __attribute__((section("license"), used)) = "GPL";
