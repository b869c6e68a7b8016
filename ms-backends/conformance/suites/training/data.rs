//! Tests datasets and loaders: order, determinism, errors, and prefetching.

use ms::Code;
use ms::data::{DistributedSampler, Epoch, RandomSampler, Sampler, SubsetSampler, WeightedRandomSampler};
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Returns a dataset of the numbers from 0 up to `len`.
fn numbers(len: usize) -> TensorDataset<Tensor> {
    TensorDataset::new(Tensor::arange(len as i64))
}

/// Returns the numbers of an epoch, from single samples or from batches.
fn epoch<D: Dataset<Sample = Tensor> + 'static>(loader: &DataLoader<D>) -> Vec<i64> {
    loader.iter().flat_map(|it| it.expect("in memory").to_vec::<i64>()).collect()
}

fn drawn<D: Dataset<Sample = Tensor> + 'static>(data: D) -> Vec<i64> {
    epoch(&DataLoader::new(data).seed(5))
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort();
    numbers
}

#[test]
fn indices_are_mapped() {
    let cases: [(&str, Vec<i64>, &[i64]); 14] = [
        ("all", drawn(numbers(4)), &[0, 1, 2, 3]),
        ("take", drawn(numbers(4).take(2)), &[0, 1]),
        ("take of more", drawn(numbers(4).take(9)), &[0, 1, 2, 3]),
        ("skip", drawn(numbers(4).skip(3)), &[3]),
        ("skip of more", drawn(numbers(4).skip(9)), &[]),
        ("skip and take", drawn(numbers(9).skip(3).take(4).skip(1)), &[4, 5, 6]),
        ("repeat", drawn(numbers(2).repeat(3)), &[0, 1, 0, 1, 0, 1]),
        ("repeat of nothing", drawn(numbers(0).repeat(3)), &[]),
        ("batches over repetitions", drawn(numbers(3).repeat(2).batch(2)), &[0, 1, 2, 0, 1, 2]),
        ("map", drawn(numbers(3).map(|it| it * 10)), &[0, 10, 20]),
        ("batches of batches", drawn(numbers(5).batch(2).drop_last(true).batch(2)), &[0, 1, 2, 3]),
        ("map of batches", drawn(numbers(5).batch(2).map(|it| it.sum(()))), &[1, 5, 4]),
        ("a subset", drawn(numbers(5).sample(SubsetSampler::new([4, 0, 4]))), &[4, 0, 4]),
        ("zip", drawn(numbers(5).zip(numbers(3).skip(1)).map(|(a, b)| a + b * 10)), &[10, 21]),
    ];
    for (name, got, want) in cases {
        assert_eq!(got, want, "{name}");
    }
    let sizes = |drop_last| {
        let loader = DataLoader::new(numbers(5).batch(2).drop_last(drop_last));
        (loader.len(), loader.iter().map(|it| it.expect("in memory").shape()[0]).collect::<Vec<_>>())
    };
    assert_eq!((sizes(false), sizes(true)), ((3, vec![2, 2, 1]), (2, vec![2, 2])));
}

/// A structure with a host value.
#[derive(Clone, Tree)]
struct Example {
    image: Tensor,
    label: Tensor,
    kind: u8,
}

#[test]
fn samples_are_structures() {
    let example = |image: Tensor| Example { label: image.sum(()).cast(DType::I64), image, kind: 3 };
    let images = TensorDataset::new(Tensor::arange(12).reshape([3, 2, 2]).cast(DType::F16));
    let batch = DataLoader::new(images.map(example).batch(3)).draw().expect("alike");
    assert_eq!((batch.image.shape(), batch.image.dtype(), batch.kind), (&[3, 2, 2][..], DType::F16, 3));
    assert_eq!(batch.label.to_vec::<i64>(), [6, 22, 38]);
    // Bools, strided tensors and tensors without elements are rows as well.
    let flags = TensorDataset::new(vec![tensor![true, false], Tensor::zeros([2, 0])]);
    let batch = DataLoader::new(flags.batch(2)).draw().expect("alike");
    assert_eq!((batch[0].to_vec::<bool>(), batch[1].shape()), (vec![true, false], &[2, 0][..]));
    let strided = TensorDataset::new(Tensor::arange(6).reshape([2, 3]).transpose(0, 1));
    assert_eq!(drawn(strided.batch(3)), [0, 3, 1, 4, 2, 5]);
}

