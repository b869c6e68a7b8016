//! Reads the golden cases: a manifest, and the tensors that it names.

use ms::tensor::Array;
use ms::{DType, Tensor};
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

/// A test of one operator on given inputs, with the expected results.
pub struct Case {
    /// The name of the case, for reports.
    pub name: String,
    /// The name of the operator.
    pub op: String,
    /// The kind of operator, for reports.
    pub category: String,
    /// The attributes of the operator.
    pub attrs: Attributes,
    /// The operands.
    pub inputs: Vec<Tensor>,
    /// The expected results.
    pub outputs: Vec<Tensor>,
    /// The weight of each result in the sum that the gradients are taken of. `None` stands for a result that is not
    /// part of the sum. The list is empty if the case has no gradients.
    pub cotangents: Vec<Option<Tensor>>,
    /// The expected gradient for each operand; `None` if it has none.
    pub gradients: Vec<Option<Tensor>>,
    /// The relative and the absolute tolerance.
    pub tolerance: (f64, f64),
}

/// The attributes of a case.
pub struct Attributes(Value);

impl Attributes {
    /// Whether the attribute has a value other than null.
    pub fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|it| !it.is_null())
    }

    /// Returns a flag.
    pub fn flag(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or_else(|| panic!("{key} is a flag"))
    }

    /// Returns an integer.
    pub fn int(&self, key: &str) -> isize {
        self.0[key].as_i64().unwrap_or_else(|| panic!("{key} is an integer")) as isize
    }

    /// Returns an integer that is not negative.
    pub fn size(&self, key: &str) -> usize {
        self.int(key).try_into().unwrap_or_else(|_| panic!("{key} is not negative"))
    }

    /// Returns a number. Infinities are stored as strings.
    pub fn float(&self, key: &str) -> f64 {
        let value = &self.0[key];
        let text = || value.as_str()?.parse().ok();
        value.as_f64().or_else(text).unwrap_or_else(|| panic!("{key} is a number"))
    }

    /// Returns a number, or `None`.
    pub fn optional_float(&self, key: &str) -> Option<f64> {
        self.has(key).then(|| self.float(key))
    }

    /// Returns a list of numbers.
    pub fn floats(&self, key: &str) -> Vec<f64> {
        let list = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list"));
        list.iter().map(|it| it.as_f64().expect("a number")).collect()
    }

    /// Returns a word.
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} is a word"))
    }

    /// Returns a list, with `None` for null.
    pub fn optional_ints(&self, key: &str) -> Vec<Option<isize>> {
        let list = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list"));
        list.iter().map(|it| it.as_i64().map(|it| it as isize)).collect()
    }

    /// Returns a list of integers. A single integer is a list too.
    pub fn ints(&self, key: &str) -> Vec<isize> {
        match self.0[key].as_i64() {
            Some(one) => vec![one as isize],
            None => self.optional_ints(key).into_iter().map(|it| it.expect("an integer")).collect(),
        }
    }

    /// Returns a list of integers that are not negative.
    pub fn sizes(&self, key: &str) -> Vec<usize> {
        self.ints(key).into_iter().map(|it| it as usize).collect()
    }

    /// Whether the value is a list.
    pub fn is_list(&self, key: &str) -> bool {
        self.0[key].is_array()
    }

    /// Returns a list of words.
    pub fn texts(&self, key: &str) -> Vec<&str> {
        let list = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list"));
        list.iter().map(|it| it.as_str().expect("a word")).collect()
    }

    /// Returns a list of pairs.
    pub fn pairs(&self, key: &str) -> Vec<(usize, usize)> {
        let list = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list"));
        let number = |it: &Value| it.as_u64().expect("a size") as usize;
        list.iter().map(|it| (number(&it[0]), number(&it[1]))).collect()
    }

    /// Returns a dtype.
    pub fn dtype(&self, key: &str) -> DType {
        dtype_of(self.text(key))
    }
}

/// Returns the dtype with this name in PyTorch.
pub fn dtype_of(name: &str) -> DType {
    match name {
        "bool" => DType::Bool,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "float16" => DType::F16,
        "bfloat16" => DType::BF16,
        "float32" => DType::F32,
        "float64" => DType::F64,
        other => panic!("no dtype is called {other}"),
    }
}

/// Returns all cases.
pub fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(read_cases);
    &CASES
}

fn read_cases() -> Vec<Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data");
    let read = |name: &str| std::fs::read(data.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let tensors = Tensors::new(read("cases.safetensors"));
    let manifest: Value = serde_json::from_slice(&read("cases.json")).expect("the manifest is JSON");
    let entries = manifest.as_array().expect("the manifest is a list").iter();
    entries.flat_map(|it| [Some(case(it, &tensors)), in_blocks(it, &tensors)]).flatten().collect()
}

/// Returns the case of blocked attention with the operands and results of a case of attention.
fn in_blocks(entry: &Value, tensors: &Tensors) -> Option<Case> {
    let whole = case(entry, tensors);
    let is_attention = whole.op == "scaled_dot_product_attention";
    is_attention.then(|| Case { name: format!("{}.blocks", whole.name), op: "blocked_attention".to_string(), ..whole })
}

fn case(entry: &Value, tensors: &Tensors) -> Case {
    let optional = |key: &str| -> Vec<Option<Tensor>> {
        let keys = entry[key].as_array().expect("a list of keys");
        keys.iter().map(|it| it.as_str().map(|it| tensors.load(it))).collect()
    };
    let all = |key: &str| optional(key).into_iter().map(|it| it.expect("a key")).collect();
    let text = |key: &str| entry[key].as_str().expect("a word").to_string();
    let tolerance = |key: &str| entry["tol"][key].as_f64().expect("a number");
    Case {
        name: text("name"),
        op: text("op"),
        category: text("category"),
        attrs: Attributes(entry["attrs"].clone()),
        inputs: all("inputs"),
        outputs: all("outputs"),
        cotangents: optional("cotangents"),
        gradients: optional("grads"),
        tolerance: (tolerance("rtol"), tolerance("atol")),
    }
}

/// A file of tensors: the length of a header, the header in JSON, and the elements.
struct Tensors {
    header: Value,
    elements: Vec<u8>,
}

impl Tensors {
    fn new(mut file: Vec<u8>) -> Self {
        let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
        let elements = file.split_off(8 + length);
        let header = serde_json::from_slice(&file[8..]).expect("the header is JSON");
        Self { header, elements }
    }

    fn load(&self, key: &str) -> Tensor {
        let entry = &self.header[key];
        let numbers = |of: &str| -> Vec<usize> {
            let list = entry[of].as_array().unwrap_or_else(|| panic!("{key} has {of}"));
            list.iter().map(|it| it.as_u64().expect("a number") as usize).collect()
        };
        let dtype = entry["dtype"].as_str().expect("a dtype").to_lowercase();
        let dtype = DType::from_name(&dtype).unwrap_or_else(|| panic!("{key} has the dtype {dtype}"));
        let range = numbers("data_offsets");
        Tensor::placed(Array::from_bytes(&numbers("shape"), dtype, &self.elements[range[0]..range[1]]))
            .expect("there is memory")
    }
}
