//! `Vec`, `Option`, `Box`, `BTreeMap` and maps from strings are structures of tensors.
use ms::prelude::*;
use std::collections::{BTreeMap, HashMap};

#[jit]
fn sum(it: &[Tensor], more: &Option<Tensor>, boxed: &Box<Tensor>) -> Tensor {
    let start = more.clone().unwrap_or_else(|| Tensor::scalar(0.0f32));
    it.iter().fold(start + &**boxed, |sum, it| sum + it)
}

#[jit]
fn scaled(it: &HashMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    it.iter().map(|(name, it)| (name.clone(), it * name.len() as f64)).collect()
}

#[jit]
fn grown(it: &BTreeMap<i64, Vec<Tensor>>) -> HashMap<String, usize> {
    it.iter().map(|(key, it)| (key.to_string(), it.len())).collect()
}

#[test]
fn main() {
    let numbers = |values: &[f32]| values.iter().map(|&it| Tensor::scalar(it)).collect::<Vec<_>>();
    for _ in 0..2 {
        let boxed = Box::new(Tensor::scalar(0.5f32));
        assert_eq!(sum(&numbers(&[1.0, 2.0]), &None, &boxed).item::<f32>(), 3.5);
        assert_eq!(sum(&numbers(&[1.0, 2.0, 3.0]), &Some(Tensor::scalar(4.0f32)), &boxed).item::<f32>(), 10.5);
        let map: HashMap<String, Tensor> =
            ["a", "bb", "ccc"].iter().map(|it| (it.to_string(), Tensor::scalar(2.0f32))).collect();
        let scaled: Vec<f32> = scaled(&map).values().map(|it| it.item()).collect();
        assert_eq!(scaled, [2.0, 4.0, 6.0]);
        assert_eq!(grown(&BTreeMap::from([(7, numbers(&[1.0])), (9, vec![])])), HashMap::from([("7".into(), 1), ("9".into(), 0)]));
    }
}