#[test]
fn the_order_depends_on_the_seed_and_the_epoch_only() {
    let pipeline = || {
        let data = numbers(40).map(|it| it * 1000 + random::randint((), 0, 1000)).shuffle().repeat(2);
        data.zip(numbers(90).shuffle()).map(|(a, b)| a + b * 1_000_000).batch(7)
    };
    let run = |workers, prefetch| {
        let loader = DataLoader::new(pipeline()).seed(11).workers(workers).prefetch(prefetch);
        [epoch(&loader), epoch(&loader)]
    };
    let want = run(0, 1);
    for (workers, prefetch) in [(1, 1), (1, 9), (2, 1), (3, 5), (8, 64)] {
        assert_eq!(run(workers, prefetch), want, "{workers} workers, {prefetch} ahead");
    }
    let first = |it: &[i64]| it.iter().map(|it| it / 1000 % 1000).collect::<Vec<_>>();
    let second = |it: &[i64]| it.iter().map(|it| it / 1_000_000).collect::<Vec<_>>();
    let all: Vec<i64> = (0..40).collect();
    for it in &want {
        // Each repetition has all samples, in another order.
        assert_eq!([sorted(first(&it[..40])), sorted(first(&it[40..]))], [all.clone(), all.clone()]);
        assert_ne!(first(&it[..40]), first(&it[40..]));
        assert_ne!(second(&it[..40]), first(&it[..40]), "the orders of both parts are independent");
    }
    assert_ne!(want[0], want[1], "epochs differ");
    assert_ne!(epoch(&DataLoader::new(pipeline()).seed(12)), want[0], "seeds differ");
    // Random numbers of samples differ, and drawing them does not affect the program's generator.
    let noise: Vec<i64> = want[0].iter().map(|it| it % 1000).collect();
    assert!(noise.windows(2).any(|it| it[0] != it[1]));
    random::set_seed(3);
    let before = random::uniform([2], 0.0, 1.0).to_vec::<f32>();
    random::set_seed(3);
    let loader = DataLoader::new(pipeline()).seed(11);
    random::set_seed(3);
    epoch(&loader);
    assert_eq!(random::uniform([2], 0.0, 1.0).to_vec::<f32>(), before);
    // The seed comes from the default generator.
    let of_seed = |seed| {
        random::set_seed(seed);
        epoch(&DataLoader::new(pipeline()))
    };
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
}

