//! Tests that the simulated device behaves like a device: its memory is separate, and transfers are counted.

// Messages list the devices of the CPU, too.
use ms_cpu as _;

use ms_core::tensor::{Array, Device, MemorySpace};
use ms_core::{Code, DType, Tensor, exec, ops, tensor};
use ms_sim::SimBackend;
use std::process::Command;

fn sim(id: u16) -> Device {
    format!("sim:{id}").parse().expect("a name")
}

#[test]
fn elements_go_there_and_back() {
    let x = Tensor::from_slice([2, 3], &[1f32, 2., 3., 4., 5., 6.]);
    let there = x.to(sim(1));
    assert_eq!((there.device(), x.device()), (sim(1), Device::CPU));
    assert_eq!(there.to_vec::<f32>(), x.to_vec::<f32>());
    assert_eq!(format!("{there}"), format!("{x}"));
    let across = there.to("sim:2");
    assert_eq!((across.device(), across.to_vec::<f32>()), (sim(2), x.to_vec::<f32>()));
    assert_eq!(across.to("cpu").device(), Device::CPU);
    // A copy of a view copies the range of memory that contains its elements.
    let view = ops::transpose(&there, 0, 1);
    assert_eq!((view.device(), view.to_vec::<f32>()), (sim(1), vec![1., 4., 2., 5., 3., 6.]));
    assert_eq!(view.to("cpu").to_vec::<f32>(), [1., 4., 2., 5., 3., 6.]);
    let empty = Tensor::from_slice([0, 3], &[] as &[f32]).to("sim:1");
    assert_eq!(empty.to_vec::<f32>(), []);
}

#[test]
fn ops_run_where_their_operands_are() {
    let x = tensor![[1., 2.], [3., 4.]].to(sim(1));
    for (got, want) in [
        (&x + &x, [2., 4., 6., 8.]),
        (&x * 2.0, [2., 4., 6., 8.]),
        (2.0 * &x, [2., 4., 6., 8.]),
        (ops::matmul(&x, &x), [7., 10., 15., 22.]),
        (ops::transpose(&x, 0, 1) + &x, [2., 5., 5., 8.]),
        (ops::cumsum(&x, 1), [1., 3., 3., 7.]),
    ] {
        assert_eq!((got.device(), got.to_vec::<f32>()), (sim(1), want.to_vec()));
    }
    let both = ops::concat(&[&x, &x], 1);
    assert_eq!((both.device(), both.to_vec::<f32>()), (sim(1), vec![1., 2., 1., 2., 3., 4., 3., 4.]));
    let apart = ms_core::catch(|| &x + tensor![[1., 2.], [3., 4.]]).expect_err("two devices");
    assert_eq!(apart.code(), Code::Devices);
    let said = apart.to_string();
    assert!(said.contains("`sim:1`") && said.contains("`cpu`") && said.contains("add"), "{said}");
}

#[test]
fn what_crosses_and_what_lives_is_counted() {
    let simulation = SimBackend::simulation(3).expect("it exists");
    let before = simulation.counts();
    let x = tensor![1., 2., 3.].to(sim(3));
    let y = &x + &x;
    let sum = &y * &y;
    let counts = simulation.counts();
    assert_eq!(counts.copies_from_host - before.copies_from_host, 1);
    assert_eq!(counts.copies_to_host, before.copies_to_host, "nothing was read");
    assert_eq!(counts.runs - before.runs, 2);
    assert_eq!(counts.live_bytes - before.live_bytes, 3 * 12);
    assert_eq!(sum.to_vec::<f32>(), [4., 16., 36.]);
    assert_eq!(simulation.counts().copies_to_host - before.copies_to_host, 1);
    drop((x, y, sum));
    assert_eq!(simulation.counts().live_blocks, before.live_blocks);

    // Each call that may fail is made to fail. The error must leave nothing behind.
    let run = || {
        let x = tensor![1., 2., 3.].try_to(sim(3))?;
        ms_core::catch(|| ops::cumsum(&x + &x, 0))?.try_to_vec::<f32>()
    };
    for nth in 1.. {
        simulation.fail_call(nth);
        match run() {
            Ok(values) => {
                assert_eq!((values, nth > 3), (vec![2., 6., 12.], true));
                break;
            }
            Err(error) => assert_eq!(error.code(), Code::Backend, "call {nth}"),
        }
        assert_eq!(simulation.counts().live_blocks, before.live_blocks, "after call {nth}");
    }
    simulation.fail_call(0);
}

#[test]
fn devices_that_do_not_exist_are_refused() {
    for (name, words) in [
        ("cuda", ["`cuda:0`", "cpu, sim"]),
        ("ascend:3", ["`ascend:3`", "cpu, sim"]),
        ("sim:4", ["`sim:4`", "numbered from 0"]),
        ("cpu:1", ["`cpu:1`", "one device"]),
    ] {
        let error = tensor![1.].try_to(name).expect_err("no such device");
        assert_eq!(error.code(), Code::DeviceUnavailable, "{name}");
        words.iter().for_each(|it| assert!(error.to_string().contains(it), "{error}"));
    }
    assert_eq!(tensor![1.].try_to("c u").expect_err("no name").code(), Code::Argument);
}

/// Reading a device address on the host crashes the process.
#[test]
fn the_host_cannot_access_the_memory() {
    const CHILD: &str = "MS_TEST_STRAY_ACCESS";
    if std::env::var_os(CHILD).is_some() {
        let space: MemorySpace = exec::backend(sim(0)).expect("it exists").memory();
        let array = Array::zeros(&[4], DType::F32).to_space(space).expect("there is memory");
        // SAFETY: none. The test plants this error to check that the process crashes.
        println!("{}", unsafe { array.device_ptr().read_volatile() });
        return;
    }
    let program = std::env::current_exe().expect("a test has a path");
    let child = Command::new(program)
        .args(["--exact", "the_host_cannot_access_the_memory", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a test runs");
    assert!(!child.status.success() && child.status.code().is_none(), "a signal ends it: {:?}", child.status);
}
