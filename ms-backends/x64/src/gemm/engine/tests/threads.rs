//! Tests that results do not depend on the number of threads, which is fixed for each process.

use super::{check_threads, doubled, engines, hash, product};
use crate::gemm::tests::rounded;
use crate::threads;
use ms_ir::Precision;
use ms_ir::data::DType;

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
