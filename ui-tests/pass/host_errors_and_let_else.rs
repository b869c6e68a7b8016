//! `?`, `let .. else`, `if let` chains and iterators: host code keeps Rust's meaning.
use ms::prelude::*;

#[derive(Debug, PartialEq)]
enum Problem {
    Missing(String),
    Number,
    Library,
}

impl From<std::num::ParseFloatError> for Problem {
    fn from(_: std::num::ParseFloatError) -> Self {
        Self::Number
    }
}

impl From<ms::Error> for Problem {
    fn from(_: ms::Error) -> Self {
        Self::Library
    }
}

#[jit]
fn run(x: &Tensor, settings: &[(String, String)]) -> std::result::Result<Tensor, Problem> {
    let find = |name: &str| settings.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
    let Some(scale) = find("scale") else {
        return Err(Problem::Missing("scale".to_owned()));
    };
    let scale: f64 = scale.parse()?;
    let mut names: Vec<String> = vec![];
    let mut x = x * scale;
    for (name, value) in settings {
        if let Some(rest) = name.strip_prefix("add.")
            && rest.len() > 1
        {
            names.push(rest.to_owned());
            x = x + value.parse::<f64>()?;
        }
    }
    assert!(names.len() < 5, "too many: {names:?}");
    Ok(x)
}

#[test]
fn main() {
    let text = |it: &[(&str, &str)]| it.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect::<Vec<_>>();
    let call = |it: &[(&str, &str)]| run(&Tensor::scalar(2.0f32), &text(it)).map(|it| it.item::<f32>());
    for _ in 0..2 {
        assert_eq!(call(&[]), Err(Problem::Missing("scale".into())));
        assert_eq!(call(&[("scale", "x")]), Err(Problem::Number));
        assert_eq!(call(&[("scale", "3"), ("add.one", "1"), ("add.two", "0.5"), ("add.x", "9")]), Ok(7.5));
    }
}
