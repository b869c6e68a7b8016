//! Changes stored values of the compile cache at random: each is loaded or rejected, and nothing else happens.
//!
//! `MS_FUZZ=1000000` sets the number of changes. `MS_BLESS=1` writes the values of this test into the corpus of the
//! fuzz target `stored`. This corpus is also tested unchanged.

use ms::prelude::*;
use ms_cache::Store;
use ms_cache::fuzzing::Mutator;
use ms_core::session::fuzzing::stored;
use std::fs;
use std::path::{Path, PathBuf};

#[jit]
fn elementwise(x: &Tensor, y: &Tensor) -> Tensor {
    ops::softmax(x * 2.0 + ops::exp(y), -1)
}

#[jit]
fn products(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let z = ops::tanh(x.matmul(y));
    (z.sum(()), z.cast(DType::F16))
}

/// Has branches, loops that tensors terminate, counted loops, and constants.
#[jit]
fn control(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x.sum(()) < 100.0 {
        if x.max(()) > 3.0 {
            x = &x * tensor![2.0, 1.0, 3.0];
        } else {
            x = &x + 1.0;
        }
    }
    for i in ms::range(0, 4) {
        x = &x + i;
    }
    x
}

/// Has a derivative with a loop and a stack.
#[jit]
fn looped(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    let mut count = tensor![0];
    while count < 3 {
        y = &y * x;
        count = count + 1;
    }
    y.sum(())
}

/// Uses library ops.
#[jit]
fn whole(x: &Tensor) -> Tensor {
    let (sorted, _) = ops::sort(x, -1, false);
    ops::gather(&sorted, tensor![0, 2], 0)
}

#[jit(dims(x = [count]))]
fn sized(x: &Tensor) -> Tensor {
    x * 2 + 1
}

#[derive(Clone, Tree)]
struct Result {
    sum: Tensor,
    rest: Option<(Tensor, i64)>,
}

#[jit(pure)]
fn pure(x: &Tensor, factor: i64) -> Result {
    Result { sum: x.sum(()), rest: Some((x * factor, factor + 1)) }
}

/// Calls all these functions with a cache at `path`, and returns the stored values.
fn seeds(path: &Path) -> Vec<Vec<u8>> {
    let context = Context { enable_compile_cache: true, compile_cache_path: Some(path.to_owned()), ..ms::context() };
    ms::with_context(context, || {
        let (x, m) = (tensor![1.0, 2.0, 3.0], Tensor::ones([3, 3]));
        elementwise(&m, &x);
        products(&m, &m);
        control(&x);
        ms::grad(|x: &Tensor| looped(x))(&x);
        whole(&x);
        sized(&x);
        pure(&x, 3);
    });
    assert!(ms::flush_cache());
    let store = Store::open(path, &Default::default()).expect("the directory is ours");
    let mut entries = store.entries().expect("a readable directory").entries;
    entries.sort_by_key(|it| (it.note("function").map(str::to_owned), it.note("piece").map(str::to_owned)));
    let data = entries.iter().map(|it| store.get(&it.key).expect("the entry just written").data().to_vec());
    data.collect()
}

/// Saves the bytes that cause a panic, for the corpus.
struct Found<'a>(&'a [u8]);

impl Drop for Found<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stored");
            eprintln!("the bytes are in {}: {:?}", path.display(), fs::write(&path, self.0));
        }
    }
}

/// Whether these bytes are a valid value.
fn is_value(bytes: &[u8]) -> bool {
    let _found = Found(bytes);
    stored(bytes)
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/stored")
}

#[test]
fn changed_bytes_are_loaded_or_rejected() {
    let path = std::env::temp_dir().join(format!("ms-stored-{}", std::process::id()));
    let mut all = seeds(&path);
    fs::remove_dir_all(&path).expect("the directory is ours");
    assert!(all.len() >= 9, "{} entries", all.len());
    assert!(all.iter().all(|it| is_value(it)), "what was written is read");
    if std::env::var_os("MS_BLESS").is_some_and(|it| it == "1") {
        fs::create_dir_all(corpus()).expect("a writable folder");
        for (at, seed) in all.iter().enumerate() {
            fs::write(corpus().join(format!("{at:02}")), seed).expect("a writable folder");
        }
    }
    let kept = fs::read_dir(corpus()).expect("the corpus is part of the repository").flatten();
    all.extend(kept.map(|it| fs::read(it.path()).expect("a readable file")));
    for bytes in &all {
        is_value(bytes);
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
            is_value(&bytes[..len]);
        }
    }
    let executions = std::env::var("MS_FUZZ").map_or(20_000u64, |it| it.parse().expect("MS_FUZZ is a number"));
    let mut mutator = Mutator::new(1);
    let values = (0..executions).filter(|_| is_value(&mutator.mutate(&all))).count();
    println!("{values} of {executions} are values");
}
