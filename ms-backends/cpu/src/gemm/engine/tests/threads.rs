//! Tests that results do not depend on the number of threads, which is fixed for each process.

use super::{doubled, engines, product};
use crate::gemm::tests::{bits, rounded};
use crate::threads;
use ms_core::ir::Precision;
use ms_core::tensor::{Array, DType};
use std::process::Command;

/// Returns a hash of the bits of the elements.
pub fn hash(x: &Array) -> u64 {
    bits(x).iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| (hash ^ it).wrapping_mul(0x0100_0000_01b3))
}

#[test]
#[ignore = "`results_do_not_depend_on_threads` starts it, once for each number of threads"]
fn in_a_process() {
    println!("threads {}", threads::count());
    for &it in engines() {
        for ([m, k, n], dtype) in
            [([260, 33, 33], DType::F32), ([34, 33, 130], DType::F32), ([40, 1600, 33], DType::BF16)]
        {
            let (a, b) = (rounded(&[m, k], dtype, 1), rounded(&[k, n], dtype, 2));
            for precision in [Precision::High, Precision::Medium] {
                println!("{it:?} {:x}", hash(&product(it, precision, &a, &b, dtype)));
                for by_rows in [false, true] {
                    println!("{it:?} {:x}", hash(&doubled(it, precision, &a, &b, dtype, by_rows)));
                }
            }
        }
        let (a, b) = (rounded(&[5, 33, 20], DType::F32, 1), rounded(&[5, 20, 35], DType::F32, 2));
        println!("{it:?} {:x}", hash(&product(it, Precision::Medium, &a, &b, DType::F32)));
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    check_threads("gemm::engine::tests::threads::in_a_process");
}

/// Runs an ignored test in processes with several numbers of threads, and compares the lines that it prints for
/// engines.
#[track_caller]
pub fn check_threads(test: &str) {
    let outputs = ["1", "2", "7"].map(|threads| {
        let output = Command::new(std::env::current_exe().expect("the test runs"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("MS_NUM_THREADS", threads)
            .output()
            .expect("the test starts again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(&format!("threads {threads}\n")), "{text}");
        let lines = text.lines().filter(|it| ["Tiles", "Dots", "None"].iter().any(|engine| it.starts_with(engine)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(!outputs[0].is_empty() && outputs.iter().all(|it| *it == outputs[0]), "{outputs:#?}");
}
