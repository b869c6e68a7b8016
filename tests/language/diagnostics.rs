//! Tests errors and warnings: codes, the user's line, the path of the cell, and all errors at once.

use ms::error::collect_warnings;
use ms::prelude::*;
use ms::{Code, catch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Returns the error that `run` ends with. It must contain these words.
#[track_caller]
fn refused<R>(code: Code, words: &[&str], run: impl FnOnce() -> R) -> ms::Error {
    let error = catch(run).err().expect("refused");
    assert_eq!(error.code(), code, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in\n{error}");
    }
    error
}

#[cell]
struct Attention {
    project: nn::Dense,
}

#[cell]
impl Attention {
    fn construct(&self, q: &Tensor, k: &Tensor) -> Tensor {
        self.project(q) + k
    }
}

#[cell]
struct Block {
    attn: Attention,
}

#[cell]
impl Block {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.attn.call(x, x)
    }
}

#[cell]
struct Gpt {
    blocks: Vec<Block>,
}

#[cell]
impl Gpt {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.blocks.iter().fold(x.clone(), |x, block| block.call(&x))
    }
}

/// Returns a network with a last block that is too wide.
fn gpt() -> Gpt {
    let block = |width| Block { attn: Attention { project: nn::Dense::new(4, width) } };
    Gpt { blocks: vec![block(4), block(4), block(4), block(5)] }
}

#[test]
fn errors_name_the_cell_and_its_line() {
    let error = refused(Code::Shape, &["f32[2, 5]", "f32[2, 4]"], || gpt().call(&Tensor::ones([2, 4])));
    let report = error.report();
    let location = report.location.expect("a line of the user's");
    assert_eq!((location.file(), location.line()), ("tests/language/diagnostics.rs", 29), "{error}");
    assert!(report.within[0].starts_with("`Gpt.blocks[3].attn` (`Attention::construct`) at tests/"), "{error}");
    assert!(report.within[2].starts_with("`Gpt` (`Gpt::construct`) at tests/"), "{error}");
}

#[test]
fn the_users_line_stands_before_the_librarys() {
    let run = ms::jit(|net: &Gpt, x: &Tensor| net.call(x));
    let error = refused(Code::Shape, &["matmul", "f32[2, 3]"], || run(&gpt(), &Tensor::ones([2, 3])));
    let report = error.report();
    assert_eq!(report.location.map(|it| it.file()), Some("tests/language/diagnostics.rs"), "{error}");
    assert_eq!(report.library.map(|it| it.file()), Some("src/nn/dense.rs"), "{error}");
    assert!(report.within[0].starts_with("`Gpt.blocks[0].attn.project` (`Dense::construct`)"), "{error}");
}

/// Holds cells by name.
#[cell]
struct Heads {
    heads: BTreeMap<String, Block>,
}

#[cell]
impl Heads {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.heads.values().fold(x.clone(), |x, head| head.call(&x))
    }
}

#[test]
fn parts_of_maps_are_named_by_their_keys() {
    let block = |width| Block { attn: Attention { project: nn::Dense::new(4, width) } };
    let heads = BTreeMap::from([("class".to_owned(), block(4)), ("mask".to_owned(), block(5))]);
    let heads = Heads { heads };
    assert_eq!(heads.named_parameters().expect("names differ")[0].0, "heads[\"class\"].attn.project.weight");
    let error = refused(Code::Shape, &[], || heads.call(&Tensor::ones([2, 4])));
    assert!(error.report().within[0].starts_with("`Heads.heads[\"mask\"].attn` "), "{error}");
}

#[test]
fn cells_made_inside_are_named_from_themselves() {
    #[jit]
    fn made(x: &Tensor) -> Tensor {
        gpt().call(x)
    }
    let error = refused(Code::Shape, &[], || made(&Tensor::ones([2, 4])));
    assert!(error.report().within[0].starts_with("`Gpt.blocks[3].attn` "), "{error}");
}

#[test]
fn a_recursion_without_an_end() {
    #[jit]
    fn endless(x: &Tensor, depth: usize) -> Tensor {
        if depth == usize::MAX { x.clone() } else { endless(&(x + 1.0), depth + 1) }
    }
    refused(Code::Recursion, &["endless", "calls deep", "help"], || endless(&tensor![1.0], 0));
    assert_eq!(endless(&tensor![1.0], usize::MAX - 20).to_vec::<f32>(), [21.0]);
}

#[test]
fn a_traced_value_on_another_thread() {
    let run = ms::jit(|x: &Tensor| {
        let x = x.clone();
        std::thread::spawn(move || catch(|| &x + 1.0)).join().expect("no panic").or_raise()
    });
    refused(Code::Thread, &["another thread", "f32[1]", "help"], || run(&tensor![1.0]));
}

use ms::error::OrRaise;

