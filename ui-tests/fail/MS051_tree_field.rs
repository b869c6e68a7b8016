use ms::prelude::*;

#[derive(Clone, Tree)]
struct State {
    value: Tensor,
    thread: std::thread::ThreadId,
}

fn main() {}