#[test]
fn samplers_choose() {
    let counts = |drawn: &[usize], samples: usize| {
        let mut counts = vec![0; samples];
        drawn.iter().for_each(|&it| counts[it] += 1);
        counts
    };
    let of = |sampler: &dyn Sampler, number: u64, samples| {
        let indices = sampler.indices(Epoch::new(9, number), samples).expect("it fits");
        assert_eq!(indices.len(), sampler.len(samples));
        indices
    };
    let sorted = |mut it: Vec<usize>| {
        it.sort();
        it
    };
    assert_eq!(sorted(of(&RandomSampler::new(), 0, 50)), (0..50).collect::<Vec<_>>());
    assert_eq!(of(&RandomSampler::new(), 0, 0), [] as [usize; 0]);
    let replaced = counts(&of(&RandomSampler::new().replacement(4000), 0, 4), 4);
    assert!(replaced.iter().all(|it| (850..1150).contains(it)), "{replaced:?}");

    let weights = [1.0, 0.0, 2.0, 5.0];
    let weighted = counts(&of(&WeightedRandomSampler::new(weights, 8000), 0, 4), 4);
    for (got, weight) in weighted.iter().zip(weights) {
        assert!((*got as f64 - 1000.0 * weight).abs() < 200.0, "{weighted:?}");
    }
    let once = WeightedRandomSampler::new(weights, 3).replacement(false);
    assert_eq!(sorted(of(&once, 0, 4)), [0, 2, 3]);
    // The first of three samples is the heaviest one in 5 of 8 epochs.
    let heaviest = (0..400).filter(|&it| of(&once, it, 4)[0] == 3).count();
    assert!((210..290).contains(&heaviest), "{heaviest}");
    let refused = |it: &dyn Sampler, samples| it.indices(Epoch::new(0, 0), samples).expect_err("refused").code();
    assert_eq!(refused(&WeightedRandomSampler::new(weights, 3), 5), Code::Argument);
    assert_eq!(refused(&WeightedRandomSampler::new(weights, 4).replacement(false), 4), Code::Argument);

    let subset = SubsetSampler::new([7, 3, 5]).shuffled(true);
    assert_eq!(sorted(of(&subset, 0, 8)), [3, 5, 7]);
    assert!((0..20).any(|it| of(&subset, it, 8) != of(&subset, 0, 8)));

    for (samples, shards) in [(10, 3), (9, 3), (2, 5)] {
        let all: Vec<usize> = (0..shards).flat_map(|it| of(&DistributedSampler::new(shards, it), 4, samples)).collect();
        let counts = counts(&all, samples);
        assert_eq!(all.len(), samples.div_ceil(shards) * shards);
        assert!(counts.iter().all(|&it| it >= 1), "{samples} on {shards}: {counts:?}");
    }
    assert_eq!(of(&DistributedSampler::new(3, 1).shuffled(false), 0, 7), [1, 4, 0]);
}

#[test]
fn a_bad_sampler_is_refused() {
    struct Bad(usize, Vec<usize>);
    impl Sampler for Bad {
        fn len(&self, _: usize) -> usize {
            self.0
        }
        fn indices(&self, _: Epoch, _: usize) -> Result<Vec<usize>> {
            Ok(self.1.clone())
        }
    }
    for (bad, code) in [(Bad(1, vec![3]), Code::OutOfRange), (Bad(2, vec![0]), Code::Argument)] {
        let loader = DataLoader::new(numbers(3).sample(bad));
        assert_eq!(loader.draw().expect_err("it is refused").code(), code);
    }
}

#[test]
fn errors_name_the_sample() {
    let check = |name: &str, got: Result<Tensor>, code: Code, words: &[&str]| {
        let error = got.expect_err(name);
        assert_eq!(error.code(), code, "{name}: {error}");
        words.iter().for_each(|it| assert!(error.to_string().contains(it), "{name}: {it} is not in\n{error}"));
    };
    for workers in [0, 2] {
        let loader = DataLoader::new(numbers(9).map(|it| it.reshape([if it.item::<i64>() == 5 { 2 } else { 1 }])))
            .workers(workers);
        let all: Vec<Result<Tensor>> = loader.iter().collect();
        assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|it| it != 5));
        check("an op that fails", all[5].clone(), Code::Shape, &["sample 5", "reshape"]);

        let fails = |it: Tensor| match it.item::<i64>() {
            6 => Err(Error::new(Code::Argument, "the sixth is odd")),
            _ => Ok(it),
        };
        let loader = DataLoader::new(numbers(9).skip(2).try_map(fails).shuffle().batch(7)).workers(workers);
        check("a function that fails", loader.draw(), Code::Argument, &["the sixth is odd", "sample 6"]);

        let ragged = |it: Tensor| Tensor::zeros([it.item::<i64>() as usize / 4]);
        let loader = DataLoader::new(numbers(9).map(ragged).batch(5)).workers(workers);
        check("unequal shapes", loader.draw(), Code::Shape, &["sample 4", "f32[1]", "f32[0]"]);

        let dtypes = |it: Tensor| if it.item::<i64>() == 1 { it.cast(DType::F32) } else { it };
        let loader = DataLoader::new(numbers(9).map(dtypes).batch(2)).workers(workers);
        check("unequal dtypes", loader.draw(), Code::DType, &["sample 1", "f32", "i64"]);

        let loader = DataLoader::new(numbers(3).map(|it| (it.item::<i64>() as u8, it)).batch(2).map(|it| it.1));
        check("unequal host values", loader.workers(workers).draw(), Code::Argument, &["sample 1", "is a tensor"]);

        let empty = DataLoader::new(numbers(0)).workers(workers);
        assert!(empty.iter().next().is_none());
        check("no samples", empty.draw(), Code::Argument, &["no samples"]);
    }
    let beyond = numbers(3).get(Epoch::new(0, 0), 3);
    check("an index beyond the end", beyond, Code::OutOfRange, &["no sample 3 among 3"]);
}