#[test]
fn a_traced_value_after_its_trace() {
    static KEPT: Mutex<Option<Tensor>> = Mutex::new(None);
    let keep = ms::jit(|x: &Tensor| {
        *KEPT.lock().expect("nobody panics") = Some(x + 1.0);
        x.clone()
    });
    keep(&tensor![1.0]);
    let kept = KEPT.lock().expect("nobody panics").take().expect("kept while tracing");
    refused(Code::Escaped, &["outside the function", "help"], || &kept + 1.0);
    refused(Code::Escaped, &["outside the function", "help"], || kept.to_vec::<f32>());
}

/// A function under a transform, or called as a graph, is not a branch, so the help differs.
#[test]
fn a_traced_value_after_an_inner_function() {
    let keep = ms::jit(|x: &Tensor| {
        let kept = std::cell::RefCell::new(None);
        let square = |x: &Tensor| {
            let y = x * x;
            kept.replace(Some(y.clone()));
            ops::sum(y, ())
        };
        ms::grad(square)(x) + kept.take().expect("kept by the function")
    });
    refused(Code::Escaped, &["outside the function that made it", "return it"], || keep(&tensor![1.0]));
}

#[test]
fn parameters_whose_value_is_traced() {
    let run = ms::jit(|x: &Tensor| x * Parameter::new(x * 2.0, "weight"));
    refused(Code::Created, &["Parameter::init", "f32[1]", "tests/language/diagnostics.rs"], || run(&tensor![1.0]));
}

#[jit(pure)]
fn pure(x: &Tensor) -> Tensor {
    nn::Dense::new(2, 2).call(x)
}

#[test]
fn pure_functions_make_no_parameters() {
    refused(Code::Created, &["`pure` is pure", "makes parameters"], || pure(&Tensor::ones([1, 2])));
}

#[test]
fn shapes_that_depend_on_data() {
    let count = ms::jit(|x: &Tensor| ops::nonzero(x));
    refused(Code::DataDependentShape, &["nonzero", "help"], || count(&tensor![1.0, 0.0]));
}

#[jit]
fn scaled(x: &Tensor, rate: f32, times: usize) -> Tensor {
    (0..times).fold(x.clone(), |x, _| x * rate)
}

#[test]
fn compiling_again_and_again_is_a_warning() {
    let run = |rate: f32, times: usize, size: usize| {
        let (_, warnings) = collect_warnings(|| scaled(&Tensor::ones([size]), rate, times));
        warnings.iter().map(|it| it.as_warning().to_string()).collect::<Vec<_>>()
    };
    assert!(run(0.5, 1, 1).is_empty());
    let warned = run(0.25, 1, 1);
    assert!(warned[0].starts_with("warning[MS060]: `scaled`") && warned[0].contains("`#[dynamic] rate`"), "{warned:?}");
    assert!(run(0.125, 1, 1).is_empty(), "said once");
    assert!((2..=5).all(|times| run(0.125, times, 1).is_empty()));
    let warned = run(0.125, 6, 1);
    assert!(warned[0].contains("8 times; `times` differs"), "{warned:?}");
    assert!((7..12).all(|times| run(0.125, times, 1).is_empty()), "said once");
}

#[test]
fn warnings_of_steps_name_what_varies_and_the_users_line() {
    let net = nn::Dense::new(2, 1);
    let opt = SGD::new(0.1);
    let told = |run: &dyn Fn(usize)| -> Vec<String> {
        let told = (1..12).flat_map(|n| collect_warnings(|| run(n)).1);
        told.map(|it| it.as_warning().to_string()).collect()
    };
    let sizes = told(&|n| {
        let batch = (Tensor::ones([n, 2]), Tensor::zeros([n, 1]));
        opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(net.call(x), y));
    });
    // Another line has a separate warning. A step of another loss has no warning from the sizes of this one.
    let again = told(&|n| {
        let batch = (Tensor::ones([n, 2]), Tensor::zeros([n, 1]));
        opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(net.call(x), y));
    });
    let once = told(&|n| {
        if n == 1 {
            let batch = (Tensor::ones([n, 2]), Tensor::zeros([n, 1]));
            opt.step(&net, &batch, |net, (x, y)| ops::l1_loss(net.call(x), y));
        }
    });
    assert!(once.is_empty(), "{once:#?}");
    let rates = told(&|n| {
        opt.step(&net, &(Tensor::ones([1, 2]), n as f32), |net, (x, rate)| ops::sum(net.call(x), ()) * *rate);
    });
    let nets = told(&|_| {
        let net = nn::Dense::new(2, 1);
        opt.step(&net, &Tensor::ones([1, 2]), |net, x| ops::sum(net.call(x), ()) * 2.0);
    });
    for (told, words) in [
        (sizes, ["MS131", "`batch[0]`"]),
        (again, ["MS131", "`batch[0]`"]),
        (rates, ["MS060", "`batch[1]`"]),
        (nets, ["MS060", "`net.weight`"]),
    ] {
        assert_eq!(told.len(), 1, "{told:#?}");
        for word in words {
            assert!(told[0].contains(word), "{word} in {}", told[0]);
        }
        assert!(told[0].contains("--> tests/language/diagnostics.rs") && !told[0].contains("library:"), "{}", told[0]);
        assert!(!told[0].contains("dims(batch") && !told[0].contains("#[dynamic]"), "{}", told[0]);
    }
}

