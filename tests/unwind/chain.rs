// The chain in Rust, below a closure and an iterator.
use std::hint::black_box;

#[inline(never)]
#[no_mangle]
fn spin(n: u64) -> u64 {
    let mut sum = 0u64;
    for i in 0..n {
        sum = black_box(sum.wrapping_add(i));
    }
    sum
}

#[inline(never)]
#[no_mangle]
fn chain_c(n: u64) -> u64 {
    black_box(spin(n)) + 1
}

#[inline(never)]
#[no_mangle]
fn chain_b(n: u64) -> u64 {
    black_box(chain_c(n)) + 1
}

#[inline(never)]
#[no_mangle]
fn chain_a(n: u64) -> u64 {
    black_box(chain_b(n)) + 1
}

fn main() {
    loop {
        let v: Vec<u64> = (0..4u64).map(|i| chain_a(50000 + i)).collect();
        black_box(v);
    }
}