#[test]
fn a_panic_reaches_the_caller() {
    let data = numbers(4).map(|it| if it.item::<i64>() == 2 { std::panic::panic_any(7u8) } else { it });
    for workers in [0, 2] {
        let loader = DataLoader::new(data.clone()).workers(workers);
        let drawn = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.draw().expect("no error")));
        assert!(drawn().is_ok() && drawn().is_ok());
        assert_eq!(drawn().expect_err("it panics").downcast_ref::<u8>(), Some(&7));
        assert_eq!(drawn().expect("the next one").item::<i64>(), 3);
    }
}

/// No more samples are prefetched than requested, on no more threads than requested.
#[test]
fn what_is_ahead_is_bounded() {
    let computed = Arc::new(AtomicUsize::new(0));
    let threads = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let (counter, seen) = (computed.clone(), threads.clone());
    let data = numbers(1000).map(move |it| {
        counter.fetch_add(1, Ordering::SeqCst);
        seen.lock().expect("no panic").insert(std::thread::current().id());
        it
    });
    let loader = DataLoader::new(data).workers(3).prefetch(5);
    assert_eq!(computed.load(Ordering::SeqCst), 0, "nothing is computed before the first draw");
    for drawn in 1..=20 {
        loader.draw().expect("in memory");
        std::thread::sleep(std::time::Duration::from_millis(2));
        let computed = computed.load(Ordering::SeqCst);
        assert!((drawn..=drawn + 5).contains(&computed), "{computed} after {drawn}");
    }
    drop(loader);
    let threads = threads.lock().expect("no panic");
    assert!(threads.len() <= 3 && !threads.contains(&std::thread::current().id()));
}

#[test]
fn threads_share_a_loader() {
    let loader = DataLoader::new(numbers(60)).workers(2);
    let drawn: Vec<i64> = std::thread::scope(|scope| {
        let draw = || (0..20).map(|_| loader.draw().expect("in memory").item::<i64>()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(draw)).collect();
        threads.into_iter().flat_map(|it| it.join().expect("no panic")).collect()
    });
    assert_eq!(sorted(drawn), (0..60).collect::<Vec<_>>());
    assert_eq!((loader.epoch(), loader.position()), (1, 0));
}

#[test]
fn a_loader_goes_on_from_its_state() {
    for workers in [0, 3] {
        let loader = || DataLoader::new(numbers(10).shuffle().batch(3)).workers(workers);
        let (whole, other) = (loader(), loader());
        let draw = |it: &DataLoader<_>, count| -> Vec<i64> { (0..count).flat_map(|_| values(it)).collect() };
        draw(&whole, 6);
        let state = whole.state_dict();
        let want = draw(&whole, 7);
        draw(&other, 2);
        other.load_state_dict(&state, &LoadOptions::new()).expect("the same slots");
        assert_eq!((other.epoch(), other.position()), (1, 2));
        assert_eq!(draw(&other, 7), want, "{workers} workers");
    }
}

fn values<D: Dataset<Sample = Tensor> + 'static>(loader: &DataLoader<D>) -> Vec<i64> {
    loader.draw().expect("in memory").to_vec()
}
