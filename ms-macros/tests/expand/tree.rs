#[derive_tree]
struct State<T> {
    value: T,
    step: i64,
}

#[derive_static]
enum Plan {
    Keep,
    Repeat(usize),
    Named { name: String },
}
