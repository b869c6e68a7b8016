//! Mutates the corpus of the fuzz target, without a nightly compiler:
//! `cargo run --release -p ms-cache --example fuzz [EXECUTIONS] [SEED]`.

use std::path::Path;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A few random changes: bits, bytes, telling numbers, pieces cut, doubled or taken from another.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            3 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            4 | 5 => {
                let value = [0, 1, 63, 64, 0xff, 0xffff, u64::from(u32::MAX), u64::MAX, u64::MAX / 2][random.below(9)];
                let width = [1, 2, 4, 8][random.below(4)];
                for (byte, new) in bytes[at..].iter_mut().zip(value.to_le_bytes()).take(width) {
                    *byte = new;
                }
            }
            6 => {
                let piece = bytes[at..].iter().take(1 + random.below(64)).copied().collect::<Vec<_>>();
                bytes.extend(piece);
            }
            _ => {
                let from = random.below(other.len());
                for (byte, new) in bytes[at..].iter_mut().zip(&other[from..]).take(1 + random.below(64)) {
                    *byte = *new;
                }
            }
        }
    }
}

fn main() {
    let number = |at: usize, default: u64| std::env::args().nth(at).and_then(|it| it.parse().ok()).unwrap_or(default);
    let (executions, seed): (u64, u64) = (number(1, 1_000_000), number(2, 1));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/entry");
    let corpus: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .expect("the corpus is part of the repository")
        .map(|file| std::fs::read(file.expect("a readable folder").path()).expect("a readable file"))
        .collect();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for i in 0..executions {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        let other = &corpus[random.below(corpus.len())];
        mutate(&mut bytes, other, &mut random);
        ms_cache::fuzzing::entry(&bytes);
        if (i + 1) % 100_000 == 0 {
            println!("{} executions without a finding", i + 1);
        }
    }
}
