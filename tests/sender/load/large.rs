// SPDX-License-Identifier: Apache-2.0
// Some seconds' work for rustc: generic code of the standard library, made for many types.
use std::collections::{BTreeMap, HashMap, VecDeque};

trait Turn {
    fn turn(&self, n: u64) -> u64;
}

macro_rules! turns {
    ($($name:ident)*) => {
        $(
            #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
            struct $name { words: Vec<String>, by_name: BTreeMap<String, u64>, waiting: VecDeque<u64> }
            impl Turn for $name {
                fn turn(&self, n: u64) -> u64 {
                    let mut all: HashMap<$name, u64> = HashMap::new();
                    for i in 0..n {
                        let mut one = self.clone();
                        one.words.push(format!("{:?} {i}", one));
                        one.words.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
                        one.waiting.extend(one.by_name.values().rev().map(|x| x.wrapping_mul(n)));
                        *all.entry(one).or_insert(i) += i;
                    }
                    let mut list: Vec<_> = all.into_iter().filter(|(k, _)| k > self).collect();
                    list.sort();
                    list.iter().map(|(k, v)| v + k.words.iter().flat_map(|w| w.chars()).count() as u64).sum()
                }
            }
        )*
        fn every() -> Vec<Box<dyn Turn>> { vec![$(Box::new($name::default())),*] }
    };
}

turns!(A B C D E F);

fn main() {
    println!("{}", every().iter().map(|t| t.turn(100)).sum::<u64>());
}