static SCALE: AtomicUsize = AtomicUsize::new(2);

#[jit]
#[allow(deprecated, reason = "reads a static on purpose")]
fn scaled_by_static(x: &Tensor) -> Tensor {
    x * SCALE.load(Ordering::Relaxed) as f64
}

struct Plain;

impl Plain {
    #[jit]
    fn through(x: &Tensor) -> Tensor {
        x * helper_scale()
    }
}

fn helper_scale() -> f64 {
    SCALE.load(Ordering::Relaxed) as f64
}

fn helper(x: &Tensor) -> Tensor {
    x * helper_scale()
}

#[test]
fn retracing_reads_the_host_again() {
    let x = tensor![1.0f32];
    let all = || [scaled_by_static(&x), Plain::through(&x), ms::jit(helper)(&x)].map(|it| it.to_vec::<f32>()[0]);
    assert_eq!(all(), [2.0; 3]);
    SCALE.store(3, Ordering::Relaxed);
    assert_eq!(all(), [2.0; 3], "frozen");
    ms::retrace(scaled_by_static);
    assert_eq!(all(), [3.0, 2.0, 2.0]);
    ms::retrace(Plain::through);
    ms::retrace(helper);
    assert_eq!(all(), [3.0; 3]);
}

#[test]
fn one_cell_in_two_places_has_its_first_path() {
    #[cell]
    struct Twice {
        a: Arc<Block>,
        b: Arc<Block>,
    }
    #[cell]
    impl Twice {
        #[jit]
        fn construct(&self, x: &Tensor) -> Tensor {
            self.b(&self.a(x))
        }
    }
    let block = Arc::new(Block { attn: Attention { project: nn::Dense::new(4, 5) } });
    let error = refused(Code::Shape, &[], || Twice { a: block.clone(), b: block }.call(&Tensor::ones([1, 4])));
    assert!(error.report().within[0].starts_with("`Twice.a.attn` "), "{error}");
}

#[jit]
fn halved(x: &Tensor) -> Tensor {
    if x > 1 { x / 2 } else { x.clone() }
}

#[test]
fn calls_by_transforms_show_no_line_of_the_standard_library() {
    let lanes = tensor![1i64, 2, 3];
    let error = refused(Code::TypeChange, &["`halved`", "diagnostics.rs"], || ms::vmap(halved)(&lanes));
    assert!(!error.to_string().contains("/rustc/"), "{error}");
}

/// Numbers that are read from a value under a gradient may return as constants. They are reported once for each line
/// that reads them.
#[test]
fn numbers_read_under_a_gradient_are_reported() {
    let x = &tensor![0.5, 2.0];
    let codes = |f: &dyn Fn()| {
        let (_, warnings) = collect_warnings(f);
        warnings.iter().map(|it| (it.code(), it.report().location.is_some())).collect::<Vec<_>>()
    };
    let told = vec![(ms::Code::ReadNumbers, true)];
    let back = |x: &Tensor| {
        let sines: Vec<f32> = x.to_vec::<f32>().iter().map(|it| it.sin()).collect();
        Tensor::from_slice([2], &sines)
    };
    assert_eq!(codes(&|| drop(ms::grad(back)(x))), told);
    assert_eq!(codes(&|| drop(ms::grad(back)(x))), [], "the line is known");
    let in_part = |x: &Tensor| x * Tensor::from_slice([2], &x.to_vec::<f32>());
    assert_eq!(codes(&|| drop(ms::jvp(in_part)(x, x))), told);
    let as_a_number = |x: &Tensor| x * f64::from(x.sum(()).item::<f32>());
    assert_eq!(codes(&|| drop(ms::value_and_grad(as_a_number)(x))), told);
    let as_an_attribute = |x: &Tensor| ops::leaky_relu(x, f64::from(x.at(0).item::<f32>()));
    assert_eq!(codes(&|| drop(ms::grad(as_an_attribute)(x))), told);
    // Printing the numbers, or marking them as constants, is not reported.
    let logged = |x: &Tensor| {
        let loss = (x * 2.0).sum(());
        let _ = (format!("{loss}"), loss.item::<f32>(), x.gt(1.0).to_vec::<bool>());
        loss
    };
    let logged_between = |x: &Tensor| {
        let y = x * 2.0;
        let _ = y.to_vec::<f32>();
        (&y * &y).sum(())
    };
    let meant = |x: &Tensor| x * Tensor::from_slice([2], &ops::stop_gradient(x).to_vec::<f32>());
    let of_others = |y: &Tensor| y * Tensor::from_slice([2], &x.to_vec::<f32>());
    for f in [&logged as &dyn Fn(&Tensor) -> Tensor, &logged_between, &meant, &of_others] {
        assert_eq!(codes(&|| drop(ms::grad(|x: &Tensor| f(x))(x))), []);
    }
}
