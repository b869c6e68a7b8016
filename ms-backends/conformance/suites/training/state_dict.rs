//! Tests state dicts: names, matching entries, and reports.

use ms::Code;
use ms::prelude::*;

#[cell]
struct Block {
    norm: nn::LayerNorm,
    fc: nn::Dense,
}

#[cell]
struct Net {
    embed: nn::Embedding,
    blocks: nn::CellList<Block>,
    head: nn::Sequential,
}

fn net() -> Net {
    let block = || Block { norm: nn::LayerNorm::new(2), fc: nn::Dense::new(2, 2).without_bias() };
    Net {
        embed: nn::Embedding::new(5, 2),
        blocks: vec![block(), block()].into(),
        head: nn::sequential![nn::BatchNorm::new(2), nn::ReLU, nn::Dense::new(2, 3)],
    }
}

fn values(value: &impl Stateful) -> Vec<(String, Vec<f32>)> {
    value.state_dict().iter().map(|(name, it)| (name.to_owned(), it.cast(DType::F32).to_vec())).collect()
}

#[test]
fn names_are_those_of_each_framework() {
    let rows = [
        ("blocks[0].fc.weight", "blocks.0.fc.weight", "blocks.0.fc.weight"),
        ("blocks[0].norm.beta", "blocks.0.norm.bias", "blocks.0.norm.beta"),
        ("blocks[0].norm.gamma", "blocks.0.norm.weight", "blocks.0.norm.gamma"),
        ("blocks[1].fc.weight", "blocks.1.fc.weight", "blocks.1.fc.weight"),
        ("blocks[1].norm.beta", "blocks.1.norm.bias", "blocks.1.norm.beta"),
        ("blocks[1].norm.gamma", "blocks.1.norm.weight", "blocks.1.norm.gamma"),
        ("embed.table", "embed.weight", "embed.embedding_table"),
        ("head.layers[0].beta", "head.0.bias", "head.0.beta"),
        ("head.layers[0].gamma", "head.0.weight", "head.0.gamma"),
        ("head.layers[0].moving_mean", "head.0.running_mean", "head.0.moving_mean"),
        ("head.layers[0].moving_variance", "head.0.running_var", "head.0.moving_variance"),
        ("head.layers[2].bias", "head.2.bias", "head.2.bias"),
        ("head.layers[2].weight", "head.2.weight", "head.2.weight"),
    ];
    let saved = net();
    for convention in [Convention::Ms, Convention::PyTorch, Convention::MindSpore] {
        let name = |row: &(&'static str, &'static str, &'static str)| match convention {
            Convention::Ms => row.0,
            Convention::PyTorch => row.1,
            Convention::MindSpore => row.2,
        };
        let mut dict = StateDict::named(&saved, convention);
        let mut want = rows.map(|it| name(&it));
        want.sort();
        assert!(dict.names().eq(want), "{dict:?}");
        if convention == Convention::PyTorch {
            dict.insert("head.0.num_batches_tracked", Tensor::from(7i64));
        }
        let loaded = net();
        let report = loaded.load_state_dict(&dict, &LoadOptions::new().convention(convention)).expect("it is whole");
        assert!(report.is_complete() && report.loaded == rows.map(|it| it.0), "{report:?}");
        assert_eq!(values(&loaded), values(&saved), "{convention:?}");
    }
}

/// Checks whether a changed dict is accepted, strictly and not, and the words of the report. With `partial`, only
/// `loaded` is loaded.
#[track_caller]
fn check(change: impl Fn(&mut StateDict), strict: bool, loose: bool, words: &[&str], loaded: &[&str]) {
    let make = || nn::Dense::new(3, 2);
    let mut dict = make().state_dict();
    change(&mut dict);
    for (options, accepted) in [
        (LoadOptions::new(), strict),
        (LoadOptions::new().strict(false), loose),
        (LoadOptions::new().strict(false).partial(true), true),
        (LoadOptions::new().partial(true), true),
    ] {
        let net = make();
        let before = values(&net);
        match net.load_state_dict(&dict, &options) {
            Ok(report) => {
                assert!(accepted, "{options:?}");
                assert_eq!(report.loaded, loaded);
                words.iter().for_each(|it| assert!(report.to_string().contains(it), "`{it}` is not in {report}"));
                for (name, before) in before {
                    let kept = !loaded.contains(&name.as_str());
                    let now = net.state_dict().get(&name).expect("slots stay").to_vec::<f32>();
                    assert_eq!(now == before, kept, "{name}");
                }
            }
            Err(error) => {
                assert!(!accepted && error.code() == Code::Argument, "{options:?}: {error}");
                words.iter().for_each(|it| assert!(error.to_string().contains(it), "`{it}` is not in {error}"));
                assert_eq!(values(&net), before, "nothing is changed");
            }
        }
    }
}

#[test]
fn differences_are_reported_and_accepted_as_the_options_say() {
    let all = ["bias", "weight"];
    check(|_| (), true, true, &[], &all);
    check(|it| drop(it.remove("bias")), false, true, &["`bias` is missing"], &["weight"]);
    check(|it| drop(it.insert("other", Tensor::scalar(1.0))), false, true, &["`other` is unexpected"], &all);
    let misshaped = ["`weight` is f32[2, 3], the entry f32[3, 2]"];
    check(|it| drop(it.insert("weight", Tensor::ones([3, 2]))), false, false, &misshaped, &["bias"]);
    let of_f64 = Tensor::ones([2]).cast(DType::F64);
    let words = ["`bias` is f32[2], the entry f64[2]"];
    check(|it| drop(it.insert("bias", of_f64.clone())), false, false, &words, &["weight"]);
}

#[test]
fn entries_are_renamed_transposed_and_cast() {
    let net = nn::Dense::new(3, 2);
    let mut dict = StateDict::new();
    let stored = tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    dict.insert("model/kernel", stored.cast(DType::F64));
    dict.insert("model/bias", tensor![7.0, 8.0].cast(DType::BF16));
    let rename = |name: &str| format!("model/{}", name.replace("weight", "kernel"));
    let options = LoadOptions::new().rename(rename).transposed(|path| path == "weight").cast(true);
    let report = net.load_state_dict(&dict, &options).expect("it fits");
    assert!(report.is_complete());
    assert_eq!(net.weight.value().to_vec::<f32>(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    let x = tensor![[1.0, 1.0, 1.0]];
    assert_eq!(ms::jit(|net: &nn::Dense, x: &Tensor| net.call(x))(&net, &x).to_vec::<f32>(), [16.0, 20.0]);
    // Integers are not accepted as floats of another width.
    dict.insert("model/bias", tensor![1, 2]);
    let report = net.load_state_dict(&dict, &options.partial(true)).expect("differences are accepted");
    assert_eq!(report.misshaped.len(), 1);
}

#[cell]
struct Tied {
    first: Parameter,
    second: Parameter,
}

#[test]
fn a_shared_slot_is_saved_once_and_found_under_any_of_its_paths() {
    let make = |value: f32| {
        let first = Parameter::new(Tensor::scalar(value), "");
        Tied { second: first.clone(), first }
    };
    assert!(make(1.0).state_dict().names().eq(["first"]));
    // The entries of a dict, the value that is loaded, and whether all entries agree with the slot.
    type Entries = &'static [(&'static str, f32)];
    let cases: [(Entries, f32, bool); 4] = [
        (&[("first", 2.0)], 2.0, true),
        (&[("second", 3.0)], 3.0, true),
        (&[("first", 4.0), ("second", 4.0)], 4.0, true),
        (&[("first", 5.0), ("second", 6.0)], 5.0, false),
    ];
    for (entries, want, complete) in cases {
        let dict: StateDict = entries.iter().map(|it| (it.0.to_owned(), Tensor::scalar(it.1))).collect();
        let tied = make(1.0);
        assert_eq!(tied.load_state_dict(&dict, &LoadOptions::new()).is_ok(), complete, "{entries:?}");
        let report = tied.load_state_dict(&dict, &LoadOptions::new().partial(true)).expect("accepted");
        assert_eq!((tied.second.value().item::<f32>(), report.is_complete()), (want, complete), "{entries:?}");
    }
}

#[test]
fn a_dict_keeps_the_values_of_its_time() {
    let (net, opt) = (nn::Dense::new(3, 1), SGD::new(0.1).momentum(0.9));
    let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
    let step = || opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    step();
    let dict = (&net, &opt).state_dict();
    let before = values(&(&net, &opt));
    (0..3).for_each(|_| drop(step()));
    let kept: Vec<_> = dict.iter().map(|(name, it)| (name.to_owned(), it.cast(DType::F32).to_vec())).collect();
    assert_eq!(kept, before);
    assert_ne!(values(&(&net, &opt)), before);
}

/// The state of an optimiser is named after its parameters, whatever their order. Loading creates it in an optimiser
/// that has made no step.
#[test]
fn state_of_optimisers_belongs_to_paths() {
    let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
    let train = |net: &nn::Sequential, opt: &Adam| {
        opt.step(net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    };
    let make = || nn::sequential![nn::Dense::new(3, 3), nn::Dense::new(3, 1)];
    let (net, opt) = (make(), Adam::new(0.1));
    (0..3).for_each(|_| train(&net, &opt));
    let dict = (&net, &opt).state_dict();
    let moments = dict.names().filter(|it| it.contains("[\"[0].layers[1].weight\"]")).count();
    assert_eq!(moments, 2, "{:?}", dict.names().collect::<Vec<_>>());
    let (other, resumed) = (make(), Adam::new(0.5));
    let backwards: Vec<Parameter> = other.parameters().into_iter().rev().collect();
    resumed.prepare(&backwards[..1]);
    (&other, &resumed).load_state_dict(&dict, &LoadOptions::new()).expect("the state is created");
    for _ in 0..3 {
        train(&net, &opt);
        train(&other, &resumed);
        assert_eq!(values(&(&net, &opt)), values(&(&other, &resumed)));
    }
}

#[test]
fn buffers_are_saved_and_never_trained() {
    let norm = nn::BatchNorm::new(1);
    for parameter in norm.parameters() {
        parameter.set_requires_grad(true);
    }
    assert_eq!((norm.trainable_parameters().len(), norm.state_dict().len()), (2, 4));
    let opt = SGD::new(0.1);
    let x = tensor![[1.0], [3.0]];
    opt.step(&norm, &x, |norm, x| norm.call(x).square().mean(()));
    assert!((norm.moving_mean.value().item::<f32>() - 0.2).abs() < 1e-6, "only the batch changes it");
}

#[cell]
impl Block {
    fn construct(&self, x: &Tensor) -> Tensor {
        x + self.fc(&self.norm(x)).tanh()
    }
}

#[cell]
impl Net {
    fn construct(&self, ids: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(self.embed(ids), |x, block| block.call(&x));
        self.head(&x)
    }
}

/// The test loads a file that PyTorch wrote: `data/generate.py`.
#[test]
fn a_network_of_pytorch_is_loaded_and_computes_the_same() {
    let path = ms_conformance::data("training/data/pytorch.safetensors");
    let file = StateDict::read(path).expect("the file is there");
    let width = 4;
    let block = || Block { norm: nn::LayerNorm::new(width), fc: nn::Dense::new(width, width).without_bias() };
    let net = Net {
        embed: nn::Embedding::new(5, width),
        blocks: (0..2).map(|_| block()).collect(),
        head: nn::sequential![nn::BatchNorm::new(width), nn::ReLU, nn::Dense::new(width, 3)],
    };
    let options = LoadOptions::new().convention(Convention::PyTorch);
    let report = net.load_state_dict(&file.part("state"), &options).expect("every name is known");
    assert_eq!(report.loaded.len(), 13);
    net.set_train(false);
    let [ids, want] = ["ids", "outputs"].map(|it| file.get(it).expect("it is in the file"));
    for got in [net.call(ids), ms::jit(|net: &Net, ids: &Tensor| net.call(ids))(&net, ids)] {
        let distance = (got - want).abs().max(()).item::<f32>();
        assert!(distance < 1e-5, "{distance}");
    }
}
